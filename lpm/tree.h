// The linearized B+-tree (PlanB paper, section 3.3) over 64-bit keys, and the
// second stage below /64.
//
// A node is one cache line: 8 keys, hence 9 children. Levels lie one after the
// other and hold no pointers: the children of node i of a level are the nodes
// 9i .. 9i+8 of the next. Unlike the paper's, a level ends with its last used
// node, so a table never pays for a depth it does not fill. Values lie apart.
//
// A search counts the keys below the address; that count, its rank, is the
// index of the value. Keys are interval starts *minus one*, compared strictly,
// so that the padding (the largest key) is below no address, and even a start
// of ffff:ffff:ffff:ffff:: is told from it. Keys are also biased by 2^63, for
// AVX2 only compares signed.
//
// The first stage searches the upper 64 bits. Where a prefix longer than /64
// decides, its value names a tree of the second stage over the lower 64 bits,
// built the same way in the same arrays.

#ifndef PLANB_LPM_TREE_H_
#define PLANB_LPM_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "lpm/interval.h"
#include "lpm/prefix.h"

namespace planb {

inline constexpr int kNodeKeys = 8;
inline constexpr int kNodeChildren = kNodeKeys + 1;
// 8 * 9^8 keys: more than 2 * 2^27 interval starts.
inline constexpr int kMaxLevels = 9;

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
// is an index into the next hops.
inline constexpr uint32_t kSecondStage = uint32_t{1} << 31;

// What a kernel reads. Valid as long as the Tree it came from.
struct TreeView {
  TreeRoot first;
  const TreeNode* nodes;
  const uint32_t* values;
  const TreeRoot* second;
  const NextHopId* next_hops;
};

// Thread-safe: const after Build.
class Tree {
 public:
  // O(intervals). `min_levels` makes the first stage taller than it need be,
  // so that tests reach every height.
  // REQUIRES: intervals as ElementaryIntervals makes them.
  static Tree Build(absl::Span<const Interval> intervals, int min_levels = 1);

  TreeView view() const {
    return {first_, nodes_.data(), values_.data(), second_.data(),
            next_hops_.data()};
  }

  // Octets held, counting what the vectors have reserved.
  size_t bytes() const;

 private:
  class Builder;

  TreeRoot first_;
  std::vector<TreeNode> nodes_;
  std::vector<uint32_t> values_;
  std::vector<TreeRoot> second_;
  std::vector<NextHopId> next_hops_;
};

}  // namespace planb

#endif  // PLANB_LPM_TREE_H_
