// The tree beneath a persistent map: a root of pages, pages of chunks, chunks
// of entries that lie beside each other. How it is searched, how its nodes
// divide and join, and which of them a change copies.
//
// Always these three levels: a page holds up to kMaxPage chunks, a chunk up to
// kMaxChunk entries, the root as many pages as it takes (110 for a million
// entries), so that a change to a version that others hold copies some 11 KB
// there. Every chunk but the last holds kMinChunk entries at least, seven
// sixteenths of kMaxChunk; every page but the last kMinPage chunks; no node is
// empty. (After random churn chunks are 56 % full on average, and yet have
// little memory to spare, as each has only what it needs soon.) What is
// appended at the end leaves full nodes behind.

#ifndef PLANB_LPM_COW_TREE_H_
#define PLANB_LPM_COW_TREE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "lpm/cow_node.h"

namespace planb {

// A number that no other edit of the process ever has; never 0.
inline uint64_t NewCowToken() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Traits are those of CowMap. Thread-compatible; what versions share may be
// read and freed on different threads at once.
template <typename Traits, size_t kMaxChunk, size_t kMaxPage>
class CowTree {
 public:
  using Entry = typename Traits::Entry;
  using Key = typename Traits::Key;
  using Chunk = CowNode<Entry>;
  using Page = CowNode<CowChild<Key, Chunk>>;
  using Root = CowNode<CowChild<Key, Page>>;

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

  CowTree() = default;
  CowTree(CowTree&& other) noexcept { *this = std::move(other); }
  CowTree& operator=(CowTree&& other) noexcept {
    root_ = std::exchange(other.root_, {});
    size_ = std::exchange(other.size_, 0);
    bytes_ = std::exchange(other.bytes_, 0);
    token_.store(other.token_.exchange(0, std::memory_order_relaxed),
                 std::memory_order_relaxed);
    return *this;
  }

  // The same entries. Neither tree sees what becomes of the other. O(1).
  CowTree Share() const {
    // From now on no node is this tree's own: its next change begins a new
    // edit. Const, and atomic, as readers may share what they read.
    token_.store(0, std::memory_order_relaxed);
    CowTree other;
    other.root_ = root_;
    other.size_ = size_;
    other.bytes_ = bytes_;
    return other;
  }

  size_t size() const { return size_; }
  // Of all nodes, whoever else holds them.
  size_t bytes() const { return bytes_; }
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
    at.entry = CountWhile(
        chunk, [&](const Entry& e) { return Traits::Less(KeyOf(e), key); });
    at.found =
        at.entry < chunk.size() && !Traits::Less(key, KeyOf(chunk[at.entry]));
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
    Root& root = Own(root_, 0);
    Page& page = Own(root[at.page].node, 0);
    Own(page[at.chunk].node, 0)[at.entry] = std::move(entry);
  }

  // REQUIRES: `at` is where the entry's key would go.
  void Insert(Position at, Entry entry) {
    const Key key = KeyOf(entry);
    if (!root_) {
      Grow(key);
    } else if (ChunkAt(at).size() == kMaxChunk) {
      IsEnd(at) ? Extend(at, key) : Divide(at);
    }
    Root& root = Own(root_, 0);
    Page& page = Own(root[at.page].node, 0);
    Chunk& chunk = Own(page[at.chunk].node, 1);
    chunk.Insert(at.entry, std::move(entry));
    ++size_;
    if (Traits::Less(key, root[at.page].key)) root[at.page].key = key;
    if (Traits::Less(key, page[at.chunk].key)) page[at.chunk].key = key;
  }

  // REQUIRES: `at` was found.
  void Remove(const Position& at) {
    Root& root = Own(root_, 0);
    Page& page = Own(root[at.page].node, 0);
    const bool last_page = at.page + 1 == root.size();
    const bool last_chunk = last_page && at.chunk + 1 == page.size();
    Own(page[at.chunk].node, 0).Erase(at.entry);
    --size_;
    Mend(page, at.chunk, last_chunk, kMinChunk, kMaxChunk);
    Mend(root, at.page, last_page, kMinPage, kMaxPage);
    if (root.size() > 0) return;
    bytes_ -= root.bytes();
    root_ = {};
  }

 private:
  static Key KeyOf(const Entry& entry) { return Traits::KeyOf(entry); }
  template <typename Node>
  static const Key& KeyOf(const CowChild<Key, Node>& child) {
    return child.key;
  }

  // How many of the node's first items are `before`. Without branches on what
  // the items say.
  template <typename Item, typename Before>
  static size_t CountWhile(const CowNode<Item>& node, Before before) {
    const Item* base = node.begin();
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

  uint64_t Token() {
    uint64_t token = token_.load(std::memory_order_relaxed);
    if (token == 0) {
      token = NewCowToken();
      token_.store(token, std::memory_order_relaxed);
    }
    return token;
  }

  // A node of this tree for `items` items, and up to a sixteenth of the
  // most there may be.
  template <typename Node>
  CowRef<Node> Make(size_t items) {
    constexpr bool kIsChunk = std::is_same_v<Node, Chunk>;
    constexpr size_t kStep =
        std::max<size_t>(1, (kIsChunk ? kMaxChunk : kMaxPage) / 16);
    constexpr size_t kMost = kIsChunk ? kMaxChunk
                             : std::is_same_v<Node, Page>
                                 ? kMaxPage
                                 : std::numeric_limits<uint32_t>::max();
    ABSL_RAW_CHECK(items <= kMost, "a node too large");
    auto node = CowRef<Node>::Make(
        Token(), std::min((items + kStep - 1) / kStep * kStep, kMost));
    bytes_ += node->bytes();
    return node;
  }

  // The node, made this edit's own, with room for some more.
  template <typename Node>
  Node& Own(CowRef<Node>& ref, size_t room) {
    const bool own = ref->token() == Token();
    if (own && ref->size() + room <= ref->capacity()) return ref.Write();
    CowRef<Node> fresh = Make<Node>(ref->size() + room);
    if (own) {
      fresh.Write().AppendMoved(ref.Write());
    } else {
      fresh.Write().Append(ref->begin(), ref->end());
    }
    bytes_ -= ref->bytes();
    ref = std::move(fresh);
    return ref.Write();
  }

  void Grow(const Key& key) {
    root_ = Make<Root>(1);
    root_.Write().Insert(0, {key, Make<Page>(1)});
    root_.Write()[0].node.Write().Insert(0, {key, Make<Chunk>(1)});
  }

  // Puts an empty chunk for `key` behind the last, which is full.
  void Extend(Position& at, const Key& key) {
    Root& root = Own(root_, 1);
    if (root[at.page].node->size() == kMaxPage) {
      root.Insert(++at.page, {key, Make<Page>(kMaxPage)});
      at.chunk = 0;
    } else {
      ++at.chunk;
    }
    Own(root[at.page].node, 1).Insert(at.chunk, {key, Make<Chunk>(kMaxChunk)});
    at.entry = 0;
  }

  // Divides the chunk at `at`, which is full, and its page if that is.
  void Divide(Position& at) {
    Root& root = Own(root_, 1);
    if (root[at.page].node->size() == kMaxPage) {
      Halve(root, at.page);
      const size_t left = root[at.page].node->size();
      if (at.chunk >= left) ++at.page, at.chunk -= left;
    }
    Page& page = Own(root[at.page].node, 1);
    Halve(page, at.chunk);
    const size_t left = page[at.chunk].node->size();
    if (at.entry > left) ++at.chunk, at.entry -= left;
  }

  // REQUIRES: room in `parent`.
  template <typename Parent>
  void Halve(Parent& parent, size_t child) {
    const auto old = parent[child].node;
    const size_t half = old->size() / 2;
    parent[child].node = Cut(*old, *old, 0, half);
    auto right = Cut(*old, *old, half, old->size());
    const Key key = KeyOf((*right)[0]);
    parent.Insert(child + 1, {key, std::move(right)});
    bytes_ -= old->bytes();
  }

  // What a child has to be after it lost an item: gone, as it is, of less
  // memory, or one with its neighbour; or the two are made even, if one node of
  // both would soon have to be divided.
  template <typename Parent>
  void Mend(Parent& parent, size_t child, bool last, size_t least,
            size_t most) {
    if (parent[child].node->size() == 0) {
      bytes_ -= parent[child].node->bytes();
      parent.Erase(child);
      return;
    }
    if (last) return;
    if (const auto& node = *parent[child].node; node.size() >= least) {
      if (node.capacity() - node.size() <= most / 4) return;
      bytes_ -= node.bytes();
      parent[child].node = Cut(node, node, 0, node.size());
      return;
    }
    const size_t left = child > 0 ? child - 1 : 0;
    const auto a = parent[left].node, b = parent[left + 1].node;
    const size_t total = a->size() + b->size();
    if (total <= most * 7 / 8) {
      parent[left].node = Cut(*a, *b, 0, total);
      parent.Erase(left + 1);
    } else {
      parent[left].node = Cut(*a, *b, 0, total / 2);
      auto right = Cut(*a, *b, total / 2, total);
      const Key key = KeyOf((*right)[0]);
      parent[left + 1] = {key, std::move(right)};
    }
    bytes_ -= a->bytes() + b->bytes();
  }

  // A node of what is from `begin` to `end` where `b` follows `a`, with room
  // for one more.
  template <typename Node>
  CowRef<Node> Cut(const Node& a, const Node& b, size_t begin, size_t end) {
    CowRef<Node> cut = Make<Node>(end - begin + 1);
    const size_t n = a.size();
    cut.Write().Append(a.begin() + std::min(begin, n),
                       a.begin() + std::min(end, n));
    if (end > n) {
      cut.Write().Append(b.begin() + (std::max(begin, n) - n),
                         b.begin() + (end - n));
    }
    return cut;
  }

  CowRef<Root> root_;
  size_t size_ = 0;
  size_t bytes_ = 0;
  // Of the nodes that this tree made since it was last shared; 0: there are
  // none.
  mutable std::atomic<uint64_t> token_{0};
};

}  // namespace planb

#endif  // PLANB_LPM_COW_TREE_H_
