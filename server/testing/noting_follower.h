// SPDX-License-Identifier: Apache-2.0

// A follower of a store that notes what it is told.

#ifndef PLANB_SERVER_TESTING_NOTING_FOLLOWER_H_
#define PLANB_SERVER_TESTING_NOTING_FOLLOWER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/testing/await.h"
#include "server/table/store.h"

namespace planb::server {

// Thread-safe. `wanted` is of the table `only`, if it has a name, and then
// turns to kNext with that table as a whole.
class NotingFollower : public StoreFollower {
 public:
  explicit NotingFollower(absl::string_view only = "") : only_(only) {}
  virtual ~NotingFollower() = default;

  Wants wants(const std::string& table, uint64_t) override {
    if (!only_.empty() && table != only_) return Wants::kNext;
    ++asked;
    return wanted;
  }
  void Missed(const std::string&, uint64_t) override { ++missed; }
  void Appended(const std::string& table, uint64_t, uint64_t position,
                std::vector<AcceptedBatch>) override {
    Note(absl::StrCat(table, " at ", position));
  }
  void Replaced(StoredTable table) override {
    if (no_memory > 0 && no_memory-- > 0) throw std::bad_alloc();
    if (table.name == only_) wanted = Wants::kNext;
    Note(absl::StrCat("whole ", table.name, " at ", table.position));
    const MutexLock lock(mutex_);
    whole_[table.name] = std::move(table);
  }
  void Deleted(const std::string& table, uint64_t) override {
    Note(absl::StrCat(table, " is deleted"));
  }
  void Failed(const std::string& table, uint64_t,
              const absl::Status& why) override {
    Note(absl::StrCat(table, " failed: ", why.message()));
    const MutexLock lock(mutex_);
    failed_[table] = why;
  }

  void Note(std::string note) {
    const MutexLock lock(mutex_);
    notes_.push_back(std::move(note));
  }
  // The notes, once there are so many.
  std::vector<std::string> Notes(size_t count = 0) {
    Await([&] {
      const MutexLock lock(mutex_);
      return notes_.size() >= count;
    });
    const MutexLock lock(mutex_);
    return notes_;
  }
  // The tables that were told of as a whole, as they were last; and why others
  // have failed. By name.
  std::map<std::string, StoredTable> whole() {
    const MutexLock lock(mutex_);
    return whole_;
  }
  std::map<std::string, absl::Status> failed() {
    const MutexLock lock(mutex_);
    return failed_;
  }
  // Waits until it was told of the table with this id as a whole.
  void AwaitTable(uint64_t id) {
    EXPECT_TRUE(Await([&] {
      return std::ranges::any_of(
          whole(), [&](const auto& table) { return table.second.id == id; });
    }));
  }

  std::atomic<Wants> wanted = Wants::kNext;
  std::atomic<int> asked = 0;
  std::atomic<int> missed = 0;
  std::atomic<int> no_memory = 0;  // for so many tables as a whole

 private:
  const std::string only_;
  Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StoredTable> whole_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> failed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_NOTING_FOLLOWER_H_
