// The engine of the PlanB paper as a baseline.
//
// "PlanB: Efficient Software IPv6 Lookup with Linearized B+-Tree", NSDI '26.
// The paper's tree, its search (Listing 1), batching and unrolling (3.4, 3.5)
// and its build (Algorithm 2); tree.h and sweep.h say where they deviate, each
// time in order to answer exactly. The paper reads 64-bit keys that were
// brought into registers before; here, as everywhere in these measurements,
// packed 16-octet addresses are read in place and next hops written out.

#ifndef PLANB_BENCHMARKS_RIVALS_PAPER_H_
#define PLANB_BENCHMARKS_RIVALS_PAPER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/baseline.h"
#include "benchmarks/rivals/sweep.h"
#include "lpm/prefix.h"

namespace planb::paper {

struct PaperOptions {
  // The paper does not merge.
  Boundaries boundaries = Boundaries::kAll;
  // "auto", "avx512", "avx2" or "scalar".
  std::string kernel = "auto";
  // Addresses searched together: 8, 16 or 32.
  int lanes = 32;
};

// O(routes).
// Errors: INVALID_ARGUMENT for options that name nothing this machine has;
// UNIMPLEMENTED if a next hop is 2^31 or more (the bit marks a second stage).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildPaper(
    Family family, absl::Span<const Route> routes,
    const PaperOptions& options = {});

}  // namespace planb::paper

#endif  // PLANB_BENCHMARKS_RIVALS_PAPER_H_
