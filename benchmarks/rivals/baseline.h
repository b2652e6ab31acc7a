// What every competitor in a measurement looks like: built once from routes,
// then asked in batches, as Fib is.

#ifndef PLANB_BENCHMARKS_RIVALS_BASELINE_H_
#define PLANB_BENCHMARKS_RIVALS_BASELINE_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb {

// Thread-safe: const after it was built.
class Baseline {
 public:
  virtual ~Baseline() = default;

  // Reads `count` packed addresses in network byte order (16 octets each for
  // IPv6, 4 for IPv4), writes as many next-hop ids, each a little-endian
  // uint32; 0 is no route. Neither array need be aligned.
  virtual void Lookup(const void* addresses, size_t count,
                      void* next_hops) const = 0;

  // Octets of the search structure that a lookup may read. Reserve that no
  // lookup reads, and the rounding to whole pages, do not count.
  virtual size_t bytes() const = 0;
};

// Makes a baseline of routes of one family, strictly ascending by prefix, no
// next hop 0.
// Errors: UNIMPLEMENTED, saying why, for a table that this kind of baseline
// cannot answer exactly; RESOURCE_EXHAUSTED for one that does not fit.
using BaselineBuilder =
    std::function<absl::StatusOr<std::unique_ptr<const Baseline>>(
        Family family, absl::Span<const Route> routes)>;

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_BASELINE_H_
