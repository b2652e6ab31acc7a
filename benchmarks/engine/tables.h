// SPDX-License-Identifier: Apache-2.0

// The routing tables that measurements use, by name.
//
//   real          RouteViews' IPv6 table in PLANB_DATA_DIR
//   ipv4          RouteViews' IPv4 table there
//   250000        so many made-up IPv6 routes (lpm/synthetic.h, seed 1)
//   ipv4:1000000  so many made-up IPv4 routes
//   hosts64       100,000 /128s in one /64
//   hosts48       100,000 /128s in one /48
//   hosts-spread  100,000 /128s all over 2000::/3
//   a/path        a route file (its IPv6 routes, or IPv4 if it has no others)
//
// and what is done to it, after a plus sign, in order: "real+long5".
//
//   +long5, +long50  5% or 50% of the routes are replaced by longer ones: of
//                    65..128 bits, each in a route that stays
//   +max64           routes longer than /64 are left out
//   +hosts64, +hosts48, +hosts-spread  those hosts in addition

#ifndef PLANB_BENCHMARKS_ENGINE_TABLES_H_
#define PLANB_BENCHMARKS_ENGINE_TABLES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/prefix.h"

namespace planb {

struct Table {
  std::string name;
  Family family = Family::kIpv6;
  std::vector<Route> routes;  // sorted, distinct
};

// Makes or reads the table named `name`; the same on every machine.
// Errors: INVALID_ARGUMENT for a name that means nothing; what reading a file
// may give.
absl::StatusOr<Table> MakeTable(absl::string_view name);

// Gives the routes other next hops: none for "as-given", for "random:N" each
// one of 1..N, uniformly, from a fixed seed.
// Errors: INVALID_ARGUMENT.
absl::Status AssignNextHops(absl::string_view how, std::vector<Route>& routes);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_TABLES_H_
