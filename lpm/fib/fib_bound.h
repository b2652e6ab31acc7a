// SPDX-License-Identifier: Apache-2.0

// How large the FIB of a table can become, computed before it is compiled from
// the number of routes of each length alone. A server needs this to decide
// whether it can compile what it is about to accept.
//
//   RoutesByLength lengths = ...;          // with the changes made
//   if (!CheckCompilable(family, lengths).ok()) ...
//   if (FibBytesBound(family, lengths) > limit) ...
//
// The bounds hold for every table with so many routes of each length, with any
// addresses and next hops; fib_bound.cc proves them. Tables like the Internet's
// take a fifteenth to a fortieth of it: most of their routes share lines, which
// only the addresses could tell. `options` are those of the FIB.
//
// Where that is too much, MeasuredFibBytes tells of one table what it takes,
// and MeasuredFibBytesOfPrefixes what it takes once next hops changed or routes
// went.
//
// Use these for the whole table. The size of the present FIB plus a bound for
// the added routes is not a bound: neighbours with one next hop take one place,
// and a single change, of ::/0 say, can make all their boundaries count.
//
// All functions but the last two: O(lengths). All: thread-safe. Bytes are those
// asked of the allocator; huge pages may round what is resident up by 2 MiB for
// each FIB.

#ifndef PLANB_LPM_FIB_FIB_BOUND_H_
#define PLANB_LPM_FIB_FIB_BOUND_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// How many routes there are of each prefix length. REQUIRES, everywhere: none
// longer than AddressBits(family); fewer than 2^40 in all.
using RoutesByLength = std::array<uint64_t, 129>;

// As many distinct next hops as routes.
inline constexpr uint64_t kDistinctNextHops = ~uint64_t{0};

// What a table takes of the parts of a FIB, at most.
struct FibSize {
  uint64_t lines = 0;        // of 64 bytes; no more than kMaxFibLines
  uint64_t descriptors = 0;  // of 32 bytes; no more than kMaxFibDescriptors
  // Of 4 bytes; no more than kMaxFibNextHops + 1. If the FIB keeps prefix
  // lengths, pairs of a next hop and a length, of 5 bytes.
  uint64_t next_hops = 0;
};

// What the format can name: lines of 2 GiB in all, descriptors, next hops. A
// table that needs more is not compiled.
inline constexpr uint64_t kMaxFibLines = (uint64_t{1} << 25) - 1;
inline constexpr uint64_t kMaxFibDescriptors = uint64_t{1} << 24;
inline constexpr uint64_t kMaxFibNextHops = (uint64_t{1} << 24) - 1;

// What Fib::Build, FibCompiler::Compile, and an Update that compiles everything
// use at most.
FibSize CompiledSize(Family family, const RoutesByLength& lengths,
                     uint64_t next_hops = kDistinctNextHops,
                     const FibOptions& options = {});

// What is in use after an Update of any kind, with what earlier ones left.
// `lengths` must bound the routes of each length in every generation since the
// last full compilation, or since the last one in steps began (and `next_hops`
// likewise): memory is not given back before the next.
FibSize UpdatedSize(Family family, const RoutesByLength& lengths,
                    uint64_t next_hops = kDistinctNextHops,
                    const FibOptions& options = {});

// OK if every table of such routes can be compiled, and then updated to every
// other. About 23,000,000 routes pass, or 8,000,000 longer than /64.
// Errors: RESOURCE_EXHAUSTED, saying what there may be too many of.
absl::Status CheckCompilable(Family family, const RoutesByLength& lengths,
                             uint64_t next_hops = kDistinctNextHops,
                             const FibOptions& options = {});

// Fib::bytes() of what FibCompiler::Compile returns, at most; Fib::Build
// returns smaller ones.
size_t FibBytesBound(Family family, const RoutesByLength& lengths,
                     uint64_t next_hops = kDistinctNextHops,
                     const FibOptions& options = {});

// Fib::bytes() of what FibCompiler::Update returns, at most; `lengths` as for
// UpdatedSize.
size_t UpdateBytesBound(Family family, const RoutesByLength& lengths,
                        uint64_t next_hops = kDistinctNextHops,
                        const FibOptions& options = {});

// What FibCompiler::Compile (or Fib::Build) has allocated at any moment beyond
// what was before it, the FIB it returns included. What it keeps beside the FIB
// for the updates to come is part of it.
size_t CompilePeakBound(Family family, const RoutesByLength& lengths,
                        uint64_t next_hops = kDistinctNextHops,
                        const FibOptions& options = {});

// The same of FibCompiler::Update, but for a copy of the list of changes;
// `lengths` as for UpdatedSize.
size_t UpdatePeakBound(Family family, const RoutesByLength& lengths,
                       uint64_t next_hops = kDistinctNextHops,
                       const FibOptions& options = {});

// What exactly these routes take: the FIB that is published, with what updates
// may leave in it until the next full compilation, and what that Compile or an
// Update has allocated beside it at any moment. Measures by compiling the
// routes: O(routes), with less than `most` bytes of memory. Errors:
// RESOURCE_EXHAUSTED if the answer is more than `most`.
//
// Updates keep the memory of the table that was last compiled in full. It had
// at most twice as many routes, and may have taken more than these.
absl::StatusOr<size_t> MeasuredFibBytes(const RouteSet& routes, size_t most,
                                        const FibOptions& options = {});

// The same for the worst next hops that these prefixes can have: neighbours
// never have the same one. So it also holds for a table that lacks some of the
// prefixes, of ::/0 say, or has other next hops, unless there are more of them.
absl::StatusOr<size_t> MeasuredFibBytesOfPrefixes(
    const RouteSet& routes, size_t most, const FibOptions& options = {});

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_BOUND_H_
