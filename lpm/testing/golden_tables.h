// SPDX-License-Identifier: Apache-2.0

// The tables that the engine's costs are stated for, and the cache lines that
// one address reads on its way through a FIB. Neither depends on the machine.

#ifndef PLANB_LPM_TESTING_GOLDEN_TABLES_H_
#define PLANB_LPM_TESTING_GOLDEN_TABLES_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"

namespace planb {

// A made-up table, the same in every run, small enough to measure in a test.
struct GoldenTable {
  absl::string_view name;
  Family family;
  std::vector<Route> routes;  // ascending
};

// "ipv6_20k" and "ipv6_100k", with leaves that hold values of one byte;
// "ipv4_100k" with two bytes; and "ipv6_long": half of its 20,000 routes are
// /49../128, in and beside the others, and its next hops have large ids, so
// that values are not the ids themselves.
std::vector<GoldenTable> GoldenTables();

// Returns fixed addresses. Most of them match the table.
std::vector<Address> GoldenTrace(const GoldenTable& table, size_t count);

// The way of one address through a FIB.
struct WalkedLines {
  // The result of the walk. A lookup must give the same one.
  NextHopId next_hop = kNoRoute;
  // The number of distinct lines of 64 bytes that it reads.
  size_t lines = 0;
};

// Takes one address through `fib` by layout.h alone, one step at a time. The
// kernels read the same lines, if for many addresses in turn.
// REQUIRES: address.family() == fib.family().
WalkedLines WalkLines(const Fib& fib, const Address& address);

// The lines that many addresses read.
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

#endif  // PLANB_LPM_TESTING_GOLDEN_TABLES_H_
