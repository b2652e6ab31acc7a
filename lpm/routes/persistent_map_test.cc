// SPDX-License-Identifier: Apache-2.0

// The persistent map against std::map: every version against a model of its
// own, in trees of nodes so small that all of them divide and join.

#include "lpm/routes/persistent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"

namespace planb {
namespace {

// A small entry that is copied as bytes.
struct Plain {
  using Value = uint32_t;
  uint32_t key;
  Value value;
};

// An entry that owns memory and is counted.
struct Owning {
  using Value = std::string;
  Owning(uint32_t k, Value v) : key(k), value(std::move(v)) { ++alive; }
  Owning(const Owning& other) : key(other.key), value(other.value) { ++alive; }
  Owning(Owning&& other) noexcept
      : key(other.key), value(std::move(other.value)) {
    ++alive;
  }
  Owning& operator=(const Owning&) = default;
  Owning& operator=(Owning&&) = default;
  ~Owning() { --alive; }

  uint32_t key;
  Value value;
  static inline int alive = 0;
};

template <typename E>
struct ByKey {
  using Entry = E;
  using Key = uint32_t;
  static Key KeyOf(const Entry& entry) { return entry.key; }
  static bool Less(Key a, Key b) { return a < b; }
};

template <typename Value>
Value ValueOf(uint64_t number);
template <>
uint32_t ValueOf(uint64_t number) {
  return static_cast<uint32_t>(number);
}
template <>
std::string ValueOf(uint64_t number) {
  return "a value too long for a small string: " + std::to_string(number);
}

// Expects the promised shape.
template <typename Tree>
void ExpectSound(const Tree& tree) {
  using Root = typename Tree::Root;
  const Root* root = tree.root();
  if (root == nullptr) {
    ASSERT_EQ(tree.size(), 0U);
    ASSERT_EQ(tree.bytes(), 0U);
    return;
  }
  size_t entries = 0, bytes = root->bytes();
  ASSERT_GT(root->size(), 0U);
  for (size_t p = 0; p < root->size(); ++p) {
    const auto& page = *(*root)[p].node;
    const bool last_page = p + 1 == root->size();
    bytes += page.bytes();
    ASSERT_GE(page.size(), last_page ? 1 : Tree::kMinPage);
    for (size_t c = 0; c < page.size(); ++c) {
      const auto& chunk = *page[c].node;
      const bool last_chunk = last_page && c + 1 == page.size();
      bytes += chunk.bytes();
      entries += chunk.size();
      ASSERT_GE(chunk.size(), last_chunk ? 1 : Tree::kMinChunk);
      ASSERT_LE((*root)[p].key, chunk[0].key);
      ASSERT_LE(page[c].key, chunk[0].key);
      if (c + 1 < page.size()) {
        ASSERT_GT(page[c + 1].key, (chunk.end() - 1)->key);
      } else if (!last_page) {
        ASSERT_GT((*root)[p + 1].key, (chunk.end() - 1)->key);
      }
    }
  }
  ASSERT_EQ(tree.size(), entries);
  ASSERT_EQ(tree.bytes(), bytes);
}

template <typename Map>
using ModelOf = std::map<uint32_t, typename Map::Entry::Value>;

// Compares every query, for keys below `limit`.
template <typename Map>
void ExpectSame(const Map& map, const ModelOf<Map>& model, uint32_t limit) {
  ExpectSound(map.tree());
  if (testing::Test::HasFatalFailure()) return;
  std::vector<uint32_t> keys(limit);
  std::iota(keys.begin(), keys.end(), 0);
  map.Prefetch(keys);  // only reads what there is
  ASSERT_EQ(map.size(), model.size());
  ASSERT_EQ(map.empty(), model.empty());
  auto it = map.begin();
  for (const auto& [key, value] : model) {
    ASSERT_NE(it, map.end());
    ASSERT_EQ(it->key, key);
    ASSERT_EQ((*it++).value, value);
  }
  ASSERT_EQ(it, map.end());
  for (auto back = model.rbegin(); back != model.rend(); ++back) {
    ASSERT_NE(it, map.begin());
    ASSERT_EQ((--it)->key, back->first);
  }
  ASSERT_EQ(it, map.begin());
  for (uint32_t key = 0; key < limit; ++key) {
    const auto here = model.find(key);
    const auto* entry = map.Find(key);
    ASSERT_EQ(entry != nullptr, here != model.end());
    if (entry != nullptr) {
      ASSERT_EQ(entry->value, here->second);
    }
    const auto lower = model.lower_bound(key), upper = model.upper_bound(key);
    auto found = map.LowerBound(key);
    ASSERT_EQ(found == map.end(), lower == model.end());
    if (found != map.end()) {
      ASSERT_EQ(found->key, lower->first);
    }
    ASSERT_EQ(found == map.begin(), lower == model.begin());
    if (found != map.begin()) {
      ASSERT_EQ((--found)->key, std::prev(lower)->first);
    }
    found = map.UpperBound(key);
    ASSERT_EQ(found == map.end(), upper == model.end());
    if (found != map.end()) {
      ASSERT_EQ(found->key, upper->first);
      auto after = found;
      for (int i = 0; i < 20 && after != map.end(); ++i, ++after) {
        ASSERT_EQ(map.UpperBound(key, after), found);
      }
      const auto before = found++;
      ASSERT_EQ(std::next(before), found);
    }
  }
}

template <typename Map>
class PersistentMapOf : public testing::Test {};

using Maps = testing::Types<
    PersistentMap<ByKey<Plain>, 2, 4>, PersistentMap<ByKey<Plain>, 3, 5>,
    PersistentMap<ByKey<Plain>, 4, 4>, PersistentMap<ByKey<Plain>, 8, 8>,
    PersistentMap<ByKey<Owning>, 2, 4>, PersistentMap<ByKey<Owning>, 4, 6>>;
TYPED_TEST_SUITE(PersistentMapOf, Maps);

// Tries every sequence of `depth` changes from here, each on a version of its
// own; a change adds, replaces or erases any key. What is here must not change.
template <typename Map>
void TryAll(const Map& map, const ModelOf<Map>& model, uint32_t limit,
            int depth) {
  using Value = typename Map::Entry::Value;
  for (uint32_t key = 0; depth > 0 && key < limit; ++key) {
    for (const bool erase : {false, true}) {
      Map next = map.Share();
      ModelOf<Map> next_model = model;
      if (erase) {
        ASSERT_EQ(next.Erase(key), next_model.erase(key) > 0);
      } else {
        const Value value = ValueOf<Value>(static_cast<uint64_t>(depth));
        ASSERT_EQ(next.InsertOrAssign({key, value}),
                  next_model.insert_or_assign(key, value).second);
      }
      TryAll(next, next_model, limit, depth - 1);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  ExpectSame(map, model, limit);
}

// Every other key there, appended or added in an order that leaves nodes half
// empty, and then every way to make three changes.
TYPED_TEST(PersistentMapOf, EverySequenceOfChanges) {
  using Value = typename TypeParam::Entry::Value;
  for (const uint32_t count : {0, 1, 3, 5, 8, 11}) {
    for (const bool append : {true, false}) {
      TypeParam map;
      ModelOf<TypeParam> model;
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t key = 1 + 2 * (append ? i : count - 1 - i);
        append ? map.Append({key, ValueOf<Value>(key)})
               : void(map.InsertOrAssign({key, ValueOf<Value>(key)}));
        model[key] = ValueOf<Value>(key);
      }
      TryAll(map, model, 2 * count + 1, count < 8 ? 3 : 2);
      if (this->HasFatalFailure()) FAIL() << count << (append ? " a" : " b");
    }
  }
}

// In one tree, in place: all orders to add five keys and all to erase them, in
// the midst of others.
TYPED_TEST(PersistentMapOf, EveryOrderInPlace) {
  using Value = typename TypeParam::Entry::Value;
  const std::vector<uint32_t> keys = {0, 4, 5, 6, 20};
  std::vector<uint32_t> in = keys;
  do {
    std::vector<uint32_t> out = keys;
    do {
      TypeParam map;
      for (uint32_t key = 1; key < 20; key += 2) {
        if (key != 5) map.Append({key, ValueOf<Value>(1)});
      }
      for (const uint32_t key : in) {
        ASSERT_TRUE(map.InsertOrAssign({key, ValueOf<Value>(2)}));
      }
      ExpectSound(map.tree());
      for (const uint32_t key : out) ASSERT_TRUE(map.Erase(key));
      ExpectSound(map.tree());
      if (this->HasFatalFailure()) return;
      ASSERT_EQ(map.size(), 9U);
    } while (std::next_permutation(out.begin(), out.end()));
  } while (std::next_permutation(in.begin(), in.end()));
}

// Many versions, each changed, shared, moved and destroyed at random.
TYPED_TEST(PersistentMapOf, RandomVersions) {
  using Value = typename TypeParam::Entry::Value;
  using Versions = std::vector<std::pair<TypeParam, ModelOf<TypeParam>>>;
  for (uint64_t seed = 1; seed <= 20; seed += kSanitized ? 4 : 1) {
    Random random(seed);
    const auto limit = static_cast<uint32_t>(5 + 15 * seed);
    // Some histories mostly grow for a while, and then mostly shrink.
    const uint64_t phase = 200 * (1 + seed % 3);
    Versions versions(1);
    for (uint64_t step = 0; step < 3000; ++step) {
      auto& [map, model] = versions[random.Below(versions.size())];
      const auto key = static_cast<uint32_t>(random.Below(limit));
      const Value value = ValueOf<Value>(step);
      const bool grow = step / phase % 2 == 0;
      switch (random.Below(8)) {
        case 0:
          if (versions.size() < 12) {
            TypeParam other = map.Share();
            ModelOf<TypeParam> other_model = model;
            versions.emplace_back(std::move(other), std::move(other_model));
          }
          break;
        case 1:
          if (versions.size() > 1 && random.Chance(1, 2)) {
            std::swap(versions[random.Below(versions.size())], versions.back());
            versions.pop_back();
          }
          break;
        case 2: {
          // First looks, then changes.
          const auto at = map.Locate(key);
          ASSERT_EQ(at.found, model.contains(key));
          if (at.found && !grow) {
            map.Remove(at);
            model.erase(key);
          } else {
            map.Put(at, {key, value});
            model[key] = value;
          }
          break;
        }
        case 3:
          if (const uint32_t last = model.empty() ? 0 : model.rbegin()->first;
              grow && last + 1 < limit) {
            map.Append({last + 1, value});
            model[last + 1] = value;
          }
          break;
        default:
          if (random.Chance(grow ? 3 : 1, 4)) {
            ASSERT_EQ(map.InsertOrAssign({key, value}),
                      model.insert_or_assign(key, value).second);
          } else {
            ASSERT_EQ(map.Erase(key), model.erase(key) > 0);
          }
      }
      if (step % 100 != 0) continue;
      for (const auto& [each, each_model] : versions) {
        ExpectSame(each, each_model, limit);
        if (this->HasFatalFailure()) FAIL() << "seed " << seed;
      }
    }
    // Erases all, one after the other.
    for (auto& [map, model] : versions) {
      while (!model.empty()) {
        const auto at = std::next(
            model.begin(), static_cast<ptrdiff_t>(random.Below(model.size())));
        ASSERT_TRUE(map.Erase(at->first));
        model.erase(at);
        ExpectSound(map.tree());
        if (this->HasFatalFailure()) FAIL() << "seed " << seed;
      }
      ASSERT_EQ(map.begin(), map.end());
    }
  }
  EXPECT_EQ(Owning::alive, 0);
}

using Usual = PersistentMap<ByKey<Plain>>;

Usual Ascending(uint32_t count) {
  Usual map;
  for (uint32_t i = 0; i < count; ++i) map.Append({2 * i, i});
  return map;
}

// The nodes of `map` that `other` has not.
size_t NotIn(const Usual& map, const Usual& other) {
  const auto nodes = [](const Usual& of) {
    std::set<const void*> all = {of.tree().root()};
    for (const auto& page : *of.tree().root()) {
      all.insert(page.node.get());
      for (const auto& chunk : *page.node) all.insert(chunk.node.get());
    }
    return all;
  };
  const std::set<const void*> a = nodes(map), b = nodes(other);
  std::vector<const void*> only;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(only));
  return only.size();
}

TEST(PersistentMap, CopiesWhatItMustAndNoMore) {
  Usual map = Ascending(100'000);
  const Plain* const before = map.Find(5000);
  map.InsertOrAssign({5000, 1});
  EXPECT_EQ(map.Find(5000), before) << "not in place";

  Usual old = map.Share();
  EXPECT_EQ(NotIn(map, old), 0U);
  map.InsertOrAssign({5000, 2});
  EXPECT_EQ(NotIn(map, old), 3U) << "a chunk, its page, the root";
  EXPECT_EQ(old.Find(5000), before) << "the old version keeps the old node";
  EXPECT_EQ(before->value, 1U);
  const Plain* const copy = map.Find(5000);
  map.InsertOrAssign({5000, 3});
  EXPECT_EQ(map.Find(5000), copy) << "its own by now";
  map.InsertOrAssign({5001, 3});
  EXPECT_EQ(NotIn(map, old), 5U) << "a full chunk and its full page divided";
  map.Erase(150'000);
  EXPECT_EQ(NotIn(map, old), 7U) << "a chunk of another page";

  // Both sides lost the right to write in place, even when alone again.
  map = Ascending(1000);
  old = map.Share();
  const Plain* const shared = old.Find(0);
  map = Usual();
  old.InsertOrAssign({0, 7});
  EXPECT_NE(old.Find(0), shared);
}

TEST(PersistentMap, MovesWithItsNodes) {
  Usual map = Ascending(1000);
  const Plain* const entry = map.Find(500);
  Usual other = std::move(map);
  other.InsertOrAssign({500, 9});
  EXPECT_EQ(other.Find(500), entry) << "still in place";
  EXPECT_EQ(entry->value, 9U);
  map = Usual();
  map.InsertOrAssign({1, 1});
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(other.size(), 1000U);
}

TEST(PersistentMap, FillsWhatIsAppended) {
  const Usual map = Ascending(1'000'000);
  ExpectSound(map.tree());
  const auto& root = *map.tree().root();
  ASSERT_EQ(root.size(), (1'000'000 + 128 * 128 - 1) / (128 * 128));
  for (size_t p = 0; p + 1 < root.size(); ++p) {
    ASSERT_EQ(root[p].node->size(), 128U);
    for (const auto& chunk : *root[p].node) {
      ASSERT_EQ(chunk.node->size(), 128U);
    }
  }
  EXPECT_LT(static_cast<double>(map.bytes()) / 1e6, 8.5);
}

// As persistent_map.h states.
TEST(PersistentMap, StaysFullThroughChurn) {
  Usual map = Ascending(100'000);
  Random random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto key = static_cast<uint32_t>(random.Below(200'000));
    if (!map.Erase(key)) map.InsertOrAssign({key, 1});
  }
  ExpectSound(map.tree());
  size_t chunks = 0;
  for (const auto& page : *map.tree().root()) chunks += page.node->size();
  const double entries = static_cast<double>(map.size());
  EXPECT_GT(entries / static_cast<double>(chunks), 0.54 * 128);
  EXPECT_LT(static_cast<double>(map.bytes()) / entries, 1.25 * sizeof(Plain));
}

}  // namespace
}  // namespace planb
