// SPDX-License-Identifier: Apache-2.0

// The nodes of a persistent map, and how an edit changes them. A node is an
// array that several versions of the map may hold at once, on any threads, with
// a count of the references to it.
//
// The token of a node names the edit that made it. The edit with the same token
// holds the node alone and may change it in place; all others only read it. The
// count decides when a node is freed and nothing else: whether a node may be
// written never depends on other threads.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_NODE_H_
#define PLANB_LPM_ROUTES_PERSISTENT_NODE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace planb {

// Up to capacity() items beside each other, behind a head of 24 bytes; the
// capacity is kMost at most. Made by NodeRef. Thread-compatible: nothing
// changes once two hold it.
template <typename Item, size_t kMostItems>
class PersistentNode {
 public:
  static constexpr size_t kMost = kMostItems;

  PersistentNode(const PersistentNode&) = delete;
  PersistentNode& operator=(const PersistentNode&) = delete;

  uint64_t token() const { return token_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  size_t bytes() const {
    return sizeof(PersistentNode) + capacity_ * sizeof(Item);
  }

  const Item* begin() const { return reinterpret_cast<const Item*>(this + 1); }
  const Item* end() const { return begin() + size_; }
  Item* begin() { return reinterpret_cast<Item*>(this + 1); }
  Item* end() { return begin() + size_; }
  const Item& operator[](size_t i) const { return begin()[i]; }
  Item& operator[](size_t i) { return begin()[i]; }

  // REQUIRES of the three that add: there is room.
  void Insert(size_t at, Item item) {
    ABSL_RAW_CHECK(size_ < capacity_ && at <= size_, "no room in a node");
    if (at == size_) {
      std::construct_at(end(), std::move(item));
    } else {
      std::construct_at(end(), std::move(end()[-1]));
      std::move_backward(begin() + at, end() - 1, end());
      begin()[at] = std::move(item);
    }
    ++size_;
  }
  // Items that reach other memory can be asked to Prefetch(): copying a
  // reference writes to what it refers to, and one miss at a time is slow.
  void Append(const Item* first, const Item* last) {
    if constexpr (requires { first->Prefetch(); }) {
      for (const Item* item = first; item != last; ++item) item->Prefetch();
    }
    std::uninitialized_copy(first, last, end());
    size_ += static_cast<uint32_t>(last - first);
  }
  void AppendMoved(PersistentNode& from) {
    std::uninitialized_move(from.begin(), from.end(), end());
    size_ += from.size_;
  }

  void Erase(size_t at) {
    std::move(begin() + at + 1, end(), begin() + at);
    std::destroy_at(end() - 1);
    --size_;
  }

 private:
  template <typename Node>
  friend class NodeRef;
  using ItemType = Item;

  PersistentNode(uint64_t token, size_t capacity)
      : capacity_(static_cast<uint32_t>(capacity)), token_(token) {
    static_assert(alignof(Item) <= alignof(PersistentNode));
  }
  ~PersistentNode() { std::destroy(begin(), end()); }

  mutable std::atomic<uint32_t> holders_{1};
  uint32_t size_ = 0;
  const uint32_t capacity_;
  const uint64_t token_;
};

// A counted reference to a node, or to none. The last reference frees the node.
// A plain value, like std::shared_ptr: references to one node may be used and
// destroyed on different threads.
template <typename Node>
class NodeRef {
 public:
  NodeRef() = default;
  NodeRef(const NodeRef& other) : node_(other.node_) {
    if (node_ != nullptr) {
      node_->holders_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  NodeRef(NodeRef&& other) noexcept
      : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() {
    if (node_ != nullptr &&
        node_->holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      node_->~Node();
      ::operator delete(node_);
    }
  }

  // An empty node.
  static NodeRef Make(uint64_t token, size_t capacity) {
    NodeRef ref;
    void* memory = ::operator new(sizeof(Node) +
                                  capacity * sizeof(typename Node::ItemType));
    ref.node_ = new (memory) Node(token, capacity);
    return ref;
  }

  const Node& operator*() const { return *node_; }
  const Node* operator->() const { return node_; }
  const Node* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }

  // REQUIRES: the caller's edit made the node.
  Node& Write() { return *node_; }

  void Prefetch() const { __builtin_prefetch(node_, /*rw=*/1); }

 private:
  Node* node_ = nullptr;
};

// What the nodes above the entries are made of: `key` is not after any key
// below it, and after every key below the child before.
template <typename Key, typename Node>
struct NodeChild {
  Key key;
  NodeRef<Node> node;

  void Prefetch() const { node.Prefetch(); }
};

// A number that no other edit of the process ever has; never 0.
inline uint64_t NewEditToken() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// One edit of a persistent map: what may be changed in place, what has to be
// copied first, and how nodes divide and join. Makes nodes and recognizes them
// by their token; counts the bytes of the tree that it edits.
// Thread-compatible.
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

  // Restores the invariants of a child that lost an item. Removes it if it is
  // empty, gives memory back if much is unused, or joins it with its neighbour.
  // Makes the two even if one node of both would soon have to be divided.
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

#endif  // PLANB_LPM_ROUTES_PERSISTENT_NODE_H_
