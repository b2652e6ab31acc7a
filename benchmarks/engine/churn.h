// SPDX-License-Identifier: Apache-2.0

// Made-up sequences of route changes: what a routing table goes through.
//
// A change is a Route: an announcement, or with next hop kNoRoute the
// withdrawal of its prefix. Sequences are made before anything is timed, so
// that making them costs the timed code neither time nor cache.

#ifndef PLANB_BENCHMARKS_ENGINE_CHURN_H_
#define PLANB_BENCHMARKS_ENGINE_CHURN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

enum class ChurnKind {
  // Of all routes. New ones are /48s (IPv4: /24s) inside shorter routes.
  kMixed,
  // Of routes of /20../32 (IPv4: /12../20) that have more specific ones inside.
  // None are new.
  kCovering,
  // Of routes longer than /48 (IPv4: /24). New ones lie inside any that are
  // not, half of them of up to /64, half longer.
  kLong,
};
absl::string_view ChurnKindName(ChurnKind kind);

// `count` changes of a table that holds `routes` at first, each different from
// what the table says by then: half give a route another of the table's next
// hops, a quarter withdraw a route, a quarter announce one, either withdrawn
// before or new (by a coin). Where one of these cannot be, another is taken.
// The table's size stays about the same. The same arguments give the same
// changes on every machine. O(routes + count).
// Errors: FAILED_PRECONDITION if `routes` has none of the kind, nor a place for
// one. REQUIRES: routes of one family, sorted.
absl::StatusOr<std::vector<Route>> MakeChurn(ChurnKind kind,
                                             absl::Span<const Route> routes,
                                             size_t count, uint64_t seed = 1);

// `changes` and then what undoes them, last one first: can be repeated for
// ever. `routes` is the table before. O((routes + changes) log routes).
std::vector<Route> ThereAndBack(RouteSet routes,
                                absl::Span<const Route> changes);

// Announces or withdraws. False if that changed nothing.
bool ApplyChange(const Route& change, RouteSet& routes);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CHURN_H_
