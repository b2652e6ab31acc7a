// SPDX-License-Identifier: Apache-2.0

// The nodes of a persistent map: arrays that several versions of the map may
// hold at once, on any threads, each with the number of those who hold it.
//
// A node says which edit made it: its token. The edit that goes by the same
// token holds the node alone and may change it in place; everyone else reads.
// The count decides when a node is freed and nothing else, so that whether a
// node may be written never depends on what other threads do.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_NODE_H_
#define PLANB_LPM_ROUTES_PERSISTENT_NODE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
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

// Holds a node, or none. The last to let go frees it. A plain value, like
// std::shared_ptr: different references to one node may live on different
// threads.
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

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_PERSISTENT_NODE_H_
