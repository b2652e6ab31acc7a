// SPDX-License-Identifier: Apache-2.0

// One address asked for, one call in flight: the bare latency of a gRPC server,
// by one client that treats every server alike.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_PING_H_
#define PLANB_BENCHMARKS_SERVING_RPC_PING_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/latency_histogram.h"

namespace planb::rpc {

struct PingOptions {
  // BatchLookup, a message after the other on one stream; else Lookup, a call
  // after the other.
  bool stream = false;
  // Ask the completion queue again and again instead of sleeping in it.
  bool spin = false;
  // The bytes of the request message, sent over and over.
  std::string request;
  // Checks the first reply only: checking others would be measured.
  std::function<absl::Status(absl::string_view reply)> check;
  absl::Duration warm_up = absl::Milliseconds(200);
  absl::Duration duration = absl::Seconds(1);
};

struct PingResult {
  absl::Duration elapsed;
  client::LatencyHistogram latency;
  double client_cpu_seconds = 0;  // of this process
  double server_cpu_seconds = 0;
};

// Errors: how the call ended; that of `check`. `server` is the process to
// report processor time of, 0 for none.
absl::StatusOr<PingResult> Ping(const std::shared_ptr<grpc::Channel>& channel,
                                const PingOptions& options, int server = 0);

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_PING_H_
