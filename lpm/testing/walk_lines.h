// Which memory a lookup needs: the cache lines that one address reads on its
// way through a FIB.

#ifndef PLANB_LPM_TESTING_WALK_LINES_H_
#define PLANB_LPM_TESTING_WALK_LINES_H_

#include <cstddef>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"

namespace planb {

struct WalkedLines {
  // What the walk found: must be what lookups find, or it went astray.
  NextHopId next_hop = kNoRoute;
  // Distinct lines of 64 octets.
  size_t lines = 0;
};

// Takes one address through `fib` by layout.h alone, one step at a time. The
// kernels read the same lines, if for many addresses in turn.
// REQUIRES: address.family() == fib.family().
WalkedLines WalkLines(const Fib& fib, const Address& address);

// Of many addresses.
struct LinesRead {
  double mean = 0;
  size_t p99 = 0;
  size_t max = 0;
};
LinesRead CountLines(const Fib& fib, absl::Span<const Address> addresses);

// The most lines that an address can read in such a FIB: 1 of the root, 1 for
// each table step, 2 for a partition (separators and a leaf), for each
// descriptor 1 and the partition below it, and 1 of the next hops where values
// are not ids.
size_t MostLines(const FibStats& stats);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_WALK_LINES_H_
