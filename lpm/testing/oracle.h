// SPDX-License-Identifier: Apache-2.0

// The right answers that every answer in this project is tested against, and
// the addresses worth asking for: where an answer can change, and either side.
//
// The oracle looks at every route and keeps the longest that matches. It is
// built on nothing the engine is built on (no intervals, no order, no search).
// For millions of addresses there is lpm/synthetic/reference_table.h.

#ifndef PLANB_LPM_TESTING_ORACLE_H_
#define PLANB_LPM_TESTING_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// The address after (before) `address`; the last one's next is the first.
Address NextAddress(const Address& address);
Address PreviousAddress(const Address& address);

// The first and the last address of `prefix`.
Address FirstAddress(const Prefix& prefix);
Address LastAddress(const Prefix& prefix);

// Returns for each route its first and last address and the ones just outside,
// in the order of the routes: four a route, so consecutive repeats are
// possible.
std::vector<Address> BoundaryProbes(absl::Span<const Route> routes);

// Returns `per_route` random addresses in each route.
std::vector<Address> InsideProbes(absl::Span<const Route> routes,
                                  size_t per_route, uint64_t seed);

// Returns `count` addresses, each random over the whole address space.
std::vector<Address> UniformProbes(Family family, size_t count, uint64_t seed);

// The simplest correct longest-prefix match. Holds routes of both families.
// Each prefix appears once. Thread-safe: const after construction.
class Oracle {
 public:
  explicit Oracle(std::vector<Route> routes);

  // The route with the longest prefix that contains `address`, or none.
  // O(routes).
  std::optional<Route> Lookup(const Address& address) const;

 private:
  std::vector<Route> routes_;
};

// The oracle's next hops for `addresses`, in their order.
// O(routes * addresses).
std::vector<NextHopId> AnswersByOracle(absl::Span<const Route> routes,
                                       absl::Span<const Address> addresses);
// Does the same, by a ReferenceTable where the oracle would take too long.
std::vector<NextHopId> RightAnswers(absl::Span<const Route> routes,
                                    absl::Span<const Address> addresses);

// For each address ReferenceTable::NextHopOfHalf.
std::vector<NextHopId> RightUpperAnswers(absl::Span<const Route> routes,
                                         absl::Span<const Address> addresses);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_ORACLE_H_
