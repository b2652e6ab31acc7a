// SPDX-License-Identifier: Apache-2.0

// The tree beneath a persistent map: a root of pages, pages of chunks, chunks
// of entries that lie beside each other. How it is searched and changed.
//
// Always these three levels: a page holds up to kMaxPage chunks, a chunk up to
// kMaxChunk entries, the root as many pages as it takes: 62 for a million
// entries that came in order, some 200 after much churn. So a change to a
// version that others hold copies about 10 KB there. Every chunk but the last
// holds kMinChunk entries at least, seven sixteenths of kMaxChunk; every page
// but the last kMinPage chunks; no node is empty. (After random churn chunks
// are 56 % full on average, and yet have little memory to spare, as each has
// only what it needs soon.) What is appended at the end leaves full nodes
// behind.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_TREE_H_
#define PLANB_LPM_ROUTES_PERSISTENT_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "lpm/routes/persistent_edit.h"
#include "lpm/routes/persistent_node.h"

namespace planb {

// Traits are those of PersistentMap. Thread-compatible; what versions share may
// be read and freed on different threads at once.
template <typename Traits, size_t kMaxChunk, size_t kMaxPage>
class PersistentTree {
 public:
  using Entry = typename Traits::Entry;
  using Key = typename Traits::Key;
  using Chunk = PersistentNode<Entry, kMaxChunk>;
  using Page = PersistentNode<NodeChild<Key, Chunk>, kMaxPage>;
  using Root = PersistentNode<NodeChild<Key, Page>,
                              std::numeric_limits<uint32_t>::max()>;

  static constexpr size_t kMinChunk = std::max<size_t>(1, kMaxChunk * 7 / 16);
  static constexpr size_t kMinPage = std::max<size_t>(2, kMaxPage * 7 / 16);
  static_assert(kMaxChunk >= 2 && kMaxPage >= 4);
  // Two nodes that Mend makes even are large enough.
  static_assert((kMaxChunk * 7 / 8 + 1) / 2 >= kMinChunk &&
                (kMaxPage * 7 / 8 + 1) / 2 >= kMinPage);

  // Where an entry is (`found`), or where one of that key would go. Good until
  // the next change.
  struct Position {
    size_t page = 0;
    size_t chunk = 0;
    size_t entry = 0;
    bool found = false;
  };

  PersistentTree() = default;
  PersistentTree(PersistentTree&& other) noexcept { *this = std::move(other); }
  PersistentTree& operator=(PersistentTree&& other) noexcept {
    root_ = std::exchange(other.root_, {});
    size_ = std::exchange(other.size_, 0);
    edit_ = std::move(other.edit_);
    return *this;
  }

  // The same entries. Neither tree sees what becomes of the other. O(1).
  PersistentTree Share() const {
    edit_.Close();
    PersistentTree other;
    other.root_ = root_;
    other.size_ = size_;
    other.edit_ = PersistentEdit<Traits>(edit_.bytes());
    return other;
  }

  size_t size() const { return size_; }
  // Of all nodes, whoever else holds them.
  size_t bytes() const { return edit_.bytes(); }
  // Null if there are no entries.
  const Root* root() const { return root_.get(); }

  const Chunk& ChunkAt(const Position& at) const {
    return *(*(*root_)[at.page].node)[at.chunk].node;
  }

  Position Locate(const Key& key) const {
    Position at;
    if (!root_) return at;
    at.page = ChildFor(*root_, key);
    const Page& page = *(*root_)[at.page].node;
    at.chunk = ChildFor(page, key);
    const Chunk& chunk = *page[at.chunk].node;
    at.entry = CountWhile(chunk, [&](const Entry& e) {
      return Traits::Less(Traits::KeyOf(e), key);
    });
    at.found = at.entry < chunk.size() &&
               !Traits::Less(key, Traits::KeyOf(chunk[at.entry]));
    return at;
  }

  // Behind the last entry.
  Position End() const {
    Position at;
    if (!root_) return at;
    at.page = root_->size() - 1;
    at.chunk = (*root_)[at.page].node->size() - 1;
    at.entry = ChunkAt(at).size();
    return at;
  }

  // REQUIRES: `at` was found with the entry's key.
  void Assign(const Position& at, Entry entry) {
    Root& root = edit_.Own(root_, 0);
    Page& page = edit_.Own(root[at.page].node, 0);
    edit_.Own(page[at.chunk].node, 0)[at.entry] = std::move(entry);
  }

  // REQUIRES: `at` is where the entry's key would go.
  void Insert(Position at, Entry entry) {
    const Key key = Traits::KeyOf(entry);
    if (!root_) {
      Grow(key);
    } else if (ChunkAt(at).size() == kMaxChunk) {
      IsEnd(at) ? Extend(at, key) : Divide(at);
    }
    Root& root = edit_.Own(root_, 0);
    Page& page = edit_.Own(root[at.page].node, 0);
    Chunk& chunk = edit_.Own(page[at.chunk].node, 1);
    chunk.Insert(at.entry, std::move(entry));
    ++size_;
    if (Traits::Less(key, root[at.page].key)) root[at.page].key = key;
    if (Traits::Less(key, page[at.chunk].key)) page[at.chunk].key = key;
  }

  // REQUIRES: `at` was found.
  void Remove(const Position& at) {
    Root& root = edit_.Own(root_, 0);
    Page& page = edit_.Own(root[at.page].node, 0);
    const bool last_page = at.page + 1 == root.size();
    const bool last_chunk = last_page && at.chunk + 1 == page.size();
    edit_.Own(page[at.chunk].node, 0).Erase(at.entry);
    --size_;
    edit_.Mend(page, at.chunk, last_chunk, kMinChunk);
    edit_.Mend(root, at.page, last_page, kMinPage);
    if (root.size() > 0) return;
    edit_.Drop(root);
    root_ = {};
  }

 private:
  // How many of the node's first items are `before`. Without branches on what
  // the items say.
  template <typename Node, typename Before>
  static size_t CountWhile(const Node& node, Before before) {
    const auto* base = node.begin();
    for (size_t n = node.size(); n > 1;) {
      const size_t half = n / 2;
      base += before(base[half - 1]) ? half : 0;
      n -= half;
    }
    return static_cast<size_t>(base - node.begin()) + (before(*base) ? 1 : 0);
  }

  template <typename Node>
  static size_t ChildFor(const Node& node, const Key& key) {
    const size_t begun = CountWhile(
        node, [&](const auto& c) { return !Traits::Less(key, c.key); });
    return begun == 0 ? 0 : begun - 1;
  }

  bool IsEnd(const Position& at) const {
    return at.page + 1 == root_->size() &&
           at.chunk + 1 == (*root_)[at.page].node->size() &&
           at.entry == ChunkAt(at).size();
  }

  void Grow(const Key& key) {
    root_ = edit_.template Make<Root>(1);
    root_.Write().Insert(0, {key, edit_.template Make<Page>(1)});
    root_.Write()[0].node.Write().Insert(0,
                                         {key, edit_.template Make<Chunk>(1)});
  }

  // Puts an empty chunk for `key` behind the last, which is full.
  void Extend(Position& at, const Key& key) {
    Root& root = edit_.Own(root_, 1);
    if (root[at.page].node->size() == kMaxPage) {
      root.Insert(++at.page, {key, edit_.template Make<Page>(kMaxPage)});
      at.chunk = 0;
    } else {
      ++at.chunk;
    }
    edit_.Own(root[at.page].node, 1)
        .Insert(at.chunk, {key, edit_.template Make<Chunk>(kMaxChunk)});
    at.entry = 0;
  }

  // Divides the chunk at `at`, which is full, and its page if that is.
  void Divide(Position& at) {
    Root& root = edit_.Own(root_, 1);
    if (root[at.page].node->size() == kMaxPage) {
      edit_.Halve(root, at.page);
      const size_t left = root[at.page].node->size();
      if (at.chunk >= left) ++at.page, at.chunk -= left;
    }
    Page& page = edit_.Own(root[at.page].node, 1);
    edit_.Halve(page, at.chunk);
    const size_t left = page[at.chunk].node->size();
    if (at.entry > left) ++at.chunk, at.entry -= left;
  }

  NodeRef<Root> root_;
  size_t size_ = 0;
  PersistentEdit<Traits> edit_;
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_PERSISTENT_TREE_H_
