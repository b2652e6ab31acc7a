// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

#include "benchmarks/rivals/turns.inc"

// An entry of a node: a number of a value, or a node with its stride.
inline constexpr uint32_t kIsNode = uint32_t{1} << 31;
inline constexpr uint32_t kStrideShift = 26;
inline constexpr uint32_t kFirstMask = (uint32_t{1} << kStrideShift) - 1;
inline constexpr uint32_t kMostStride = 20;

struct View {
  uint32_t root;
  const uint32_t* entries;
  const uint32_t* values;
  const LowerHalves* lower;

  // See LookupInTurns. A step is a node.
  struct State {
    uint64_t rest;  // of the upper half, from the node's depth on
    uint64_t low;
    uint32_t entry;
    const uint32_t* at;
  };
  bool Start(Key key, State& state) const {
    state = {key.high, key.low, root, nullptr};
    GoTo(state);
    return root & kIsNode;
  }
  bool Step(uint32_t, State& state) const {
    state.entry = *state.at;
    GoTo(state);
    return state.entry & kIsNode;
  }
  NextHopId Result(const State& state) const {
    return lower->Resolve(values[state.entry], state.low);
  }

 private:
  void GoTo(State& state) const {
    const uint32_t stride = (state.entry & ~kIsNode) >> kStrideShift;
    const uint64_t index = (state.rest >> 1) >> (63 - stride);
    state.at = entries + (state.entry & kFirstMask) + index;
    state.rest <<= stride;
    __builtin_prefetch(state.at);
  }
};

// The nodes of a binary trie at one depth, from left to right: those parts of
// the space within which intervals begin. One more closes the last.
struct Depth {
  std::vector<uint32_t> begins;    // the first interval that begins inside
  std::vector<uint32_t> ends;      // and the first behind
  std::vector<uint32_t> children;  // the first below, in the next depth
  std::vector<uint8_t> strides;    // the best
  std::vector<double> costs;       // of all nodes to the left

  size_t size() const { return begins.size(); }
};

// A trie of the first 64 bits with a stride for each node. Its cost is the mean
// of nodes on the way to an interval, all equally likely, and `entry_cost` for
// each entry.
class Shape {
 public:
  explicit Shape(const paper::Entries& intervals) : intervals_(intervals) {
    const auto size = static_cast<uint32_t>(intervals.size());
    Depth top;
    if (size > 1) {
      top.begins = {1};
      top.ends = {size};
    }
    while (top.size() > 0) {
      depths_.push_back(std::move(top));
      top = Below(depths_.back(), depths_.size() - 1);
    }
    depths_.push_back(Depth{.children = {0}, .costs = {0}});
  }

  // Chooses all strides, by dynamic programming from the leaves up: what is
  // below a node at some depth is a row of that depth.
  void Choose(double entry_cost) {
    for (size_t depth = depths_.size() - 1; depth-- > 0;) {
      Depth& here = depths_[depth];
      here.costs.assign(1, 0);
      here.strides.assign(here.size(), 0);
      const auto most = static_cast<uint32_t>(
          std::min<size_t>(kMostStride, depths_.size() - 1 - depth));
      for (size_t node = 0; node < here.size(); ++node) {
        const double weight = here.ends[node] - here.begins[node] + 1;
        double best = std::numeric_limits<double>::infinity();
        size_t begin = node;
        size_t end = node + 1;
        for (uint32_t stride = 1; stride <= most; ++stride) {
          const Depth& above = depths_[depth + stride - 1];
          begin = above.children[begin];
          end = above.children[end];
          const double entries =
              std::ldexp(entry_cost, static_cast<int>(stride));
          if (entries > best) break;
          const Depth& below = depths_[depth + stride];
          const double cost = entries + below.costs[end] - below.costs[begin];
          if (cost < best) {
            best = cost;
            here.strides[node] = static_cast<uint8_t>(stride);
          }
        }
        here.costs.push_back(here.costs.back() + best + weight);
      }
    }
  }

  // Calls f(depth, node, stride) for the nodes that are used, in the order of
  // their depths in the trie; children come from left to right.
  template <typename F>
  void ForEach(const F& f) const {
    if (depths_.front().size() == 0) return;
    std::vector<std::pair<uint32_t, uint32_t>> nodes = {{0, 0}};
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto [depth, node] = nodes[i];
      const uint32_t stride = depths_[depth].strides[node];
      f(depth, node, stride);
      uint32_t begin = node;
      uint32_t end = node + 1;
      for (uint32_t d = depth; d < depth + stride; ++d) {
        begin = depths_[d].children[begin];
        end = depths_[d].children[end];
      }
      for (; begin < end; ++begin) nodes.emplace_back(depth + stride, begin);
    }
  }

  uint64_t Entries() const {
    uint64_t entries = 0;
    ForEach([&](uint32_t, uint32_t, uint32_t stride) {
      entries += uint64_t{1} << stride;
    });
    return entries;
  }

  // The first address of a node, and the interval there.
  std::pair<uint64_t, uint32_t> PlaceOf(uint32_t depth, uint32_t node) const {
    const uint32_t begin = depths_[depth].begins[node];
    const uint64_t inside = intervals_[begin].start;
    return {depth == 0 ? 0 : inside >> (64 - depth) << (64 - depth), begin - 1};
  }

 private:
  Depth Below(Depth& above, size_t depth) const {
    Depth below;
    for (size_t node = 0; node < above.size(); ++node) {
      above.children.push_back(static_cast<uint32_t>(below.size()));
      const uint32_t begin = above.begins[node];
      const uint32_t end = above.ends[node];
      const uint64_t half = uint64_t{1} << (63 - depth);
      const uint64_t middle = (intervals_[begin].start & ~(half - 1)) | half;
      const auto from = intervals_.begin();
      const auto right = static_cast<uint32_t>(
          std::lower_bound(from + begin, from + end, middle,
                           [](const paper::Entry& entry, uint64_t start) {
                             return entry.start < start;
                           }) -
          from);
      if (begin < right) {
        below.begins.push_back(begin);
        below.ends.push_back(right);
      }
      // One that begins right at the middle is inside of neither half.
      const uint32_t inside =
          right + (right < end && intervals_[right].start == middle ? 1 : 0);
      if (inside < end) {
        below.begins.push_back(inside);
        below.ends.push_back(end);
      }
    }
    above.children.push_back(static_cast<uint32_t>(below.size()));
    return below;
  }

  const paper::Entries& intervals_;
  std::vector<Depth> depths_;  // the last has no nodes
};

class AdaptiveTrie : public InTurns<View> {
 public:
  AdaptiveTrie(Family family, const paper::Stages& stages, const Shape& shape,
               size_t entries, Turns turns)
      : InTurns(family, turns),
        entries_(std::max<size_t>(entries, 1)),
        lower_(stages.second) {
    NextHopNumbers numbers;
    view_.root = numbers.NumberOf(stages.first.front().value);
    size_t made = 0;
    // Where the next of the nodes is named, in the order of ForEach.
    std::vector<uint32_t*> names = {&view_.root};
    size_t next = 0;
    shape.ForEach([&](uint32_t depth, uint32_t node, uint32_t stride) {
      *names[next++] =
          kIsNode | stride << kStrideShift | static_cast<uint32_t>(made);
      auto [first, at] = shape.PlaceOf(depth, node);
      const uint64_t step = uint64_t{1} << (64 - depth - stride);
      const auto begins_by = [&](uint64_t address) {
        return at + 1 < stages.first.size() &&
               stages.first[at + 1].start <= address;
      };
      for (uint32_t i = 0; i < uint32_t{1} << stride; ++i, first += step) {
        while (begins_by(first)) ++at;
        entries_[made] = numbers.NumberOf(stages.first[at].value);
        if (begins_by(first + (step - 1))) names.push_back(&entries_[made]);
        ++made;
      }
    });
    values_ = numbers.next_hops();
    view_.entries = entries_.data();
    view_.values = values_.data();
    view_.lower = &lower_;
  }

  size_t bytes() const override {
    return sizeof(*this) + entries_.bytes() + values_.size() * 4 +
           lower_.bytes();
  }

 private:
  HugeArray<uint32_t> entries_;
  std::vector<uint32_t> values_;  // by number
  const LowerHalves lower_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildAdaptiveTrie(
    Family family, absl::Span<const Route> routes,
    const AdaptiveTrieOptions& options) {
  const absl::Status status = CheckNextHops(routes);
  if (!status.ok()) return status;
  const paper::Stages stages =
      paper::SplitStages(paper::Sweep(routes, paper::Boundaries::kMerged));
  Shape shape(stages.first);
  // The cheapest entries of which there are not too many.
  const double most =
      options.entries_per_interval * static_cast<double>(stages.first.size());
  double low = 1e-6;
  double high = 1e3;
  for (int i = 0; i < 16; ++i) {
    const double middle = std::sqrt(low * high);
    shape.Choose(middle);
    (static_cast<double>(shape.Entries()) > most ? low : high) = middle;
  }
  shape.Choose(high);
  const uint64_t entries = shape.Entries();
  if (entries > kFirstMask) {
    return absl::ResourceExhaustedError("2^26 entries");
  }
  return std::make_unique<AdaptiveTrie>(family, stages, shape, entries,
                                        options.turns);
}

}  // namespace planb
