// SPDX-License-Identifier: Apache-2.0

// Tables of any size that try to exceed the bound on the memory of a FIB: one
// kind for each way in which routes can avoid sharing memory.

#ifndef PLANB_LPM_TESTING_BOUND_TABLES_H_
#define PLANB_LPM_TESTING_BOUND_TABLES_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "lpm/fib/fib_bound.h"
#include "lpm/prefix.h"

namespace planb {

struct BoundTable {
  std::string name;
  Family family = Family::kIpv6;
  // `count` prefixes or a few more or, where there are not as many, fewer;
  // repeats allowed, in any order.
  std::vector<Prefix> (*make)(size_t count) = nullptr;
};

void PrintTo(const BoundTable& table, std::ostream* out);

const std::vector<BoundTable>& BoundTables();

// `prefixes` in order, with `next_hops` different next hops, or, if that is 0,
// as many as prefixes; neighbours never have the same, unless there is but one.
std::vector<Route> BoundRoutes(std::vector<Prefix> prefixes, size_t next_hops);

RoutesByLength CountLengths(const std::vector<Route>& routes);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_BOUND_TABLES_H_
