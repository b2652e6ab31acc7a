// SPDX-License-Identifier: Apache-2.0

// Compares a baseline's answers with the tests' reference, on tables and
// addresses that are hard to get right.

#ifndef PLANB_BENCHMARKS_RIVALS_BASELINE_CHECK_H_
#define PLANB_BENCHMARKS_RIVALS_BASELINE_CHECK_H_

#include <cstdint>

#include "absl/types/span.h"
#include "benchmarks/rivals/rivals.h"
#include "lpm/prefix.h"

namespace planb {

// What a baseline under test can take.
struct BaselineLimits {
  Family family = Family::kIpv6;
  int max_length = 128;
  // Distinct next hops are 1..next_hops, the last of them drawn as next_hops.
  uint32_t next_hops = 1000;
};

// Builds `routes` and expects right answers at both sides of both ends of every
// route, inside each, and anywhere, in batches of many sizes, from and to
// unaligned arrays of exactly the size promised.
void ExpectLikeReference(const BaselineBuilder& build, Family family,
                         absl::Span<const Route> routes);

// Does the same over many tables within the limits: none, one, the whole space,
// neighbours, nests, random crowds, and a made-up table of 30,000 routes.
void ExpectExact(const BaselineBuilder& build, const BaselineLimits& limits);

// Does the same over the real table, without the routes longer than the limit.
// Skips the test where there is none.
void ExpectExactOnRealTable(const BaselineBuilder& build,
                            const BaselineLimits& limits);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_BASELINE_CHECK_H_
