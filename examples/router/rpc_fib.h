// SPDX-License-Identifier: Apache-2.0

// A table that is asked: each LPM core has a BatchLookup stream of its own, and
// several bursts in flight on it, which share messages while the server is
// busy. Of IPv6 addresses the upper halves are sent. Where prefixes beyond /64
// decide, the burst is asked again with whole ones.

#ifndef PLANB_EXAMPLES_ROUTER_RPC_FIB_H_
#define PLANB_EXAMPLES_ROUTER_RPC_FIB_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/batch_lookup.h"
#include "client/channel.h"
#include "examples/router/fib.h"

namespace planb::router {

struct RpcOptions {
  std::string table = {};
  // Bursts of a core that wait for answers. As many as gRPC takes without the
  // server's reading: sending never waits.
  size_t in_flight = 32;
  // A server that answered and is silent for so long is away: packets that
  // wait, and those that come, get the last answer about their flow, or none.
  // An answer that comes later is such a last one.
  absl::Duration patience = absl::Milliseconds(50);
  // And after so long none at all: they are dropped.
  absl::Duration grace = absl::Seconds(10);
  // After upper halves did not decide, whole addresses are sent for so long.
  absl::Duration whole_addresses = absl::Seconds(1);
  // Not owned; may be null. Of all cores.
  client::LookupObserver* observer = nullptr;
};

// Errors: INVALID_ARGUMENT without a burst in flight, or with over 1,024.
absl::StatusOr<MakeLookups> RpcLookups(client::OpenChannel open,
                                       RpcOptions options);

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_RPC_FIB_H_
