// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

#include "benchmarks/rivals/turns.inc"

// A node of a priority trie, at some depth: the route that ends there, or, if
// none does, the longest of those below. Where that is the address's, no other
// below can be longer.
struct Suffix {
  uint32_t bits;      // left-aligned
  uint32_t value;     // 0 if there is no such node, but its sibling
  uint32_t children;  // two, side by side; 0 is none
  uint8_t length;
  bool priority;  // from below: ends a search that finds it
};
static_assert(sizeof(Suffix) == 16);

// Of routes as long as k or longer the first k bits are keys of a B+-tree of
// order m, and the others suffixes in a priority trie for each key.
template <uint32_t kKeyBits, uint32_t kOrder>
struct Miht {
  static constexpr uint32_t kMaxLevels = 8;

  // Nodes of m keys, level by level, complete but for the last of each: the
  // children of node i are those from i * m on, and a key of an inner node is
  // the least of its child. Behind the last leaf key it is repeated, behind
  // those of inner nodes there is the largest key.
  const uint32_t* keys;
  uint32_t level_begin[kMaxLevels];
  uint32_t last_node[kMaxLevels];  // of each level
  uint32_t levels;
  const uint32_t* roots;  // by key, of the last level
  const Suffix* suffixes;
  uint32_t short_root;  // of the trie of routes shorter than k, PT[-1]
  const LowerHalves* lower;

  // See LookupInTurns. A step is a node of the tree or of a trie.
  struct State {
    Key key;
    uint32_t node;
    uint32_t suffix;
    uint32_t rest;  // of the suffix, from the node's depth on
    uint32_t value;
    bool is_short;
  };
  bool Start(Key key, State& state) const {
    state = {.key = key};
    return true;
  }
  bool Step(uint32_t step, State& state) const {
    return step < levels ? StepInTree(step, state) : StepInTrie(state);
  }
  NextHopId Result(const State& state) const {
    return lower->Resolve(state.value, state.key.low);
  }

 private:
  bool StepInTree(uint32_t step, State& state) const {
    const auto wanted =
        static_cast<uint32_t>(state.key.high >> (64 - kKeyBits));
    const uint32_t* const node =
        keys + level_begin[step] + size_t{state.node} * kOrder;
    // The last key that is not beyond the address's, or the first.
    uint32_t at = 0;
    for (uint32_t half = kOrder / 2; half > 0; half /= 2) {
      at += node[at + half] <= wanted ? half : 0;
    }
    const bool found = node[at] == wanted;
    state.node = state.node * kOrder + at;
    if (step + 1 < levels) {
      state.node = std::min(state.node, last_node[step + 1]);
      const uint32_t* const child =
          keys + level_begin[step + 1] + size_t{state.node} * kOrder;
      for (uint32_t i = 0; i < kOrder; i += 16) __builtin_prefetch(child + i);
      return true;
    }
    state.is_short = !found;
    state.node = found ? roots[state.node] : short_root;
    state.suffix = static_cast<uint32_t>(
        (found ? state.key.high << kKeyBits : state.key.high) >> 32);
    state.rest = state.suffix;
    __builtin_prefetch(&suffixes[state.node]);
    return true;
  }

  bool StepInTrie(State& state) const {
    const Suffix& suffix = suffixes[state.node];
    const bool holds =
        (suffix.value != 0) &
        ((uint64_t{state.suffix ^ suffix.bits} >> (32 - suffix.length)) == 0);
    state.value = holds ? suffix.value : state.value;
    bool more = (suffix.children != 0) & !(holds & suffix.priority);
    state.node = suffix.children + (state.rest >> 31);
    state.rest <<= 1;
    if (!more && state.value == 0 && !state.is_short) [[unlikely]] {
      state.is_short = true;
      state.node = short_root;
      state.suffix = static_cast<uint32_t>(state.key.high >> 32);
      state.rest = state.suffix;
      more = true;
    }
    __builtin_prefetch(&suffixes[state.node]);
    return more;
  }
};

// A route of a trie while it is made.
struct Part {
  uint32_t bits;
  uint8_t length;
  uint32_t value;
};

class Tries {
 public:
  // Returns the root's index. Node 0 is none.
  uint32_t Add(std::vector<Part> parts) {
    const uint32_t root = Allocate(1);
    if (!parts.empty()) Place(root, 0, std::move(parts));
    return root;
  }
  const std::vector<Suffix>& suffixes() const { return suffixes_; }

 private:
  uint32_t Allocate(size_t count) {
    const size_t at = suffixes_.size();
    ABSL_RAW_CHECK(at < UINT32_MAX - count, "too many nodes");
    suffixes_.resize(at + count);
    return static_cast<uint32_t>(at);
  }

  // REQUIRES: at least one part, all alike in their first `depth` bits.
  void Place(uint32_t at, uint32_t depth, std::vector<Part> parts) {
    auto chosen = parts.begin();
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      if (part->length == depth) {
        chosen = part;
        break;
      }
      if (part->length > chosen->length) chosen = part;
    }
    suffixes_[at] = {chosen->bits, chosen->value, 0, chosen->length,
                     chosen->length > depth};
    parts.erase(chosen);
    if (parts.empty()) return;
    const auto right = std::stable_partition(
        parts.begin(), parts.end(),
        [&](const Part& part) { return (part.bits << depth) >> 31 == 0; });
    std::vector<Part> ones(right, parts.end());
    parts.erase(right, parts.end());
    const uint32_t children = Allocate(2);
    suffixes_[at].children = children;
    if (!parts.empty()) Place(children, depth + 1, std::move(parts));
    if (!ones.empty()) Place(children + 1, depth + 1, std::move(ones));
  }

  std::vector<Suffix> suffixes_ = {Suffix{}};
};

template <uint32_t kKeyBits, uint32_t kOrder>
class MihtEngine : public InTurns<Miht<kKeyBits, kOrder>> {
 public:
  MihtEngine(Family family, absl::Span<const Route> routes,
             const paper::Stages& stages, Turns turns)
      : InTurns<Miht<kKeyBits, kOrder>>(family, turns), lower_(stages.second) {
    Tries tries;
    std::vector<Part> shorter;
    std::vector<uint32_t> keys;
    std::vector<uint32_t> roots;
    std::vector<Part> parts;  // of the last key
    const auto finish = [&] {
      if (!keys.empty()) roots.push_back(tries.Add(std::move(parts)));
      parts.clear();
    };
    for (const auto& [prefix, value] : routes) {
      const uint64_t bits = absl::Uint128High64(prefix.first());
      const auto length = static_cast<uint8_t>(prefix.length());
      if (length < kKeyBits) {
        shorter.push_back({static_cast<uint32_t>(bits >> 32), length, value});
        continue;
      }
      const auto key = static_cast<uint32_t>(bits >> (64 - kKeyBits));
      if (keys.empty() || keys.back() != key) {
        finish();
        keys.push_back(key);
      }
      parts.push_back({static_cast<uint32_t>((bits << kKeyBits) >> 32),
                       static_cast<uint8_t>(length - kKeyBits), value});
    }
    finish();
    view_.short_root = tries.Add(std::move(shorter));
    LayOut(std::move(keys), std::move(roots), tries.Add({}));
    suffixes_ = HugeArray<Suffix>(tries.suffixes().size());
    std::copy(tries.suffixes().begin(), tries.suffixes().end(),
              suffixes_.begin());
    view_.suffixes = suffixes_.data();
    view_.lower = &lower_;
  }

  size_t bytes() const override {
    return sizeof(*this) + keys_.bytes() + roots_.bytes() + suffixes_.bytes() +
           lower_.bytes();
  }

 private:
  void LayOut(std::vector<uint32_t> keys, std::vector<uint32_t> roots,
              uint32_t no_trie) {
    if (keys.empty()) {
      keys.push_back(0);
      roots.push_back(no_trie);
    }
    const size_t leaves = (keys.size() + kOrder - 1) / kOrder;
    keys.resize(leaves * kOrder, keys.back());
    roots.resize(keys.size(), roots.back());
    std::vector<std::vector<uint32_t>> levels = {std::move(keys)};
    while (levels.back().size() > kOrder) {
      std::vector<uint32_t> above;
      for (size_t i = 0; i < levels.back().size(); i += kOrder) {
        above.push_back(levels.back()[i]);
      }
      above.resize((above.size() + kOrder - 1) / kOrder * kOrder, UINT32_MAX);
      levels.push_back(std::move(above));
    }
    view_.levels = static_cast<uint32_t>(levels.size());
    ABSL_RAW_CHECK(view_.levels <= view_.kMaxLevels, "too many keys");
    size_t size = 0;
    for (const auto& level : levels) size += level.size();
    keys_ = HugeArray<uint32_t>(size);
    uint32_t at = 0;
    for (uint32_t level = 0; level < view_.levels; ++level) {
      const auto& from = levels[view_.levels - 1 - level];
      view_.level_begin[level] = at;
      view_.last_node[level] = static_cast<uint32_t>(from.size() / kOrder) - 1;
      std::copy(from.begin(), from.end(), keys_.begin() + at);
      at += static_cast<uint32_t>(from.size());
    }
    roots_ = HugeArray<uint32_t>(roots.size());
    std::copy(roots.begin(), roots.end(), roots_.begin());
    view_.keys = keys_.data();
    view_.roots = roots_.data();
  }

  HugeArray<uint32_t> keys_;
  HugeArray<uint32_t> roots_;
  HugeArray<Suffix> suffixes_;
  const LowerHalves lower_;
  using InTurns<Miht<kKeyBits, kOrder>>::view_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildMiht(
    Family family, absl::Span<const Route> routes, Turns turns) {
  const absl::Status status = CheckNextHops(routes);
  if (!status.ok()) return status;
  const paper::Stages stages =
      paper::SplitStages(paper::Sweep(routes, paper::Boundaries::kDistinct));
  if (family == Family::kIpv4) {
    return std::make_unique<MihtEngine<16, 16>>(family, routes, stages, turns);
  }
  return std::make_unique<MihtEngine<32, 32>>(family, UpToHalf(routes, stages),
                                              stages, turns);
}

}  // namespace planb
