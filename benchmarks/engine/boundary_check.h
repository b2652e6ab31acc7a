// Whether a FIB answers as its routes say, everywhere an answer can change.

#ifndef PLANB_BENCHMARKS_ENGINE_BOUNDARY_CHECK_H_
#define PLANB_BENCHMARKS_ENGINE_BOUNDARY_CHECK_H_

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"
#include "lpm/route_set.h"

namespace planb {

struct BoundaryCheck {
  size_t addresses = 0;  // asked for, by every kernel that runs here
  size_t wrong = 0;
  std::string first_wrong;  // what differs where, or ""
};

// Asks `fib` for the first and the last address of each of `routes` and of the
// prefixes of `changes` (which may be gone by now), and for the ones just
// outside; compares with lpm/testing's reference, which shares nothing with the
// engine.
BoundaryCheck CheckBoundaries(const Fib& fib, const RouteSet& routes,
                              absl::Span<const Route> changes = {});

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_BOUNDARY_CHECK_H_
