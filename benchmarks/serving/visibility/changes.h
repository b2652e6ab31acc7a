// What a controller sends, made before anything is timed: batches of changes,
// whole tables, and tables that differ from them.

#ifndef PLANB_BENCHMARKS_SERVING_VISIBILITY_CHANGES_H_
#define PLANB_BENCHMARKS_SERVING_VISIBILITY_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb::visibility {

// A change is a route: an announcement, or the withdrawal of its prefix where
// the next hop is kNoRoute.
using Batch = std::vector<Route>;

// The IPv6 routes of the file `path`, or `generate` made-up ones, sorted.
// Errors: those of reading; INVALID_ARGUMENT unless exactly one is given, or if
// there is no route.
absl::StatusOr<std::vector<Route>> LoadRoutes(const std::string& path,
                                              uint64_t generate);

// `count` batches of `size` changes to the table `routes`, of kind
// ChurnKind::kMixed, and then what undoes them, last one first: 2 * `count`
// batches that can be repeated for ever. No prefix is in a batch twice, for
// which the churn skips changes; so few of them may change nothing.
// Errors: INVALID_ARGUMENT if no such batches can be made of `routes`.
// REQUIRES: routes of one family, sorted; size > 0.
absl::StatusOr<std::vector<Batch>> MakeBatches(absl::Span<const Route> routes,
                                               size_t size, size_t count,
                                               uint64_t seed);

// A table of as many routes with other prefixes (but for coincidences) and
// other next hops, sorted.
std::vector<Route> OtherTable(absl::Span<const Route> routes);

// A table that differs from `routes` in one of a hundred (at least one), spread
// evenly: half of them have another next hop, the others another prefix.
// Sorted. REQUIRES: sorted.
std::vector<Route> NearTable(absl::Span<const Route> routes);

// OP_UPSERT and OP_DELETE.
void Encode(const Batch& batch,
            google::protobuf::RepeatedPtrField<v1::RouteUpdate>& to);

// The messages of a ReplaceRoutes call; the last one commits.
std::vector<v1::ReplaceRoutesRequest> EncodeTable(
    absl::Span<const Route> routes);

}  // namespace planb::visibility

#endif  // PLANB_BENCHMARKS_SERVING_VISIBILITY_CHANGES_H_
