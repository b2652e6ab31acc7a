// SPDX-License-Identifier: Apache-2.0

// Has the parts of the PlanB paper's engine, for its tests and for
// reference.cc: from prefixes to elementary intervals (sections 3.1 and 3.6),
// the tree, and the search. BuildPaper in rivals.h puts them together.
//
// The linearized B+-tree (PlanB paper, section 3.2) over 64-bit keys.
//
// A node is one cache line: 8 keys, hence 9 children. Levels lie one after the
// other and hold no pointers: the children of node i of a level are the nodes
// 9i .. 9i+8 of the next. Inner levels are complete, padded with the largest
// key; the leaf level ends with its last used node; values lie apart, one
// uint32 next hop for each leaf key: all as published.
//
// Where it deviates:
// - Keys are interval starts *minus one*, compared strictly, so that padding is
//   below no address and the last /64 of all is told from it. The paper
//   compares starts by "greater or equal", which takes the padding for a start
//   at ffff:ffff:ffff:ffff::. The cost is the same.
// - Keys are biased by 2^63, for AVX2 only compares signed: one exclusive or a
//   lookup.
// - The paper's answers end at /64. Here, where a prefix longer than /64
//   decides, the value names a tree of a second stage over the lower 64 bits.

#ifndef PLANB_BENCHMARKS_RIVALS_PAPER_H_
#define PLANB_BENCHMARKS_RIVALS_PAPER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/rivals.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::paper {

// The addresses from `start`, left-aligned in 128 bits, up to the next start
// all take `next_hop`. An interval may be empty: of several with one start the
// last counts.
struct Interval {
  absl::uint128 start;
  NextHopId next_hop;

  friend bool operator==(const Interval&, const Interval&) = default;
};

// Cuts the whole space along `routes`; starts ascend, and the first, alone in
// that, is 0. At most 2 * routes + 1 intervals, O(routes).
// Deviates from Algorithm 2 as printed, which sorts the starts at an address
// before the ends there: such an end then closes what has just begun, and the
// answer is wrong. Here ends come first.
// REQUIRES: one family, strictly ascending by prefix.
std::vector<Interval> Sweep(absl::Span<const Route> routes,
                            Boundaries boundaries);

inline constexpr int kNodeKeys = 8;
inline constexpr int kNodeChildren = kNodeKeys + 1;
// 8 * 9^7 keys: more than 2 * 2^24 interval starts.
inline constexpr int kMaxLevels = 8;

// One cache line of keys, ascending; unused ones hold kPadding.
struct alignas(64) TreeNode {
  int64_t keys[kNodeKeys];
};
static_assert(sizeof(TreeNode) == 64);

// No address is above it.
inline constexpr int64_t kPadding = INT64_MAX;

// Maps unsigned order to signed order.
constexpr int64_t Biased(uint64_t value) {
  return static_cast<int64_t>(value ^ (uint64_t{1} << 63));
}

// A tree of either stage within the arrays of its Tree.
struct TreeRoot {
  uint32_t levels = 0;       // 1..kMaxLevels
  uint32_t first_value = 0;  // rank 0's place in the values
  // The node each level begins with; level 0 is the root node alone.
  uint32_t level_begin[kMaxLevels] = {};
};

// A value with this bit set is the index of a second-stage root; otherwise it
// is a next hop.
inline constexpr uint32_t kSecondStage = uint32_t{1} << 31;

// Starts and values of one tree. Entry 0 starts at 0: its `start` is not read.
struct Entry {
  uint64_t start;
  uint32_t value;
};
using Entries = std::vector<Entry>;

// The entries of the first stage, over upper halves, and those of each tree of
// the second, over the lower halves of one upper half.
struct Stages {
  Entries first;
  std::vector<Entries> second;
};

// O(intervals). REQUIRES: intervals as Sweep makes them, next hops below
// kSecondStage.
Stages SplitStages(absl::Span<const Interval> intervals);

// What a kernel reads. Valid as long as the Tree it came from.
struct TreeView {
  TreeRoot first;
  const TreeNode* nodes;
  const uint32_t* values;
  const TreeRoot* second;
};

// Thread-safe: const after Build.
class Tree {
 public:
  // O(intervals). `min_levels` makes the first stage taller than it need be,
  // so that tests reach every height.
  // REQUIRES: intervals as Sweep makes them, next hops below kSecondStage.
  static Tree Build(absl::Span<const Interval> intervals, int min_levels = 1);

  TreeView view() const {
    return {first_, nodes_.data(), values_.data(), second_.data()};
  }

  // Bytes of the nodes (padding included), values and roots.
  size_t bytes() const;

 private:
  class Builder;

  TreeRoot first_;
  HugeArray<TreeNode> nodes_;
  HugeArray<uint32_t> values_;
  std::vector<TreeRoot> second_;
};

// A search for one instruction set.

// See Baseline::Lookup.
using LookupFunction = void (*)(const TreeView& tree, Family family,
                                const void* addresses, size_t count,
                                void* next_hops);

struct Kernel {
  const char* name;
  // True if this CPU, and the operating system, allow every instruction used.
  bool (*runs_here)();
  LookupFunction lookup;
};

// Returns the kernels this machine can run, best first; after "scalar" come
// those that take one address at a time.
absl::Span<const Kernel* const> AvailableKernels();

// Returns the kernel of this name ("auto" is the best), or nullptr.
const Kernel* FindKernel(absl::string_view name);

}  // namespace planb::paper

#endif  // PLANB_BENCHMARKS_RIVALS_PAPER_H_
