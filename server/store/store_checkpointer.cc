// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_checkpointer.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"

namespace planb::server {

StoreCheckpointer::StoreCheckpointer(std::unique_ptr<Sql> sql,
                                     std::mutex& writers,
                                     int64_t threshold_pages)
    : sql_(std::move(sql)),
      writers_(writers),
      threshold_pages_(threshold_pages),
      due_(threshold_pages),
      thread_([this] { Run(); }) {}

StoreCheckpointer::~StoreCheckpointer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreCheckpointer::LetPass() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !second_pass_; });
}

void StoreCheckpointer::Notify(int64_t pages) {
  std::lock_guard lock(mutex_);
  pages_ = pages;
  if (pages_ >= due_) changed_.notify_all();
}

bool StoreCheckpointer::Pass(int64_t& log_pages) {
  int log = 0;
  int done = 0;
  const absl::Status status =
      sql_->Checkpoint(SQLITE_CHECKPOINT_PASSIVE, &log, &done);
  // Busy: a writer was changing the index of the log just then, or somebody
  // else's checkpoint runs.
  const bool busy = (sqlite3_errcode(sql_->sql()) & 0xff) == SQLITE_BUSY;
  if (!status.ok() && !busy && failures_.fetch_add(1) == 0) {
    Log(LogLevel::kWarning, "store checkpoint failed",
        {{"error", status.message()}});
  }
  log_pages = log;
  return status.ok() && log == done;
}

void StoreCheckpointer::Run() {
  while (true) {
    int64_t pages;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || pages_ >= due_; });
      if (stop_) return;
      pages = pages_;
    }
    int64_t log_pages = 0;
    Pass(log_pages);
    {
      std::lock_guard lock(mutex_);
      second_pass_ = true;
    }
    bool done;
    {
      std::lock_guard writers(writers_);
      done = Pass(log_pages);
      std::lock_guard lock(mutex_);
      second_pass_ = false;
      pages_ = 0;
      // A reader, such as an operator's shell, can keep the log from starting
      // anew, and so can a full disk: then wait for as much again, not for the
      // next commit.
      due_ = threshold_pages_ + (done ? 0 : std::max(log_pages, pages));
    }
    changed_.notify_all();
    if (done) checkpoints_.fetch_add(1);
  }
}

}  // namespace planb::server
