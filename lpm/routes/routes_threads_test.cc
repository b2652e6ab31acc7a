// SPDX-License-Identifier: Apache-2.0

// One writer that shares a version of its map again and again, and readers that
// read those versions, change versions of their own, and are often the last to
// let go. Made to run under TSan.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "lpm/routes/persistent_map.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

constexpr uint32_t kKeys = 2000;
constexpr size_t kReaders = 3;
constexpr int kVersions = 1500;

struct Entry {
  uint32_t key;
  std::string value;
};

struct ByKey {
  using Entry = planb::Entry;
  using Key = uint32_t;
  static Key KeyOf(const Entry& entry) { return entry.key; }
  static bool Less(Key a, Key b) { return a < b; }
};

// Nodes small enough that versions differ in every kind of them.
using Map = PersistentMap<ByKey, 8, 8>;

std::string ValueOf(uint64_t number) {
  return "a value too long for a small string: " + std::to_string(number);
}

uint64_t HashOf(const Entry& entry) {
  return std::hash<std::string>()(entry.value) * (2 * entry.key + 1);
}

// A version, and what the writer knows of it.
struct Version {
  Map map;
  size_t size = 0;
  uint64_t sum = 0;  // of the hashes of its entries
};

bool IsRight(const Version& version) {
  size_t size = 0;
  uint64_t sum = 0, at_least = 0;
  for (const Entry& entry : version.map) {
    if (entry.key < at_least) return false;
    at_least = entry.key + 1;
    ++size;
    sum += HashOf(entry);
  }
  return size == version.size && sum == version.sum &&
         version.map.size() == size;
}

// Makes changes and keeps the sum.
void Change(Version& version, Random& random) {
  const auto key = static_cast<uint32_t>(random.Below(kKeys));
  const Map::Position at = version.map.Locate(key);
  if (at.found) version.sum -= HashOf(version.map.At(at));
  if (at.found && random.Chance(1, 2)) {
    version.map.Remove(at);
    --version.size;
    return;
  }
  Entry entry = {key, ValueOf(random.Next())};
  version.sum += HashOf(entry);
  version.size += at.found ? 0 : 1;
  version.map.Put(at, std::move(entry));
}

Version Share(const Version& version) {
  return {version.map.Share(), version.size, version.sum};
}

// The version last published, for readers to share.
class Shelf {
 public:
  void Publish(Version version) {
    const MutexLock lock(mutex_);
    std::swap(version_, version);
  }
  Version Get() const {
    const MutexLock lock(mutex_);
    return Share(version_);
  }

 private:
  mutable Mutex mutex_;
  Version version_;  // guarded by mutex_
};

TEST(PersistentMapThreads, VersionsLiveOnAnyThread) {
  Shelf shelf;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, read{0};
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      Random random(100 + i);
      std::vector<Version> held(4);
      while (!stop.load()) {
        Version& version = held[random.Below(held.size())];
        version = shelf.Get();
        Version own = Share(version);
        for (int k = 0; k < 5; ++k) Change(own, random);
        for (const Version& each : held) wrong += IsRight(each) ? 0 : 1;
        wrong += IsRight(own) ? 0 : 1;
        if (random.Chance(1, 2)) version = std::move(own);
        read.fetch_add(1);
      }
    });
  }
  Random random(1);
  Version version;
  for (int n = 0; n < kVersions || read.load() < kVersions; ++n) {
    const uint64_t changes = 1 + random.Below(n < 10 ? kKeys : 20);
    for (uint64_t k = 0; k < changes; ++k) Change(version, random);
    shelf.Publish(Share(version));
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_TRUE(IsRight(version));
}

// One and the same version shared by several threads at once.
TEST(PersistentMapThreads, SharingIsReading) {
  Random random(1);
  Version version;
  for (int i = 0; i < 3000; ++i) Change(version, random);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kReaders; ++i) {
    threads.emplace_back([&, i] {
      Random own_random(10 + i);
      for (int n = 0; n < 100; ++n) {
        Version own = Share(version);
        for (int k = 0; k < 10; ++k) Change(own, own_random);
        wrong += IsRight(own) && IsRight(version) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  Change(version, random);
  EXPECT_TRUE(IsRight(version));
}

}  // namespace
}  // namespace planb
