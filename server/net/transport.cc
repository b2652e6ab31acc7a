// SPDX-License-Identifier: Apache-2.0

#include "server/net/transport.h"

#include <grpc/impl/codegen/grpc_types.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

constexpr int kReadBytes = 1 << 20;

// To gRPC, the largest int means never.
int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration),
                                            std::numeric_limits<int>::max()));
}

// Up to so many connections, waiting for each by itself is quicker.
constexpr uint32_t kMostPolled = 1'000;
constexpr char kPollingVariable[] = "GRPC_POLL_STRATEGY";

}  // namespace

absl::StatusOr<std::string> SetPolling(const std::string& polling,
                                       uint32_t max_connections) {
  const char* const inherited = std::getenv(kPollingVariable);
  if (polling == "auto" && inherited != nullptr) return inherited;
  const bool few = max_connections > 0 && max_connections <= kMostPolled;
  if (polling == "poll" || (polling == "auto" && few)) {
    setenv(kPollingVariable, "poll", /*replace=*/1);
    return "poll";
  }
  if (polling == "epoll" || polling == "auto") {
    setenv(kPollingVariable, "epoll1", /*replace=*/1);
    return "epoll";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--polling=\"", polling, "\" is not one of auto, poll, epoll"));
}

void SetQuota(const TransportOptions& options, grpc::ResourceQuota& quota) {
  quota.Resize(options.memory_quota_bytes);
  quota.SetMaxThreads(options.max_control_calls);
}

absl::Status CheckTransport(const TransportOptions& options) {
  const auto positive = [](absl::string_view name, auto value, auto zero) {
    return value > zero ? absl::OkStatus()
                        : absl::InvalidArgumentError(
                              absl::StrCat("--", name, " must be positive"));
  };
  absl::Status status =
      positive("max_message_bytes", options.max_message_bytes, 0);
  status.Update(
      positive("memory_quota_bytes", options.memory_quota_bytes, size_t{0}));
  status.Update(
      positive("max_connection_streams", options.max_connection_streams, 0));
  status.Update(positive("max_control_calls", options.max_control_calls, 0));
  const absl::Duration zero = absl::ZeroDuration();
  status.Update(positive("keepalive_time", options.keepalive_time, zero));
  status.Update(positive("keepalive_timeout", options.keepalive_timeout, zero));
  status.Update(positive("min_ping_interval", options.min_ping_interval, zero));
  status.Update(
      positive("max_connection_idle", options.max_connection_idle, zero));
  status.Update(
      positive("max_connection_age", options.max_connection_age, zero));
  status.Update(positive("max_connection_age_grace",
                         options.max_connection_age_grace, zero));
  status.Update(positive("handshake_timeout", options.handshake_timeout, zero));
  return status;
}

void SetTransport(const TransportOptions& options,
                  const grpc::ResourceQuota& quota,
                  grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetResourceQuota(quota);
  const auto set = [&builder](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  };
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_connection_streams);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, ToMilliseconds(options.keepalive_time));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMilliseconds(options.keepalive_timeout));
  // Pings are sent and accepted on idle connections too.
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      ToMilliseconds(options.min_ping_interval));
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
      ToMilliseconds(options.max_connection_idle));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS,
      ToMilliseconds(options.max_connection_age));
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
      ToMilliseconds(options.max_connection_age_grace));
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      ToMilliseconds(options.handshake_timeout));
  // Bounds the bytes read from one connection at a time, so that a flood on it
  // does not delay others.
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // gRPC does not bound decompressed messages: 16 MiB may become 16 GiB.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

}  // namespace planb::server
