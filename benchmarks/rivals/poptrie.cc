// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

// Bits that the first table is indexed by: the paper measures 16 and 18.
constexpr uint32_t kDirectBits = 18;
constexpr uint32_t kStride = 6;
// The next hop's number itself, of all addresses that begin like this.
constexpr uint32_t kDirectLeaf = uint32_t{1} << 31;

// As published, but in arrays, to choose without a branch.
struct Node {
  // `leafvec`: bit i says that leaf i is not the same as the leaf before it.
  // `vector`: bit i says that child i is a node.
  uint64_t vectors[2];
  uint32_t firsts[2];  // the first leaf and the first node
};
static_assert(sizeof(Node) == 24);

}  // namespace
}  // namespace planb

#pragma GCC push_options
#pragma GCC target("popcnt,bmi,bmi2")

namespace planb {
namespace {

#include "benchmarks/rivals/turns.inc"

// What a search reads. See LookupInTurns; a step is a node.
template <typename Leaf>
struct View {
  const uint32_t* direct;
  const Node* nodes;
  const Leaf* leaves;
  const NextHopId* next_hops;

  struct State {
    Key key;
    uint32_t at;  // a node; in the end a leaf
  };

  bool Start(Key key, State& state) const {
    state = {key, direct[key.Bits(0, kDirectBits)]};
    const bool is_node = (state.at & kDirectLeaf) == 0;
    __builtin_prefetch(&nodes[is_node * state.at]);
    return is_node;
  }

  bool Step(uint32_t step, State& state) const {
    const Node& node = nodes[state.at];
    const uint32_t child =
        state.key.Bits(kDirectBits + step * kStride, kStride);
    const bool is_node = (node.vectors[1] >> child & 1) != 0;
    const int count = __builtin_popcountll(node.vectors[is_node] &
                                           ((uint64_t{2} << child) - 1));
    state.at = node.firsts[is_node] + static_cast<uint32_t>(count) - 1;
    const auto leaf = reinterpret_cast<uintptr_t>(&leaves[state.at]);
    const auto other = reinterpret_cast<uintptr_t>(&nodes[state.at]);
    __builtin_prefetch(reinterpret_cast<const void*>(
        leaf ^ ((leaf ^ other) & (uintptr_t{0} - is_node))));
    return is_node;
  }

  NextHopId Result(const State& state) const {
    const bool is_direct = (state.at & kDirectLeaf) != 0;
    const uint32_t numbers[] = {leaves[!is_direct * state.at],
                                state.at & ~kDirectLeaf};
    return next_hops[numbers[is_direct]];
  }
};

}  // namespace
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace {

// The nodes, level by level: what a node's children are lies together.
struct Grown {
  std::vector<uint32_t> direct;
  std::vector<Node> nodes;
  std::vector<uint32_t> leaves;
  NextHopNumbers numbers;
};

Grown Grow(absl::Span<const paper::Interval> intervals) {
  Grown grown;
  std::vector<Part> level;
  CutEvenly(intervals, {0, 0}, 0, kDirectBits,
            [&](uint32_t, Part part, const NextHopId* next_hop) {
              grown.direct.push_back(next_hop != nullptr
                                         ? kDirectLeaf |
                                               grown.numbers.NumberOf(*next_hop)
                                         : static_cast<uint32_t>(level.size()));
              if (next_hop == nullptr) level.push_back(part);
            });
  for (uint32_t depth = kDirectBits; !level.empty(); depth += kStride) {
    const size_t next_level = grown.nodes.size() + level.size();
    std::vector<Part> next;
    for (const Part& whole : level) {
      Node node = {.firsts = {static_cast<uint32_t>(grown.leaves.size()),
                              static_cast<uint32_t>(next_level + next.size())}};
      CutEvenly(intervals, whole, depth, kStride,
                [&](uint32_t i, Part part, const NextHopId* next_hop) {
                  if (next_hop == nullptr) {
                    node.vectors[1] |= uint64_t{1} << i;
                    next.push_back(part);
                    return;
                  }
                  const uint32_t leaf = grown.numbers.NumberOf(*next_hop);
                  if (node.vectors[0] == 0 || grown.leaves.back() != leaf) {
                    node.vectors[0] |= uint64_t{1} << i;
                    grown.leaves.push_back(leaf);
                  }
                });
      grown.nodes.push_back(node);
    }
    level = std::move(next);
  }
  return grown;
}

template <typename Leaf>
class Poptrie : public InTurns<View<Leaf>> {
 public:
  Poptrie(Family family, const Grown& grown, Turns turns)
      : InTurns<View<Leaf>>(family, turns),
        direct_(Copied<uint32_t>(grown.direct)),
        nodes_(Copied<Node>(grown.nodes)),
        leaves_(Copied<Leaf>(grown.leaves)),
        next_hops_(grown.numbers.next_hops()) {
    this->view_ = {direct_.data(), nodes_.data(), leaves_.data(),
                   next_hops_.data()};
  }

  size_t bytes() const override {
    return sizeof(*this) + direct_.bytes() + nodes_.bytes() + leaves_.bytes() +
           next_hops_.size() * sizeof(NextHopId);
  }

 private:
  const HugeArray<uint32_t> direct_;
  const HugeArray<Node> nodes_;
  const HugeArray<Leaf> leaves_;
  const std::vector<NextHopId> next_hops_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildPoptrie(
    Family family, absl::Span<const Route> routes, Turns turns) {
  if (!HasPopcntAndBmi2()) {
    return absl::UnimplementedError("needs a CPU with POPCNT and BMI2");
  }
  const Grown grown = Grow(paper::Sweep(routes, paper::Boundaries::kMerged));
  if (grown.nodes.size() >= kDirectLeaf || grown.leaves.size() >= kDirectLeaf) {
    return absl::ResourceExhaustedError("2^31 nodes or leaves");
  }
  if (grown.numbers.size() <= size_t{1} << 16) {
    return std::make_unique<Poptrie<uint16_t>>(family, grown, turns);
  }
  return std::make_unique<Poptrie<uint32_t>>(family, grown, turns);
}

}  // namespace planb
