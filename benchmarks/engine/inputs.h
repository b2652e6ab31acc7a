// SPDX-License-Identifier: Apache-2.0

// Makes what the measurements look up, the tables, and the changes of tables.

#ifndef PLANB_BENCHMARKS_ENGINE_INPUTS_H_
#define PLANB_BENCHMARKS_ENGINE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/traffic.h"

namespace planb {

// The routing tables that measurements use, by name.
//
//   real          RouteViews' IPv6 table in PLANB_DATA_DIR
//   ipv4          RouteViews' IPv4 table there
//   250000        so many made-up IPv6 routes (lpm/synthetic/synthetic.h)
//   2019:76342    so many with the length mix of that year, 2019 to 2025
//   ipv4:1000000  so many made-up IPv4 routes
//   deep:100000   nested as deeply as can be: every length from /20 to /128
//                 around one address, then around the next
//   one48:60000   so many /64s of one /48, at most 65,536
//   hosts64       100,000 /128s in one /64
//   hosts48       100,000 /128s in one /48
//   a/path        the IPv6 routes of a file, or its IPv4 routes if it has no
//                 others
//
// and after a plus sign, as in "real+long5":
//
//   +long5, +long50  5% or 50% of the routes are replaced by longer ones of
//                    65..128 bits, each in a route that stays

struct Table {
  std::string name;
  Family family = Family::kIpv6;
  std::vector<Route> routes;  // sorted, distinct
};

// Makes or reads the table named `name`; the same on every machine.
// Errors: INVALID_ARGUMENT for a name that means nothing; what reading a file
// may give.
absl::StatusOr<Table> MakeTable(absl::string_view name);

// The routes of such a table of IPv6. Errors: also INVALID_ARGUMENT for
// another.
absl::StatusOr<std::vector<Route>> MakeIpv6Routes(absl::string_view name);

// Gives the routes other next hops: none for "as-given", for "random:N" each
// one of 1..N, uniformly, from a fixed seed; for "sets:N" all of 1..N equally
// often, as far as the routes go, in random order: as ids of attribute sets.
// "wide-sets:N" are as many of the largest ids.
// Errors: INVALID_ARGUMENT.
absl::Status AssignNextHops(absl::string_view how, std::vector<Route>& routes);

// A sequence of addresses of one family, packed as packets carry them, the same
// on every machine. In huge pages, so that the trace's own TLB misses are not
// measured. Thread-safe: const after MakeTrace.
class Trace {
 public:
  Trace(Family family, size_t count);

  Family family() const { return family_; }
  size_t size() const { return size_; }
  // Bytes of one address.
  size_t width() const { return width_; }

  // The packed addresses from the i-th on. REQUIRES: i <= size().
  const char* at(size_t i) const { return bytes_.data() + i * width_; }
  Address address(size_t i) const;
  void Set(size_t i, const Address& address);

 private:
  Family family_;
  size_t size_;
  size_t width_;
  HugeArray<char> bytes_;
};

// Makes `count` addresses. The same arguments give the same trace everywhere.
// O(count log routes).
// Errors: FAILED_PRECONDITION if there is no route to draw from.
absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed = 1);

// A change is a Route: an announcement, or with next hop kNoRoute the
// withdrawal of its prefix. Changes are made before anything is timed.
//
// Makes `count` changes of a table that holds `routes` at first, each different
// from what the table says by then: half give a route another of the table's
// next hops, a quarter withdraw a route, a quarter announce one, either
// withdrawn before or new (by a coin). New ones are /48s (IPv4: /24s) inside
// shorter routes. Where one of these cannot be, another is taken. The table's
// size stays about the same. The same arguments give the same changes on every
// machine. O(routes + count).
// Errors: FAILED_PRECONDITION if there are no `routes`. REQUIRES: routes of one
// family.
absl::StatusOr<std::vector<Route>> MakeChurn(absl::Span<const Route> routes,
                                             size_t count, uint64_t seed = 1);

// Returns `changes` and then what undoes them, last one first. The result can
// be repeated for ever. `routes` is the table before. O((routes + changes) log
// routes).
std::vector<Route> ThereAndBack(RouteSet routes,
                                absl::Span<const Route> changes);

// Announces or withdraws a route. Returns false if that changed nothing.
bool ApplyChange(const Route& change, RouteSet& routes);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_INPUTS_H_
