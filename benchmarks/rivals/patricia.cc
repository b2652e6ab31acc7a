// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

#include "benchmarks/rivals/turns.inc"

// A prefix that is a route, or at which two of them part. Half a cache line.
struct Node {
  Key bits;              // of the prefix
  uint32_t children[2];  // by the bit after the prefix; 0 is none
  NextHopId next_hop;    // 0 where no route ends
  uint8_t length;
};
static_assert(sizeof(Node) == 32);

Key KeyOf(absl::uint128 bits) {
  return {absl::Uint128High64(bits), absl::Uint128Low64(bits)};
}

// True if the prefix of `node` holds `key`.
bool Holds(const Node& node, Key key) {
  const auto differ = static_cast<unsigned __int128>(node.bits.high ^ key.high)
                          << 64 |
                      (node.bits.low ^ key.low);
  // By halves: a shift by 128 bits is not defined.
  const int rest = 128 - node.length;
  return (differ >> (rest / 2) >> (rest - rest / 2)) == 0;
}

// The bit after the prefix; any of them after a whole address, which has no
// children.
uint32_t Side(const Node& node, Key key) {
  return key.Bits(node.length & 127, 1);
}

// In order of prefixes each route is put to the right of the path to the one
// before. Node 0 is the whole space.
std::vector<Node> Grow(absl::Span<const Route> routes) {
  std::vector<Node> nodes = {Node{}};
  nodes.reserve(2 * routes.size() + 1);
  std::vector<uint32_t> path = {0};
  const auto add = [&](const Node& node) {
    ABSL_RAW_CHECK(nodes.size() < UINT32_MAX, "too many nodes");
    nodes.push_back(node);
    return static_cast<uint32_t>(nodes.size() - 1);
  };
  for (const auto& [prefix, next_hop] : routes) {
    const Key bits = KeyOf(prefix.first());
    uint32_t left = 0;  // what ends to the left of the prefix
    while (nodes[path.back()].length > prefix.length() ||
           !Holds(nodes[path.back()], bits)) {
      left = path.back();
      path.pop_back();
    }
    uint32_t parent = path.back();
    if (nodes[parent].length == prefix.length()) {  // the whole space
      nodes[parent].next_hop = next_hop;
      continue;
    }
    if (left != 0) {
      const Key other = nodes[left].bits;
      const int common =
          CommonBits(prefix.first(), absl::MakeUint128(other.high, other.low));
      if (common > nodes[parent].length) {
        Node fork = {
            .bits = KeyOf(prefix.first() & ~(absl::Uint128Max() >> common)),
            .length = static_cast<uint8_t>(common)};
        fork.children[Side(fork, other)] = left;
        const uint32_t at = add(fork);
        nodes[parent].children[Side(nodes[parent], bits)] = at;
        path.push_back(at);
        parent = at;
      }
    }
    const uint32_t at = add({.bits = bits,
                             .next_hop = next_hop,
                             .length = static_cast<uint8_t>(prefix.length())});
    nodes[parent].children[Side(nodes[parent], bits)] = at;
    path.push_back(at);
  }
  return nodes;
}

// See LookupInTurns. A step is a node.
struct View {
  const Node* nodes;

  struct State {
    Key key;
    uint32_t node;
    NextHopId next_hop;
  };
  bool Start(Key key, State& state) const {
    state = {key, 0, kNoRoute};
    return true;
  }
  bool Step(uint32_t, State& state) const {
    const Node& node = nodes[state.node];
    const bool holds = Holds(node, state.key);
    state.next_hop =
        holds & (node.next_hop != kNoRoute) ? node.next_hop : state.next_hop;
    state.node = node.children[Side(node, state.key)];
    __builtin_prefetch(&nodes[state.node]);
    return holds & (state.node != 0);
  }
  NextHopId Result(const State& state) const { return state.next_hop; }
};

// Nodes lie in the order of a walk, so that a left child is behind its parent,
// in the same cache line half of the time.
class Patricia : public InTurns<View> {
 public:
  Patricia(Family family, absl::Span<const Route> routes, Turns turns)
      : InTurns(family, turns) {
    const std::vector<Node> grown = Grow(routes);
    nodes_ = HugeArray<Node>(grown.size());
    uint32_t size = 0;
    Copy(grown, 0, size);
    view_ = {nodes_.data()};
  }

  size_t bytes() const override { return sizeof(*this) + nodes_.bytes(); }

 private:
  // Copies a subtree to `size`, which it moves on; returns its place.
  uint32_t Copy(const std::vector<Node>& grown, uint32_t from, uint32_t& size) {
    const uint32_t to = size++;
    nodes_[to] = grown[from];
    for (uint32_t& child : nodes_[to].children) {
      if (child != 0) child = Copy(grown, child, size);
    }
    return to;
  }

  HugeArray<Node> nodes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildPatricia(
    Family family, absl::Span<const Route> routes, Turns turns) {
  return std::make_unique<Patricia>(family, routes, turns);
}

}  // namespace planb
