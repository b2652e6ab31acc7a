// The public re-implementation of the PlanB paper, planb-lpm, as a baseline:
// its algorithm, written anew, with right answers.
//
// A complete 9-ary tree: *every* level is allocated in full, leaves too, so it
// takes 8 * 9^k keys for the least k that holds all boundaries (38 MB from some
// 236 thousand routes on). Two boundaries a route, not merged. Lookups in
// batches of 32, each level for all 32 before the next; next hops lie apart.
//
// Its known wrong answers are mended: ends come before starts at the same
// address, ranges that reach the last address do not wrap, the padding is told
// from the last /64, and a miss (0) from every next hop.
//
// As there, IPv6 and prefixes up to /64 only.

#ifndef PLANB_BENCHMARKS_RIVALS_REFERENCE_H_
#define PLANB_BENCHMARKS_RIVALS_REFERENCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/baseline.h"
#include "lpm/prefix.h"

namespace planb {

enum class ReferenceKernel {
  kBest,    // AVX-512 if this machine has it
  kScalar,  // anywhere
};

// O(routes).
// Errors: UNIMPLEMENTED for IPv4 and for prefixes longer than /64 (which
// planb-lpm drops silently).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildReference(
    Family family, absl::Span<const Route> routes,
    ReferenceKernel kernel = ReferenceKernel::kBest);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_REFERENCE_H_
