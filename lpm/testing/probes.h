// SPDX-License-Identifier: Apache-2.0

// The addresses worth asking for: where an answer can change, and either side.

#ifndef PLANB_LPM_TESTING_PROBES_H_
#define PLANB_LPM_TESTING_PROBES_H_

#include <cstddef>
#include <cstdint>
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

// For each route its first and last address and the ones just outside, in the
// order of the routes: four a route, so consecutive repeats are possible.
std::vector<Address> BoundaryProbes(absl::Span<const Route> routes);

// `per_route` random addresses in each route.
std::vector<Address> InsideProbes(absl::Span<const Route> routes,
                                  size_t per_route, uint64_t seed);

// `count` addresses, each random over the whole address space.
std::vector<Address> UniformProbes(Family family, size_t count, uint64_t seed);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_PROBES_H_
