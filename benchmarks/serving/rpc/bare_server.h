// SPDX-License-Identifier: Apache-2.0

// A bare gRPC server: BatchLookup on raw bytes, with one completion queue and
// one thread, as planb_server has for each core, and nothing around it. What
// planb_server adds to it is the server's own cost.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_
#define PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lpm/fib/fib.h"

namespace planb::rpc {

// Answers a BatchLookupRequest with IPv6 addresses, in full or by their upper
// halves, as planb_server does: addresses are read where they were received,
// next hops written where they are sent from. INVALID_ARGUMENT ends a stream
// with anything malformed, IPv4, named tables or prefix lengths. Thread-safe.
class BareServer {
 public:
  // Runs until its end. `addresses` are gRPC's; `fib`, of IPv6, outlives it.
  // Errors: UNAVAILABLE if an address cannot be had.
  static absl::StatusOr<std::unique_ptr<BareServer>> Start(
      const std::vector<std::string>& addresses, const Fib& fib);
  virtual ~BareServer() = default;

  // The TCP port of addresses[i]; meaningless for a Unix socket.
  virtual int port(size_t i) const = 0;
};

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_
