// DIR-24-8 (Gupta, Lin, McKeown, INFOCOM '98) for IPv4: one entry for each /24,
// which is the answer or names a block of 256 more for the last octet. One
// memory access for nearly every address, in 32 MB or more.
//
// Entries are indexes into the distinct next hops, of 16 bits where that is
// enough (2^15 next hops and 2^15 blocks), else of 32.

#ifndef PLANB_BENCHMARKS_RIVALS_DIR24_H_
#define PLANB_BENCHMARKS_RIVALS_DIR24_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/baseline.h"
#include "lpm/prefix.h"

namespace planb {

enum class Dir24Kernel {
  kBest,    // AVX-512 gathers if this machine has them
  kScalar,  // anywhere
};

// O(2^24 times the depth of nests), for a route is written over what covers it.
// Errors: UNIMPLEMENTED for IPv6; RESOURCE_EXHAUSTED for 2^23 blocks.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildDir24(
    Family family, absl::Span<const Route> routes,
    Dir24Kernel kernel = Dir24Kernel::kBest);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_DIR24_H_
