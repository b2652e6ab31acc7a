// SPDX-License-Identifier: Apache-2.0

// A store in memory that several servers of one process share, as they share
// one in etcd.

#ifndef PLANB_SERVER_TESTING_SHARED_LOG_H_
#define PLANB_SERVER_TESTING_SHARED_LOG_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/table/store.h"

namespace planb::server {

// What the servers share. Thread-safe.
class SharedLog {
 public:
  // The store of one server. Must not outlive the log.
  class View final : public Store, public ReplicatedLog, public TableFeed {
   public:
    explicit View(SharedLog& log) : log_(log) {}

    absl::string_view kind() const override { return "shared"; }
    const std::string& path() const override { return path_; }
    StoreSync sync() const override { return StoreSync::kFull; }
    TableLog* log() override { return this; }
    ReplicatedLog* replicated() override { return this; }
    TableFeed* feed() override { return this; }
    absl::Status AwaitFollowed() override { return absl::OkStatus(); }
    void Report(const std::string&, uint64_t, uint64_t) override {}
    void StopTable(const std::string&, uint64_t, const absl::Status&) override {
    }
    absl::StatusOr<std::vector<StoreReplica>> Replicas(
        absl::Duration) override {
      return NotShared();
    }
    absl::Status Resume(absl::Span<StoredTable>, absl::Duration) override {
      return absl::UnimplementedError("it is always there");
    }
    absl::Duration lag() const override { return absl::ZeroDuration(); }
    size_t missing() const override { return 0; }
    TlsReloader* tls() override { return nullptr; }

    // Later, what other servers do is kept from this one until it falls behind
    // with an append, or until Release().
    void Hold() {
      const MutexLock lock(log_.mutex_);
      held_ = true;
    }
    void Release() {
      const MutexLock lock(log_.mutex_);
      held_ = false;
      Tell();
    }

    // Called at the begin of an append. Set while none is in progress.
    std::function<void()> before_append;

    // Tables are loaded when they are empty.
    absl::StatusOr<std::vector<StoredTable>> Load() override {
      const MutexLock lock(log_.mutex_);
      std::vector<StoredTable> tables;
      for (const auto& [name, table] : log_.tables_) {
        tables.push_back({.name = name, .id = table.id});
      }
      return tables;
    }
    Following Follow(StoreFollower& follower) override {
      const MutexLock lock(log_.mutex_);
      follower_ = &follower;
      log_.views_.push_back(this);
      return Following([this] {
        const MutexLock ending(log_.mutex_);
        std::erase(log_.views_, this);
      });
    }
    using TableLog::CreateTable;
    using TableLog::DeleteTable;
    using TableLog::OfferSnapshot;
    absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                         uint64_t generation,
                                         const FibOptions& fib) override {
      const MutexLock lock(log_.mutex_);
      if (log_.tables_.contains(name)) {
        return FieldError(absl::StatusCode::kAlreadyExists, "TABLE_EXISTS",
                          "table", "another server has made it");
      }
      const uint64_t id = ++log_.ids_;
      log_.tables_[name] = {.id = id};
      for (View* const view : log_.views_) {
        if (view == this) continue;
        view->later_.push_back([=](StoreFollower& follower) {
          follower.Replaced(
              {.name = name, .id = id, .fib = fib, .generation = generation});
        });
        if (!view->held_) view->Tell();
      }
      return id;
    }
    absl::Status DeleteTable(const std::string& name, uint64_t id,
                             uint64_t generation) override {
      const MutexLock lock(log_.mutex_);
      const auto table = log_.tables_.find(name);
      if (table == log_.tables_.end() || table->second.id != id) {
        return absl::OkStatus();
      }
      log_.floor_ = std::max(log_.floor_, generation);
      for (View* const view : log_.views_) {
        if (view == this) continue;
        view->later_.push_back(
            [=](StoreFollower& follower) { follower.Deleted(name, id); });
        if (!view->held_) view->Tell();
      }
      log_.tables_.erase(table);
      return absl::OkStatus();
    }
    uint64_t generation_floor() const override {
      const MutexLock lock(log_.mutex_);
      return log_.floor_;
    }
    void StartAppend(const std::string& table, uint64_t id, uint64_t position,
                     absl::Span<const AcceptedBatch> batches,
                     Done done) override {
      if (before_append) before_append();
      const MutexLock lock(log_.mutex_);
      const auto found = log_.tables_.find(table);
      if (found == log_.tables_.end() || found->second.id != id) {
        return done(DeletedRemotely());
      }
      if (position != found->second.position) {
        Tell();
        return done(StoreConflict(found->second.position));
      }
      if (batches.empty()) return done(absl::OkStatus());
      ++found->second.position;
      done(absl::OkStatus());
      for (View* const view : log_.views_) {
        if (view == this) continue;
        view->later_.push_back(
            [=, copy = std::vector<AcceptedBatch>(
                    batches.begin(), batches.end())](StoreFollower& follower) {
              follower.Appended(table, id, position + 1, copy);
            });
        if (!view->held_) view->Tell();
      }
    }
    absl::StatusOr<uint64_t> FindTable(const std::string& name) override {
      const MutexLock lock(log_.mutex_);
      const auto found = log_.tables_.find(name);
      return found == log_.tables_.end() ? kAnyTable : found->second.id;
    }
    absl::StatusOr<size_t> CountTables() override {
      const MutexLock lock(log_.mutex_);
      return log_.tables_.size();
    }
    void OfferSnapshot(const std::string&, uint64_t,
                       absl::FunctionRef<TableVersion()>) override {}
    void Close(const absl::Status&, SteadyInstant) override {
      const MutexLock lock(log_.mutex_);
      std::erase(log_.views_, this);
    }

   private:
    friend class SharedLog;
    // Tells the follower what it has not been told. REQUIRES: the log's mutex.
    void Tell() {
      for (; !later_.empty(); later_.pop_front()) later_.front()(*follower_);
    }

    SharedLog& log_;
    // These are guarded by the log's mutex.
    StoreFollower* follower_ = nullptr;
    bool held_ = false;
    std::deque<std::function<void(StoreFollower&)>> later_;
    const std::string path_ = "shared";
  };

  // Makes a table with any contents, on all servers.
  void MakeTable(const StoredTable& table) {
    const MutexLock lock(mutex_);
    tables_[table.name] = {.id = table.id};
    for (View* const view : views_) view->follower_->Replaced(table);
  }

  // What the first server that follows wants of a table.
  StoreFollower::Wants wants(const std::string& table, uint64_t id) {
    const MutexLock lock(mutex_);
    return views_.front()->follower_->wants(table, id);
  }

  // The first server that follows has no room for what comes next.
  void Miss(const std::string& table, uint64_t id) {
    const MutexLock lock(mutex_);
    views_.front()->follower_->Missed(table, id);
  }

  // How many servers follow.
  size_t followers() const {
    const MutexLock lock(mutex_);
    return views_.size();
  }

 private:
  struct SharedTable {
    uint64_t id = 0;
    uint64_t position = 0;
  };

  // Held while followers are called.
  mutable Mutex mutex_;
  std::vector<View*> views_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, SharedTable> tables_ ABSL_GUARDED_BY(mutex_);
  uint64_t ids_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t floor_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_SHARED_LOG_H_
