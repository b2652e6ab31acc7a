// SPDX-License-Identifier: Apache-2.0

// Measures the bare latency of a gRPC server: one client asks for one address
// with one call in flight, in the same way of every server.

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
  // True: BatchLookup sends one message after the other on one stream. False:
  // Lookup makes one call after the other.
  bool stream = false;
  // The client asks the completion queue again and again, and does not sleep.
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

// Errors: how the call ended; that of `check`. The report has the processor
// time of the process `server`, if it is not 0.
absl::StatusOr<PingResult> Ping(const std::shared_ptr<grpc::Channel>& channel,
                                const PingOptions& options, int server = 0);

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_PING_H_
