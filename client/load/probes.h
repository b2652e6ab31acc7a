// SPDX-License-Identifier: Apache-2.0

// The addresses that tell whether a server holds exactly a table.

#ifndef PLANB_CLIENT_LOAD_PROBES_H_
#define PLANB_CLIENT_LOAD_PROBES_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

// Hands out, for every route, the addresses around the two boundaries at which
// the answer may change: its first address and the one after its last, each
// with both neighbours, as far as the family has them. At most six a route,
// repeats included. O(routes).
// Errors: what `on_address` returns, which ends it.
absl::Status VisitBoundaries(
    absl::Span<const Route> routes,
    absl::FunctionRef<absl::Status(const Address&)> on_address);

// Hands out `count` sampled addresses: most of them within routes, the others
// anywhere; of both families if `routes` (sorted) has both. Memory does not
// grow with `count`.
// Errors: what `on_address` returns, which ends it.
absl::Status VisitSamples(
    absl::Span<const Route> routes, size_t count, uint64_t seed,
    absl::FunctionRef<absl::Status(const Address&)> on_address);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_PROBES_H_
