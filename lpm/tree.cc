#include "lpm/tree.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

// Starts and values of one tree. Entry 0 starts at 0, whatever it says.
struct Entry {
  uint64_t start;
  uint32_t value;
};

}  // namespace

// Lays trees out in the arrays of a Tree.
class Tree::Builder {
 public:
  explicit Builder(Tree& tree) : tree_(tree) {}

  // Index of a next hop among the distinct ones.
  uint32_t ValueOf(NextHopId next_hop) {
    const auto [it, fresh] = indexes_.try_emplace(
        next_hop, static_cast<uint32_t>(tree_.next_hops_.size()));
    if (fresh) {
      ABSL_RAW_CHECK(it->second < kSecondStage, "too many next hops");
      tree_.next_hops_.push_back(next_hop);
    }
    return it->second;
  }

  // Appends a tree over `entries` and says where it is.
  TreeRoot Append(absl::Span<const Entry> entries, int min_levels) {
    const absl::Span<const Entry> keyed = entries.subspan(1);
    std::vector<size_t> sizes = LevelSizes(keyed.size(), min_levels);
    TreeRoot root;
    root.levels = static_cast<uint32_t>(sizes.size());
    root.first_value = static_cast<uint32_t>(tree_.values_.size());
    size_t total = tree_.nodes_.size();
    for (size_t level = 0; level < sizes.size(); ++level) {
      root.level_begin[level] = static_cast<uint32_t>(total);
      total += sizes[level];
    }
    ABSL_RAW_CHECK(total <= UINT32_MAX, "too many tree nodes");
    TreeNode padding;
    std::fill_n(padding.keys, kNodeKeys, kPadding);
    tree_.nodes_.resize(total, padding);

    size_t leaves_below = 0;  // of one child; 0 for a leaf level
    for (size_t level = sizes.size(); level-- > 0;) {
      TreeNode* const nodes = &tree_.nodes_[root.level_begin[level]];
      FillLevel(keyed, leaves_below, {nodes, sizes[level]});
      leaves_below = leaves_below == 0 ? 1 : leaves_below * kNodeChildren;
    }
    for (const Entry& entry : entries) tree_.values_.push_back(entry.value);
    return root;
  }

 private:
  // Number of nodes of each level, root first.
  static std::vector<size_t> LevelSizes(size_t keys, int min_levels) {
    std::vector<size_t> sizes = {
        std::max<size_t>(1, (keys + kNodeKeys - 1) / kNodeKeys)};
    while (sizes.back() > 1 || sizes.size() < static_cast<size_t>(min_levels)) {
      sizes.push_back((sizes.back() + kNodeChildren - 1) / kNodeChildren);
    }
    ABSL_RAW_CHECK(sizes.size() <= kMaxLevels, "too many intervals");
    std::reverse(sizes.begin(), sizes.end());
    return sizes;
  }

  // Fills one level. A leaf's keys are the next eight; an inner node's key j
  // is the least key below its child j + 1.
  static void FillLevel(absl::Span<const Entry> keyed, size_t leaves_below,
                        absl::Span<TreeNode> nodes) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (size_t j = 0; j < kNodeKeys; ++j) {
        const size_t rank = leaves_below == 0 ? n * kNodeKeys + j
                                              : (n * kNodeChildren + j + 1) *
                                                    leaves_below * kNodeKeys;
        if (rank >= keyed.size()) return;  // the rest is padding
        nodes[n].keys[j] = Biased(keyed[rank].start - 1);
      }
    }
  }

  Tree& tree_;
  absl::flat_hash_map<NextHopId, uint32_t> indexes_;
};

Tree Tree::Build(absl::Span<const Interval> intervals, int min_levels) {
  Tree tree;
  Builder builder(tree);
  std::vector<Entry> first;   // over upper halves
  std::vector<Entry> second;  // over the lower halves of one upper half
  // The second stage's trees are appended after the first's, which must lie
  // at the front; until then they wait here, one after the other.
  std::vector<std::vector<Entry>> waiting;
  first.reserve(intervals.size());
  const auto add = [&first](uint64_t start, uint32_t value) {
    if (first.empty() || first.back().value != value) {
      first.push_back({start, value});
    }
  };
  uint32_t before = builder.ValueOf(kNoRoute);  // value in force so far
  for (size_t i = 0; i < intervals.size();) {
    const uint64_t upper = absl::Uint128High64(intervals[i].start);
    second.clear();
    for (; i < intervals.size() &&
           absl::Uint128High64(intervals[i].start) == upper;
         ++i) {
      const uint64_t lower = absl::Uint128Low64(intervals[i].start);
      if (second.empty() && lower != 0) second.push_back({0, before});
      second.push_back({lower, builder.ValueOf(intervals[i].next_hop)});
    }
    before = second.back().value;
    if (second.size() == 1) {
      add(upper, before);
      continue;
    }
    add(upper, kSecondStage | static_cast<uint32_t>(waiting.size()));
    waiting.push_back(second);
    // What is in force at the end of this /64 goes on behind it, unless the
    // next interval lies in the very next /64.
    if (upper != UINT64_MAX &&
        (i == intervals.size() ||
         absl::Uint128High64(intervals[i].start) != upper + 1)) {
      add(upper + 1, before);
    }
  }
  tree.first_ = builder.Append(first, min_levels);
  tree.second_.reserve(waiting.size());
  for (const std::vector<Entry>& entries : waiting) {
    tree.second_.push_back(builder.Append(entries, 1));
  }
  tree.nodes_.shrink_to_fit();
  tree.values_.shrink_to_fit();
  return tree;
}

size_t Tree::bytes() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(TreeNode) +
         values_.capacity() * sizeof(uint32_t) +
         second_.capacity() * sizeof(TreeRoot) +
         next_hops_.capacity() * sizeof(NextHopId);
}

}  // namespace planb
