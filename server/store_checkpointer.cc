#include "server/store_checkpointer.h"

#include <algorithm>
#include <utility>

#include "server/log.h"

namespace planb::server {

StoreCheckpointer::StoreCheckpointer(std::unique_ptr<Sql> sql,
                                     absl::Mutex& writers,
                                     int64_t threshold_pages)
    : sql_(std::move(sql)),
      writers_(writers),
      threshold_pages_(threshold_pages),
      due_(threshold_pages),
      thread_([this] { Run(); }) {}

StoreCheckpointer::~StoreCheckpointer() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void StoreCheckpointer::LetPass() {
  const auto passed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !second_pass_;
  };
  absl::MutexLock lock(&mutex_, absl::Condition(&passed));
}

void StoreCheckpointer::Notify(int64_t pages) {
  absl::MutexLock lock(&mutex_);
  pages_ = pages;
}

bool StoreCheckpointer::Pass(int64_t& log_pages) {
  int log = 0;
  int done = 0;
  const absl::Status status =
      sql_->Checkpoint(SQLITE_CHECKPOINT_PASSIVE, &log, &done);
  if (!status.ok() && failures_.fetch_add(1) == 0) {
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
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || pages_ >= due_;
      };
      absl::MutexLock lock(&mutex_, absl::Condition(&due));
      if (stop_) return;
      pages = pages_;
    }
    int64_t log_pages = 0;
    Pass(log_pages);
    {
      absl::MutexLock lock(&mutex_);
      second_pass_ = true;
    }
    bool done;
    {
      absl::MutexLock writers(&writers_);
      done = Pass(log_pages);
      absl::MutexLock lock(&mutex_);
      second_pass_ = false;
      pages_ = 0;
      // A reader, such as an operator's shell, can keep the log from starting
      // anew, and so can a full disk: then wait for as much again, not for the
      // next commit.
      due_ = threshold_pages_ + (done ? 0 : std::max(log_pages, pages));
    }
    if (done) checkpoints_.fetch_add(1);
  }
}

}  // namespace planb::server
