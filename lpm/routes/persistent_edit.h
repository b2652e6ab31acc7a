// SPDX-License-Identifier: Apache-2.0

// One edit of a persistent map: what may be changed in place, what has to be
// copied first, and how nodes divide and join.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_EDIT_H_
#define PLANB_LPM_ROUTES_PERSISTENT_EDIT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "lpm/routes/persistent_node.h"

namespace planb {

// A number that no other edit of the process ever has; never 0.
inline uint64_t NewEditToken() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Makes nodes and knows them again by their token; counts the bytes of the
// tree that it edits. Thread-compatible.
template <typename Traits>
class PersistentEdit {
 public:
  using Entry = typename Traits::Entry;
  using Key = typename Traits::Key;

  PersistentEdit() = default;
  // The same bytes, and nothing to write in place.
  explicit PersistentEdit(size_t bytes) : bytes_(bytes) {}
  PersistentEdit& operator=(PersistentEdit&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, 0);
    token_.store(other.token_.exchange(0, std::memory_order_relaxed),
                 std::memory_order_relaxed);
    return *this;
  }

  // From now on no node is this edit's own: the next change begins another.
  // Const, and atomic, as readers may share what they read.
  void Close() const { token_.store(0, std::memory_order_relaxed); }

  size_t bytes() const { return bytes_; }
  // A node is no longer in the tree.
  template <typename Node>
  void Drop(const Node& node) {
    bytes_ -= node.bytes();
  }

  static Key KeyOf(const Entry& entry) { return Traits::KeyOf(entry); }
  template <typename Node>
  static const Key& KeyOf(const NodeChild<Key, Node>& child) {
    return child.key;
  }

  // An empty node for `items` items, and a few more.
  template <typename Node>
  NodeRef<Node> Make(size_t items) {
    constexpr size_t kStep = std::clamp<size_t>(Node::kMost / 16, 1, 8);
    ABSL_RAW_CHECK(items <= Node::kMost, "a node too large");
    const size_t steps = (items + kStep - 1) / kStep;
    auto node =
        NodeRef<Node>::Make(Token(), std::min(steps * kStep, Node::kMost));
    bytes_ += node->bytes();
    return node;
  }

  // The node, made this edit's own, with room for `room` more items.
  template <typename Node>
  Node& Own(NodeRef<Node>& ref, size_t room) {
    const bool own = ref->token() == Token();
    if (own && ref->size() + room <= ref->capacity()) return ref.Write();
    NodeRef<Node> fresh = Make<Node>(ref->size() + room);
    if (own) {
      fresh.Write().AppendMoved(ref.Write());
    } else {
      fresh.Write().Append(ref->begin(), ref->end());
    }
    Drop(*ref);
    ref = std::move(fresh);
    return ref.Write();
  }

  // Divides a child in two. REQUIRES: `parent` is own, with room for another.
  template <typename Parent>
  void Halve(Parent& parent, size_t child) {
    const auto old = parent[child].node;
    const size_t half = old->size() / 2;
    parent[child].node = Cut(*old, *old, 0, half);
    auto right = Cut(*old, *old, half, old->size());
    const Key key = KeyOf((*right)[0]);
    parent.Insert(child + 1, {key, std::move(right)});
    Drop(*old);
  }

  // What a child has to be after it lost an item: gone, as it is, of less
  // memory, or one with its neighbour; or the two are made even, if one node of
  // both would soon have to be divided.
  template <typename Parent>
  void Mend(Parent& parent, size_t child, bool last, size_t least) {
    constexpr size_t kMost = std::decay_t<decltype(*parent[0].node)>::kMost;
    if (parent[child].node->size() == 0) {
      Drop(*parent[child].node);
      parent.Erase(child);
      return;
    }
    if (last) return;
    if (const auto& node = *parent[child].node; node.size() >= least) {
      if (node.capacity() - node.size() <= kMost / 4) return;
      Drop(node);
      parent[child].node = Cut(node, node, 0, node.size());
      return;
    }
    const size_t left = child > 0 ? child - 1 : 0;
    const auto a = parent[left].node, b = parent[left + 1].node;
    const size_t total = a->size() + b->size();
    if (total <= kMost * 7 / 8) {
      parent[left].node = Cut(*a, *b, 0, total);
      parent.Erase(left + 1);
    } else {
      parent[left].node = Cut(*a, *b, 0, total / 2);
      auto right = Cut(*a, *b, total / 2, total);
      const Key key = KeyOf((*right)[0]);
      parent[left + 1] = {key, std::move(right)};
    }
    Drop(*a);
    Drop(*b);
  }

 private:
  uint64_t Token() {
    uint64_t token = token_.load(std::memory_order_relaxed);
    if (token == 0) {
      token = NewEditToken();
      token_.store(token, std::memory_order_relaxed);
    }
    return token;
  }

  // A node of what is from `begin` to `end` where `b` follows `a`, with room
  // for one more.
  template <typename Node>
  NodeRef<Node> Cut(const Node& a, const Node& b, size_t begin, size_t end) {
    NodeRef<Node> cut = Make<Node>(end - begin + 1);
    const size_t n = a.size();
    cut.Write().Append(a.begin() + std::min(begin, n),
                       a.begin() + std::min(end, n));
    if (end > n) {
      cut.Write().Append(b.begin() + (std::max(begin, n) - n),
                         b.begin() + (end - n));
    }
    return cut;
  }

  size_t bytes_ = 0;
  // Of the nodes made since the tree was last shared; 0: there are none.
  mutable std::atomic<uint64_t> token_{0};
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_PERSISTENT_EDIT_H_
