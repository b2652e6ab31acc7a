// SPDX-License-Identifier: Apache-2.0

// A store in memory that fails or waits when a test tells it to.

#ifndef PLANB_SERVER_TESTING_FAKE_STORE_H_
#define PLANB_SERVER_TESTING_FAKE_STORE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/table/store.h"

namespace planb::server {

// Thread-safe.
class FakeStore final : public Store {
 public:
  absl::string_view kind() const override { return "fake"; }
  const std::string& path() const override { return path_; }
  StoreSync sync() const override { return synced; }
  absl::StatusOr<std::vector<StoredTable>> Load() override { return loaded; }
  absl::Status CreateTable(const std::string& name,
                           uint64_t generation) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    created[name] = generation;
    return absl::OkStatus();
  }
  absl::Status DeleteTable(const std::string& name,
                           uint64_t generation) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    created.erase(name);
    floor_ = std::max(floor_, generation);
    return absl::OkStatus();
  }
  uint64_t generation_floor() const override { return floor_; }
  absl::Status Append(const std::string&,
                      absl::Span<const AcceptedBatch> batches) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_ || !closed_.ok(); });
    if (held_) return closed_;
    if (!failure_.ok()) return failure_;
    commits.emplace_back(batches.begin(), batches.end());
    return absl::OkStatus();
  }
  void OfferSnapshot(const std::string&,
                     absl::FunctionRef<TableVersion()> version) override {
    if (!wants_snapshots) return;
    TableVersion taken = version();
    const std::lock_guard lock(mutex_);
    snapshots.push_back(std::move(taken));
  }
  void Close(const absl::Status& why, SteadyInstant deadline) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return !held_; });
    closed_ = why;
    changed_.notify_all();
  }

  // Later writes fail with `status`; they succeed if it is OK.
  void Fail(absl::Status status) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(status);
  }
  // Later commits wait until Release().
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Waits until `count` calls of Append have begun.
  void AwaitCommits(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }

  // REQUIRES: read and written only while no call is in progress.
  std::vector<StoredTable> loaded;
  std::map<std::string, uint64_t> created;
  std::vector<std::vector<AcceptedBatch>> commits;
  StoreSync synced = StoreSync::kFull;
  bool wants_snapshots = false;
  std::vector<TableVersion> snapshots;

 private:
  const std::string path_ = "nowhere";
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status failure_, closed_;
  bool held_ = false;
  int waiting_ = 0;
  uint64_t floor_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_FAKE_STORE_H_
