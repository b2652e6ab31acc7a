// SPDX-License-Identifier: Apache-2.0

// A store in memory that fails or waits when a test tells it to.

#ifndef PLANB_SERVER_TESTING_FAKE_STORE_H_
#define PLANB_SERVER_TESTING_FAKE_STORE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/table/store.h"

namespace planb::server {

// Thread-safe.
class FakeStore final : public Store, public ReplicatedLog {
 public:
  absl::string_view kind() const override { return "fake"; }
  const std::string& path() const override { return path_; }
  StoreSync sync() const override { return synced; }
  TableLog* log() override { return this; }
  ReplicatedLog* replicated() override { return others_write ? this : nullptr; }
  absl::Status AwaitFollowed() override { return absl::OkStatus(); }
  absl::StatusOr<size_t> CountTables() override { return NotShared(); }
  absl::StatusOr<uint64_t> FindTable(const std::string&) override {
    return NotShared();
  }
  void Report(const std::string&, uint64_t, uint64_t) override {}
  absl::StatusOr<std::vector<StoreReplica>> Replicas(absl::Duration) override {
    return NotShared();
  }
  void StopTable(const std::string&, uint64_t,
                 const absl::Status& why) override {
    const MutexLock lock(mutex_);
    stopped = why;
  }
  absl::StatusOr<std::vector<StoredTable>> Load() override { return loaded; }
  using TableLog::CreateTable;
  using TableLog::DeleteTable;
  using TableLog::OfferSnapshot;
  absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                       uint64_t generation,
                                       const FibOptions&) override {
    const MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    created[name] = generation;
    return 0;
  }
  absl::Status DeleteTable(const std::string& name, uint64_t,
                           uint64_t generation) override {
    const MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    created.erase(name);
    floor_ = std::max(floor_, generation);
    return absl::OkStatus();
  }
  uint64_t generation_floor() const override { return floor_; }
  void StartAppend(const std::string&, uint64_t, uint64_t,
                   absl::Span<const AcceptedBatch> batches,
                   Done done) override {
    {
      const MutexLock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      waiting_.push_back({{batches.begin(), batches.end()}, std::move(done)});
      if (held_ && closed_.ok()) return;
    }
    Answer();
  }
  void OfferSnapshot(const std::string&, uint64_t,
                     absl::FunctionRef<TableVersion()> version) override {
    if (!wants_snapshots) return;
    TableVersion taken = version();
    const MutexLock lock(mutex_);
    snapshots.push_back(std::move(taken));
  }
  void Close(const absl::Status& why, SteadyInstant deadline) override {
    {
      MutexLock lock(mutex_);
      changed_.wait_until(
          lock, deadline,
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !held_; });
      closed_ = why;
    }
    Answer();
  }

  // Later writes fail with `status`, one alone for a conflict; they succeed if
  // it is OK.
  void Fail(absl::Status status) {
    const MutexLock lock(mutex_);
    failure_ = std::move(status);
  }
  // Later appends with a batch of more than `routes` routes fail with `status`.
  void FailAbove(size_t routes, absl::Status status) {
    const MutexLock lock(mutex_);
    most_routes_ = routes;
    too_large_ = std::move(status);
  }
  // Later commits wait until Release().
  void Hold() {
    const MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    {
      const MutexLock lock(mutex_);
      held_ = false;
      changed_.notify_all();
    }
    Answer();
  }
  // Waits until `count` appends have begun.
  void AwaitCommits(int count) {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return begun_ >= count;
    });
  }

  // How many appends have begun.
  int begun() {
    const MutexLock lock(mutex_);
    return begun_;
  }

  // It is read and written only while no call is in progress.
  std::vector<StoredTable> loaded;
  std::map<std::string, uint64_t> created;
  std::vector<std::vector<AcceptedBatch>> commits;
  StoreSync synced = StoreSync::kFull;
  bool others_write = false;
  absl::Status stopped;  // why a table was stopped
  bool wants_snapshots = false;
  std::vector<TableVersion> snapshots;

 private:
  struct Waiting {
    std::vector<AcceptedBatch> batches;
    Done done;
  };

  // Ends the appends that wait.
  void Answer() {
    MutexLock lock(mutex_);
    for (Waiting& append : std::exchange(waiting_, {})) {
      absl::Status status = held_ ? closed_ : failure_;
      if (IsStoreConflict(failure_)) failure_ = absl::OkStatus();
      for (const AcceptedBatch& batch : append.batches) {
        if (batch.delta == nullptr || !status.ok()) continue;
        if (batch.delta->routes.size() > most_routes_) status = too_large_;
      }
      if (status.ok() && !append.batches.empty()) {
        commits.push_back(std::move(append.batches));
      }
      lock.unlock();
      append.done(status);
      lock.lock();
    }
  }

  const std::string path_ = "nowhere";
  Mutex mutex_;
  CondVar changed_;
  absl::Status failure_, closed_, too_large_;
  size_t most_routes_ = std::numeric_limits<size_t>::max();
  bool held_ = false;
  int begun_ = 0;
  std::vector<Waiting> waiting_;
  uint64_t floor_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_FAKE_STORE_H_
