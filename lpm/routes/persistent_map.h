// SPDX-License-Identifier: Apache-2.0

// An ordered map of which any number of versions can be held, sharing all that
// they have in common: to hold one is Share(), in no time; a change copies the
// few nodes on its way that another version may hold, and no others.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_MAP_H_
#define PLANB_LPM_ROUTES_PERSISTENT_MAP_H_

#include <cstddef>
#include <iterator>
#include <utility>

#include "lpm/routes/persistent_tree.h"

namespace planb {

// `Traits` say what is held and in which order:
//   using Entry = ...;  // a value: copyable, movable, copies on any thread
//   using Key = ...;    // a small value; copied into the nodes above
//   static Key KeyOf(const Entry&);              // a reference will do
//   static bool Less(const Key&, const Key&);    // a strict order
//
// Keys are distinct. Thread-compatible, each version by itself: while one
// thread changes a map, others may read, share and destroy versions that were
// shared from it before. A change is O(log size) where the nodes are this map's
// own, and copies three of them (about 10 KB at a million small entries) where
// they are not. Beside the entries, memory has room for a few more in each
// chunk (of 128 entries at most; 56 at least, but for the last), and about one
// byte an entry for the nodes.
template <typename Traits, size_t kMaxChunk = 128, size_t kMaxPage = 128>
class PersistentMap {
 public:
  using Tree = PersistentTree<Traits, kMaxChunk, kMaxPage>;
  using Entry = typename Traits::Entry;
  using Key = typename Traits::Key;
  using Position = typename Tree::Position;

  // Ascending. Stays good until its map is changed or destroyed; stepping to
  // the next entry is O(1) and seldom more than an addition.
  class const_iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Entry;
    using difference_type = ptrdiff_t;
    using pointer = const Entry*;
    using reference = const Entry&;

    const_iterator() = default;
    reference operator*() const { return *entry_; }
    pointer operator->() const { return entry_; }
    const_iterator& operator++() {
      if (++entry_ == chunk_end_) GoTo(page_, chunk_ + 1);
      return *this;
    }
    const_iterator operator++(int) { return std::exchange(*this, Next()); }
    // REQUIRES: not the beginning.
    const_iterator& operator--() {
      if (entry_ == nullptr || entry_ == ThisChunk().begin()) ToPrevious();
      --entry_;
      return *this;
    }
    const_iterator operator--(int) {
      const_iterator before = *this;
      --*this;
      return before;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.entry_ == b.entry_;
    }

   private:
    friend class PersistentMap;
    using Root = typename Tree::Root;
    using Chunk = typename Tree::Chunk;

    const_iterator(const Root* root, size_t page, size_t chunk) : root_(root) {
      if (root_ != nullptr) GoTo(page, chunk);
    }
    const Chunk& ThisChunk() const {
      return *(*(*root_)[page_].node)[chunk_].node;
    }
    const_iterator Next() const {
      const_iterator next = *this;
      return ++next;
    }
    // To the first entry of that chunk, which may be one past the page's last.
    void GoTo(size_t page, size_t chunk) {
      if (page < root_->size() && chunk == (*root_)[page].node->size()) {
        ++page, chunk = 0;
      }
      page_ = page;
      chunk_ = chunk;
      const bool end = page_ == root_->size();
      entry_ = end ? nullptr : ThisChunk().begin();
      chunk_end_ = end ? nullptr : ThisChunk().end();
    }
    // To the end of the chunk before.
    void ToPrevious() {
      if (chunk_ == 0) chunk_ = (*root_)[--page_].node->size();
      --chunk_;
      entry_ = chunk_end_ = ThisChunk().end();
    }

    const Root* root_ = nullptr;
    size_t page_ = 0;
    size_t chunk_ = 0;
    const Entry* entry_ = nullptr;  // null at the end
    const Entry* chunk_end_ = nullptr;
  };

  PersistentMap() = default;
  PersistentMap(PersistentMap&&) noexcept = default;
  PersistentMap& operator=(PersistentMap&&) noexcept = default;

  // Another map of the same entries. Neither sees what becomes of the other.
  // O(1). May be called on several threads at once, as what is const may.
  PersistentMap Share() const { return PersistentMap(tree_.Share()); }

  // Null if there is none. O(log size).
  const Entry* Find(const Key& key) const {
    const Position at = Locate(key);
    return at.found ? &At(at) : nullptr;
  }

  // Adds the entry, or replaces the one of the same key. True if it is added.
  bool InsertOrAssign(Entry entry) {
    const Position at = Locate(Traits::KeyOf(entry));
    Put(at, std::move(entry));
    return !at.found;
  }

  // False if there is none.
  bool Erase(const Key& key) {
    const Position at = Locate(key);
    if (at.found) Remove(at);
    return at.found;
  }

  // Adds an entry behind all others: O(1), and leaves chunks full.
  // REQUIRES: its key is after every other.
  void Append(Entry entry) { tree_.Insert(tree_.End(), std::move(entry)); }

  // To look and then to change in one search: a Position is good until the map
  // changes. O(log size).
  Position Locate(const Key& key) const { return tree_.Locate(key); }
  // REQUIRES: at.found.
  const Entry& At(const Position& at) const {
    return tree_.ChunkAt(at)[at.entry];
  }
  // REQUIRES: `at` is Locate of the entry's key.
  void Put(const Position& at, Entry entry) {
    if (at.found) {
      tree_.Assign(at, std::move(entry));
    } else {
      tree_.Insert(at, std::move(entry));
    }
  }
  // REQUIRES: at.found.
  void Remove(const Position& at) { tree_.Remove(at); }

  const_iterator begin() const { return {tree_.root(), 0, 0}; }
  const_iterator end() const {
    return {tree_.root(), tree_.root() == nullptr ? 0 : tree_.root()->size(),
            0};
  }
  // The first entry not before `key`, and the first after it.
  const_iterator LowerBound(const Key& key) const {
    return IteratorAt(Locate(key));
  }
  const_iterator UpperBound(const Key& key) const {
    const Position at = Locate(key);
    const const_iterator it = IteratorAt(at);
    return at.found ? std::next(it) : it;
  }

  size_t size() const { return tree_.size(); }
  bool empty() const { return size() == 0; }
  // Bytes of the nodes; those that other versions hold too count in full, and
  // what entries hold elsewhere does not count. O(1).
  size_t bytes() const { return tree_.bytes(); }

  // The shape, for tests.
  const Tree& tree() const { return tree_; }

 private:
  explicit PersistentMap(Tree tree) : tree_(std::move(tree)) {}

  const_iterator IteratorAt(const Position& at) const {
    const_iterator it(tree_.root(), at.page, at.chunk);
    if (it.entry_ == nullptr) return it;
    it.entry_ += at.entry;
    if (it.entry_ == it.chunk_end_) it.GoTo(at.page, at.chunk + 1);
    return it;
  }

  Tree tree_;
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_PERSISTENT_MAP_H_
