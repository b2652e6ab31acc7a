// SPDX-License-Identifier: Apache-2.0

// The channels use the defaults of gRPC's transport: other frame sizes, buffers
// and lookahead gained nothing in measurements, and disabling bandwidth probing
// costs a fifth or more. Only the message size changes, there is keepalive, and
// HTTP proxies are disabled: a proxy in the environment is for the web, not for
// lookups within a host or a rack.

#include "client/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/sync.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/pem_file.h"
#include "base/target.h"
#include "client/call.h"

struct grpc_socket_mutator;

struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  const void* mutate_fd_2;  // null: mutate_fd is called
};

struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

// Sets the table and a first reference.
void grpc_socket_mutator_init(grpc_socket_mutator* mutator,
                              const grpc_socket_mutator_vtable* vtable);

namespace planb::client {

namespace {

absl::Status ReadAuthorities(const std::string& path,
                             grpc::SslCredentialsOptions& into) {
  absl::StatusOr<tls::PemFile> ca = tls::ReadPemFile("tls_ca", path);
  if (!ca.ok()) return ca.status();
  const auto checked = tls::CheckAuthorities(*ca, absl::Now());
  if (!checked.ok()) return checked.status();
  into.pem_root_certs = std::move(ca->text);
  return absl::OkStatus();
}

absl::Status ReadIdentity(const TlsOptions& options,
                          grpc::SslCredentialsOptions& into) {
  absl::StatusOr<tls::PemFile> cert =
      tls::ReadPemFile("tls_cert", options.cert);
  if (!cert.ok()) return cert.status();
  absl::StatusOr<tls::PemFile> key = tls::ReadPemFile("tls_key", options.key);
  if (!key.ok()) return key.status();
  const auto checked = tls::CheckIdentity(*cert, *key, absl::Now());
  if (!checked.ok()) return checked.status();
  into.pem_cert_chain = std::move(cert->text);
  into.pem_private_key = std::move(key->text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& options) {
  if (!options.has_value()) return grpc::InsecureChannelCredentials();
  if (options->cert.empty() != options->key.empty()) {
    return absl::InvalidArgumentError(
        "tls_cert and tls_key must be given both or not at all");
  }
  grpc::SslCredentialsOptions made;
  absl::Status status;
  if (!options->ca.empty()) status = ReadAuthorities(options->ca, made);
  if (status.ok() && !options->cert.empty()) {
    status = ReadIdentity(*options, made);
  }
  if (!status.ok()) return status;
  return grpc::SslCredentials(made);
}

namespace {

// True if `target` may name several servers: a list, or a host name.
bool MayBeSeveral(absl::string_view target) {
  if (absl::StrContains(target, ',')) return true;
  if (!LeavesHost(target)) return false;
  for (absl::string_view scheme : {"dns:", "ipv4:", "ipv6:", "///"}) {
    absl::ConsumePrefix(&target, scheme);
  }
  const absl::string_view host = target.substr(0, target.rfind(':'));
  return !absl::StartsWith(host, "[") &&
         host.find_first_not_of("0123456789.") != absl::string_view::npos;
}

// The reason why the last attempt failed. gRPC reports it only to calls.
std::string LastError(grpc::Channel& channel, absl::Time deadline) {
  grpc::GenericStub stub(channel.shared_from_this());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(
      ToGrpc(std::min(deadline, MonotonicNow() + absl::Seconds(1))));
  const auto call = stub.PrepareUnaryCall(
      &context, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(), &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status.error_message();
}

// To gRPC, the largest int means never.
int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration),
                                            std::numeric_limits<int>::max()));
}

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelWith(
    const Credentials& credentials, absl::string_view target,
    const ChannelOptions& options) {
  absl::Status status = CheckTarget("server", target);
  if (!status.ok()) return status;
  if (options.tls.has_value() && IsUnixTarget(target)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "server: \"", target, "\" is a Unix socket, where no TLS is spoken"));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // With several addresses, such as a headless service's, gRPC's default policy
  // always uses the first that accepts a connection, even a draining server.
  // With one address the default is better: it connects when a call needs it,
  // and has no backoff from failures that no call saw, as after a restart.
  if (MayBeSeveral(target)) {
    arguments.SetLoadBalancingPolicyName("round_robin");
  }
  SocketOptions sockets;
  if (LeavesHost(target)) sockets.loopback_congestion.clear();
  SetSocketOptions(sockets, arguments);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   ToMilliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   ToMilliseconds(options.keepalive_timeout));
  // Else gRPC stops after two pings on a connection that only receives.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A channel that is kept, such as a watch's, looks for its server this often
  // at least; gRPC's own pause grows to two minutes.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  if (options.own_connection) {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  }
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return grpc::CreateCustomChannel(std::string(target), credentials, arguments);
}

// Keeps the last usable credentials. Thread-safe.
class LastGood {
 public:
  explicit LastGood(Credentials first) : last_(std::move(first)) {}

  Credentials Renew(const std::optional<TlsOptions>& options) {
    absl::StatusOr<Credentials> fresh = MakeCredentials(options);
    absl::MutexLock lock(&mutex_);
    if (fresh.ok()) last_ = *std::move(fresh);
    return last_;
  }

 private:
  absl::Mutex mutex_;
  Credentials last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    absl::string_view target, const ChannelOptions& options) {
  const auto credentials = MakeCredentials(options.tls);
  if (!credentials.ok()) return credentials.status();
  return ChannelWith(*credentials, target, options);
}

absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target,
                                       const ChannelOptions& options) {
  ChannelOptions own = options;
  own.own_connection = true;
  auto first = MakeCredentials(own.tls);
  if (!first.ok()) return first.status();
  // Checks the target once, so that later channels to it cannot fail.
  if (auto channel = ChannelWith(*first, target, own); !channel.ok()) {
    return channel.status();
  }
  return [target = std::string(target), own,
          credentials = std::make_shared<LastGood>(*std::move(first))] {
    return ChannelWith(credentials->Renew(own.tls), target, own).value();
  };
}

absl::Status Connect(grpc::Channel& channel, Deadline when) {
  const absl::Time deadline = when.time();
  while (true) {
    const grpc_connectivity_state state =
        channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE ||
        state == GRPC_CHANNEL_SHUTDOWN) {
      return absl::UnavailableError(LastError(channel, deadline));
    }
    if (!channel.WaitForStateChange(state, ToGrpc(deadline))) {
      return absl::DeadlineExceededError("no connection in time");
    }
  }
}

// A channel makes new sockets each time it reconnects, and in gRPC 1.51 only a
// socket mutator sees them. ChannelArguments accept a mutator and the libraries
// export grpc_socket_mutator_init, but the packages omit the header that
// defines the type. These definitions are those of gRPC 1.51. call_test.cc
// checks real sockets and fails if the definitions no longer match.

namespace {

struct Mutator {
  explicit Mutator(SocketOptions o) : options(std::move(o)) {}

  grpc_socket_mutator base;  // first: gRPC knows only this part
  const SocketOptions options;
};

const SocketOptions& OptionsOf(grpc_socket_mutator* mutator) {
  return reinterpret_cast<Mutator*>(mutator)->options;
}

bool Mutate(int fd, grpc_socket_mutator* mutator) {
  SetUnixSendBuffer(fd, OptionsOf(mutator));
  SetLoopbackCongestion(fd, OptionsOf(mutator));
  return true;
}

// Channels share connections only if their mutators are equal.
int Compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
  const SocketOptions& x = OptionsOf(a);
  const SocketOptions& y = OptionsOf(b);
  if (x.unix_send_buffer != y.unix_send_buffer) {
    return x.unix_send_buffer < y.unix_send_buffer ? -1 : 1;
  }
  return x.loopback_congestion.compare(y.loopback_congestion);
}

void Destroy(grpc_socket_mutator* mutator) {
  delete reinterpret_cast<Mutator*>(mutator);
}

constexpr grpc_socket_mutator_vtable kVtable = {Mutate, Compare, Destroy,
                                                nullptr};

}  // namespace

void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments) {
  auto* const mutator = new Mutator(options);
  grpc_socket_mutator_init(&mutator->base, &kVtable);
  arguments.SetSocketMutator(&mutator->base);
}

}  // namespace planb::client
