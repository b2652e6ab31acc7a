// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/rivals/paper_tree.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"

namespace planb::paper {
namespace {

// Starts and values of one tree. Entry 0 starts at 0, whatever it says.
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

// Several entries at 0 (the upper half's first address) count as one, for a
// key of 0 minus one would be padding.
void AddLower(uint64_t lower, uint32_t value, Entries& entries) {
  if (lower == 0 && !entries.empty()) {
    entries.back().value = value;
  } else {
    entries.push_back({lower, value});
  }
}

Stages SplitStages(absl::Span<const Interval> intervals) {
  Stages stages;
  stages.first.reserve(intervals.size());
  uint32_t before = kNoRoute;  // in force so far
  for (size_t i = 0; i < intervals.size();) {
    const size_t begin = i;
    const uint64_t upper = absl::Uint128High64(intervals[i].start);
    const auto here = [&] {
      return i < intervals.size() &&
             absl::Uint128High64(intervals[i].start) == upper;
    };
    // All that begins at the very start of this /64.
    for (; here() && absl::Uint128Low64(intervals[i].start) == 0; ++i) {
      before = intervals[i].next_hop;
      stages.first.push_back({upper, before});
    }
    if (!here()) continue;
    if (i == begin) stages.first.push_back({upper, before});
    stages.first.back().value =
        kSecondStage | static_cast<uint32_t>(stages.second.size());
    Entries& second = stages.second.emplace_back();
    AddLower(0, before, second);
    for (; here(); ++i) {
      before = intervals[i].next_hop;
      AddLower(absl::Uint128Low64(intervals[i].start), before, second);
    }
    // What is in force at the end of this /64 goes on behind it, unless the
    // next interval starts right there.
    if (upper != UINT64_MAX &&
        (i == intervals.size() ||
         intervals[i].start != absl::MakeUint128(upper + 1, 0))) {
      stages.first.push_back({upper + 1, before});
    }
  }
  return stages;
}

// Number of nodes of each level, root first: inner levels are complete.
std::vector<size_t> LevelSizes(size_t entries, int min_levels) {
  const size_t leaves =
      std::max<size_t>(1, (entries - 1 + kNodeKeys - 1) / kNodeKeys);
  std::vector<size_t> sizes = {1};
  while (sizes.back() < leaves ||
         sizes.size() < static_cast<size_t>(min_levels)) {
    sizes.push_back(sizes.back() * kNodeChildren);
  }
  sizes.back() = leaves;
  ABSL_RAW_CHECK(sizes.size() <= kMaxLevels, "too many intervals");
  return sizes;
}

}  // namespace

// Lays trees out one after the other: first counts, then allocates, then fills.
class Tree::Builder {
 public:
  Builder(Tree& tree, const Stages& stages, int min_levels) : tree_(tree) {
    size_t nodes = 0;
    size_t values = 0;
    const auto count = [&](const Entries& entries, int levels) {
      for (size_t size : LevelSizes(entries.size(), levels)) nodes += size;
      values += entries.size();
    };
    count(stages.first, min_levels);
    for (const Entries& entries : stages.second) count(entries, 1);
    ABSL_RAW_CHECK(nodes <= UINT32_MAX, "too many tree nodes");
    tree.nodes_ = HugeArray<TreeNode>(nodes);
    tree.values_ = HugeArray<uint32_t>(values);
  }

  TreeRoot Append(absl::Span<const Entry> entries, int min_levels) {
    const std::vector<size_t> sizes = LevelSizes(entries.size(), min_levels);
    TreeRoot root;
    root.levels = static_cast<uint32_t>(sizes.size());
    root.first_value = static_cast<uint32_t>(values_);
    for (size_t level = 0; level < sizes.size(); ++level) {
      root.level_begin[level] = static_cast<uint32_t>(nodes_);
      nodes_ += sizes[level];
    }
    const absl::Span<const Entry> keyed = entries.subspan(1);
    size_t leaves_below = 0;  // of one child; 0 for the leaf level
    for (size_t level = sizes.size(); level-- > 0;) {
      FillLevel(keyed, leaves_below,
                {&tree_.nodes_[root.level_begin[level]], sizes[level]});
      leaves_below = leaves_below == 0 ? 1 : leaves_below * kNodeChildren;
    }
    for (const Entry& entry : entries) tree_.values_[values_++] = entry.value;
    return root;
  }

 private:
  // Fills one level. A leaf's keys are the next eight; an inner node's key j
  // is the least key below its child j + 1.
  static void FillLevel(absl::Span<const Entry> keyed, size_t leaves_below,
                        absl::Span<TreeNode> nodes) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (size_t j = 0; j < kNodeKeys; ++j) {
        const size_t rank = leaves_below == 0 ? n * kNodeKeys + j
                                              : (n * kNodeChildren + j + 1) *
                                                    leaves_below * kNodeKeys;
        nodes[n].keys[j] =
            rank < keyed.size() ? Biased(keyed[rank].start - 1) : kPadding;
      }
    }
  }

  Tree& tree_;
  size_t nodes_ = 0;   // used so far
  size_t values_ = 0;  // used so far
};

Tree Tree::Build(absl::Span<const Interval> intervals, int min_levels) {
  Tree tree;
  const Stages stages = SplitStages(intervals);
  Builder builder(tree, stages, min_levels);
  tree.first_ = builder.Append(stages.first, min_levels);
  tree.second_.reserve(stages.second.size());
  for (const Entries& entries : stages.second) {
    tree.second_.push_back(builder.Append(entries, 1));
  }
  return tree;
}

size_t Tree::bytes() const {
  return sizeof(*this) + nodes_.bytes() + values_.bytes() +
         second_.size() * sizeof(TreeRoot);
}

}  // namespace planb::paper
