// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

constexpr uint32_t kFirstStride = 16;
constexpr uint32_t kStride = 8;
// Bits of one element.
constexpr uint32_t kBits = 64;
// A node below the first is as many elements: a cache line.
constexpr uint32_t kElements = (1 << kStride) / kBits;

// A part of a bitmap, and how many bits are set in all before it.
struct alignas(16) Element {
  uint64_t bits;
  uint32_t before;
};
static_assert(sizeof(Element) * kElements == 64);

}  // namespace
}  // namespace planb

#pragma GCC push_options
#pragma GCC target("popcnt,bmi,bmi2")

namespace planb {
namespace {

#include "benchmarks/rivals/turns.inc"

// What a search reads. See LookupInTurns; a step is a level.
template <typename Leaf, bool kCompressed>
struct View {
  // Bitmaps of the same shape: which children are leaves with a next hop (the
  // paper's B), and which are nodes (C).
  const Element* bitmaps[2];
  const Leaf* leaves;
  const NextHopId* next_hops;

  struct State {
    Key key;
    uint32_t at;   // element
    uint32_t bit;  // of it
  };

  bool Start(Key key, State& state) const {
    const uint32_t child = key.Bits(0, kFirstStride);
    state = {key, child / kBits, child % kBits};
    __builtin_prefetch(&bitmaps[1][state.at]);
    return true;
  }

  bool Step(uint32_t step, State& state) const {
    const Element& element = bitmaps[1][state.at];
    const bool is_node = IsSet(element, state.bit);
    // No node is below the last level, where any child will do.
    const uint32_t child = state.key.Bits(
        std::min(kFirstStride + step * kStride, 128 - kStride), kStride);
    const uint32_t next =
        Before(element, state.bit) * kElements + child / kBits;
    const uint32_t change = 0U - is_node;
    state.at ^= (state.at ^ next) & change;
    state.bit ^= (state.bit ^ child % kBits) & change;
    __builtin_prefetch(&bitmaps[is_node][state.at]);
    return is_node;
  }

  NextHopId Result(const State& state) const {
    const Element& element = bitmaps[0][state.at];
    if constexpr (kCompressed) {  // the leaf, or that of the run it is in
      const uint32_t until =
          Before(element, state.bit) + IsSet(element, state.bit);
      return next_hops[leaves[until - 1]];
    }
    const bool is_leaf = IsSet(element, state.bit);
    return next_hops[is_leaf * leaves[is_leaf * Before(element, state.bit)]];
  }

 private:
  static bool IsSet(const Element& element, uint32_t bit) {
    return (element.bits >> bit & 1) != 0;
  }
  // The bits set before this one, in all.
  static uint32_t Before(const Element& element, uint32_t bit) {
    return element.before + static_cast<uint32_t>(__builtin_popcountll(
                                element.bits & ((uint64_t{1} << bit) - 1)));
  }
};

}  // namespace
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace {

// Level by level, so that what is counted in one level are the nodes of the
// next.
struct Grown {
  std::vector<Element> bitmaps[2];
  std::vector<uint32_t> leaves;
  NextHopNumbers numbers;
};

Grown Grow(absl::Span<const paper::Interval> intervals, bool compress) {
  Grown grown;
  std::vector<Part> level = {{0, 0}};
  // The elements of the first level count as so many nodes.
  size_t nodes = (size_t{1} << kFirstStride) / kBits / kElements;
  for (uint32_t depth = 0; !level.empty();) {
    const uint32_t stride = depth == 0 ? kFirstStride : kStride;
    std::vector<Part> next;
    for (const Part& whole : level) {
      CutEvenly(intervals, whole, depth, stride,
                [&](uint32_t i, Part part, const NextHopId* next_hop) {
                  if (i % kBits == 0) {
                    grown.bitmaps[0].push_back(
                        {0, static_cast<uint32_t>(grown.leaves.size())});
                    grown.bitmaps[1].push_back(
                        {0, static_cast<uint32_t>(nodes + next.size())});
                  }
                  const uint64_t bit = uint64_t{1} << (i % kBits);
                  if (next_hop == nullptr) {
                    grown.bitmaps[1].back().bits |= bit;
                    next.push_back(part);
                    return;
                  }
                  const uint32_t leaf = grown.numbers.NumberOf(*next_hop);
                  if (compress
                          ? grown.leaves.empty() || grown.leaves.back() != leaf
                          : *next_hop != kNoRoute) {
                    grown.bitmaps[0].back().bits |= bit;
                    grown.leaves.push_back(leaf);
                  }
                });
    }
    nodes += next.size();
    level = std::move(next);
    depth += stride;
  }
  return grown;
}

template <typename Leaf, bool kCompressed>
class CpTrie : public InTurns<View<Leaf, kCompressed>> {
 public:
  CpTrie(Family family, const Grown& grown, Turns turns)
      : InTurns<View<Leaf, kCompressed>>(family, turns),
        leaves_(Copied<Leaf>(grown.leaves)),
        bitmaps_{Copied<Element>(grown.bitmaps[0]),
                 Copied<Element>(grown.bitmaps[1])},
        next_hops_(grown.numbers.next_hops()) {
    this->view_ = {{bitmaps_[0].data(), bitmaps_[1].data()},
                   leaves_.data(),
                   next_hops_.data()};
  }

  size_t bytes() const override {
    return sizeof(*this) + bitmaps_[0].bytes() + bitmaps_[1].bytes() +
           leaves_.bytes() + next_hops_.size() * sizeof(NextHopId);
  }

 private:
  const HugeArray<Leaf> leaves_;
  const HugeArray<Element> bitmaps_[2];
  const std::vector<NextHopId> next_hops_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildCpTrie(
    Family family, absl::Span<const Route> routes,
    const CpTrieOptions& options) {
  if (!HasPopcntAndBmi2()) {
    return absl::UnimplementedError("needs a CPU with POPCNT and BMI2");
  }
  const Grown grown = Grow(
      paper::Sweep(routes, options.compress ? paper::Boundaries::kMerged
                                            : paper::Boundaries::kDistinct),
      options.compress);
  constexpr size_t kMost = UINT32_MAX;
  if (grown.leaves.size() > kMost || grown.bitmaps[0].size() > kMost) {
    return absl::ResourceExhaustedError("2^32 leaves or elements");
  }
  const bool narrow = grown.numbers.size() <= size_t{1} << 16;
  const auto make = [&](auto leaf) -> std::unique_ptr<const Baseline> {
    using Leaf = decltype(leaf);
    if (options.compress) {
      return std::make_unique<CpTrie<Leaf, true>>(family, grown, options.turns);
    }
    return std::make_unique<CpTrie<Leaf, false>>(family, grown, options.turns);
  };
  return narrow ? make(uint16_t{}) : make(uint32_t{});
}

}  // namespace planb
