// SPDX-License-Identifier: Apache-2.0

// A second opinion on longest-prefix match, for checking a server's answers: a
// hash map for each prefix length, asked from the longest to the shortest.
// Shares no code and no idea with the engine's interval tree, and is quick
// enough for millions of questions, which the engine's oracle is not.

#ifndef PLANB_CLIENT_LOAD_REFERENCE_TABLE_H_
#define PLANB_CLIENT_LOAD_REFERENCE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

// Holds routes of both families. Thread-safe: const after construction.
class ReferenceTable {
 public:
  // Of a prefix given twice, the last route counts. O(routes).
  explicit ReferenceTable(absl::Span<const Route> routes);

  // The route with the longest prefix that contains `address`, or none. One
  // hash look-up for each prefix length that occurs in the address's family.
  std::optional<Route> Lookup(const Address& address) const;

  // Its next hop, or kNoRoute.
  NextHopId NextHop(const Address& address) const;

  // That of every IPv6 address with the upper half of `address`; kUndecided if
  // they do not agree.
  NextHopId NextHopOfHalf(const Address& address) const;

 private:
  // All routes of one length: first address to next hop.
  struct Length {
    int length;
    absl::uint128 mask;
    absl::flat_hash_map<absl::uint128, NextHopId> next_hops;
  };
  // Of one family, longest first.
  using Half = std::vector<Length>;

  static Half Build(Family family, absl::Span<const Route> routes);

  Half ipv4_;
  Half ipv6_;
  // By upper half: where routes longer than /64 begin, and what follows their
  // last address.
  absl::flat_hash_map<uint64_t, std::vector<absl::uint128>> changes_;
};

// The addresses that tell whether a server holds exactly a table.

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

#endif  // PLANB_CLIENT_LOAD_REFERENCE_TABLE_H_
