// SPDX-License-Identifier: Apache-2.0

// An ordered map with any number of versions, which share what they have in
// common. Share() makes a version in constant time. A change copies the few
// nodes on its way that another version may hold, and no others.

#ifndef PLANB_LPM_ROUTES_PERSISTENT_MAP_H_
#define PLANB_LPM_ROUTES_PERSISTENT_MAP_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/types/span.h"
#include "lpm/routes/persistent_node.h"

namespace planb {

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
//
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

  // The same entries. Later changes of one tree do not show in the other. O(1).
  PersistentTree Share() const {
    edit_.Close();
    PersistentTree other;
    other.root_ = root_;
    other.size_ = size_;
    other.edit_ = PersistentEdit<Traits>(edit_.bytes());
    return other;
  }

  size_t size() const { return size_; }
  // Of all nodes, those that other versions hold included.
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
    at.entry =
        CountBefore</*kOrEqual=*/false>(chunk.begin(), chunk.size(), key);
    at.found = at.entry < chunk.size() &&
               !Traits::Less(key, Traits::KeyOf(chunk[at.entry]));
    return at;
  }

  template <bool kOrEqual, typename Item>
  static bool IsBefore(const Item& item, const Key& key) {
    const Key& at = PersistentEdit<Traits>::KeyOf(item);
    return kOrEqual ? !Traits::Less(key, at) : Traits::Less(at, key);
  }

  // How many of the items, `size` in a row, entries or children, are before
  // `key`, or equal it if that counts. REQUIRES: size > 0.
  template <bool kOrEqual, typename Item>
  static size_t CountBefore(const Item* items, size_t size, const Key& key) {
    const auto before = [&key](const Item& item) {
      return IsBefore<kOrEqual>(item, key);
    };
    if constexpr (requires { Traits::Lead(key); }) {
      const auto lead = Traits::Lead(key);
      size_t count = CountWhile(items, size, [lead](const Item& item) {
        return Traits::Lead(PersistentEdit<Traits>::KeyOf(item)) < lead;
      });
      // Few have the same, as a rule.
      for (int few = 0; few < 4; ++few, ++count) {
        if (count == size || !before(items[count])) return count;
      }
      if (count == size) return count;
      return count + CountWhile(items + count, size - count, before);
    }
    return CountWhile(items, size, before);
  }

  // Loads what Locate of each key reads. The keys are searched for side by
  // side: one alone would wait for memory at each of its steps.
  void Prefetch(absl::Span<const Key> keys) const {
    if (!root_) return;
    std::array<const Page*, kSideBySide> pages;
    std::array<const Chunk*, kSideBySide> chunks;
    while (!keys.empty()) {
      const absl::Span<const Key> some =
          keys.first(std::min(keys.size(), kSideBySide));
      keys.remove_prefix(some.size());
      for (size_t i = 0; i < some.size(); ++i) {
        pages[i] = (*root_)[ChildFor(*root_, some[i])].node.get();
        Load(pages[i]);
      }
      SearchAll</*kOrEqual=*/true>(
          some, pages.data(),
          [&](size_t i, const NodeChild<Key, Chunk>& child) {
            chunks[i] = child.node.get();
            Load(chunks[i]);
          });
      SearchAll</*kOrEqual=*/false>(some, chunks.data(),
                                    [](size_t, const Entry&) {});
    }
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
  // Searches that together have about as many loads under way as a processor
  // can.
  static constexpr size_t kSideBySide = 32;

  // Where in a row of items the first that is not `before` may be: at `base` or
  // one of the `size` behind it.
  template <typename Item>
  struct Search {
    const Item* base;
    size_t size;

    // What Step looks at. REQUIRES of both: size > 1.
    const Item& Middle() const { return base[size / 2 - 1]; }
    // Without branches on what the item says.
    template <typename Before>
    void Step(Before before) {
      const size_t half = size / 2;
      base += half & (size_t{0} - size_t{before(Middle())});
      size -= half;
    }
  };

  // How many of the first items are `before`, of `size` in a row.
  // REQUIRES: size > 0.
  template <typename Item, typename Before>
  static size_t CountWhile(const Item* items, size_t size, Before before) {
    Search<Item> at = {items, size};
    while (at.size > 1) at.Step(before);
    return static_cast<size_t>(at.base - items) + (before(*at.base) ? 1 : 0);
  }

  // GCC takes functions that prefetch alone for such without effects, and drops
  // calls of them. What it must assume of an asm keeps them.
  static void Load(const void* at) {
    __builtin_prefetch(at);
    asm volatile("" : : "r"(at));
  }

  // Calls `found` with each key's place and the last item of its node that is
  // before it, or the first. A step of one key loads what its next one reads.
  template <bool kOrEqual, typename Node, typename Found>
  static void SearchAll(absl::Span<const Key> keys, const Node* const* nodes,
                        Found found) {
    using Item = std::decay_t<decltype((*nodes[0])[0])>;
    std::array<Search<Item>, kSideBySide> searches;
    for (size_t i = 0; i < keys.size(); ++i) {
      searches[i] = {nodes[i]->begin(), nodes[i]->size()};
      if (searches[i].size > 1) Load(&searches[i].Middle());
    }
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < keys.size(); ++i) {
        Search<Item>& at = searches[i];
        if (at.size <= 1) continue;
        at.Step([&key = keys[i]](const Item& item) {
          return IsBefore<kOrEqual>(item, key);
        });
        if (at.size <= 1) {
          Load(at.base);
        } else {
          Load(&at.Middle());
          more = true;
        }
      }
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const Item* at = searches[i].base;
      if (at != nodes[i]->begin() && !IsBefore<kOrEqual>(*at, keys[i])) --at;
      found(i, *at);
    }
  }

  template <typename Node>
  static size_t ChildFor(const Node& node, const Key& key) {
    const size_t begun =
        CountBefore</*kOrEqual=*/true>(node.begin(), node.size(), key);
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

// `Traits` say what is held and in which order:
//   using Entry = ...;  // a value: copyable, movable, copies on any thread
//   using Key = ...;    // a small value; copied into the nodes above
//   static Key KeyOf(const Entry&);              // a reference will do
//   static bool Less(const Key&, const Key&);    // a strict order
//
// and, if there is one, a number that never falls in that order and that few
// keys share, which searches compare first:
//
//   static uint64_t Lead(const Key&);
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

  // Another map of the same entries. Later changes of one do not show in the
  // other. O(1). Several threads may call it at once, like all that is const.
  PersistentMap Share() const { return PersistentMap(tree_.Share()); }

  // True if neither has changed since one was shared from the other. O(1).
  bool SharesAllWith(const PersistentMap& other) const {
    return tree_.root() == other.tree_.root();
  }

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
  // Loads what changes of these keys read: one after the other they would wait
  // for memory. O(keys * log size).
  void Prefetch(absl::Span<const Key> keys) const { tree_.Prefetch(keys); }
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

  // UpperBound(key), found sooner if it is near. REQUIRES: `after` is at an
  // entry, whose key is after `key`.
  const_iterator UpperBound(const Key& key, const const_iterator& after) const {
    const Entry* const first = after.ThisChunk().begin();
    if (Traits::Less(key, Traits::KeyOf(*first))) return UpperBound(key);
    const_iterator it = after;
    it.entry_ =
        first + Tree::template CountBefore</*kOrEqual=*/true>(
                    first, static_cast<size_t>(after.entry_ - first) + 1, key);
    return it;
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
