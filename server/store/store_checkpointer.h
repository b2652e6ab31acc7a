// SPDX-License-Identifier: Apache-2.0

// Moves commits from the write-ahead log into the database in the background,
// so that no commit has to.

#ifndef PLANB_SERVER_STORE_STORE_CHECKPOINTER_H_
#define PLANB_SERVER_STORE_STORE_CHECKPOINTER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "server/store/store_sql.h"

namespace planb::server {

// Thread-safe. A thread and a connection of its own.
//
// The log can start anew only when all of it is in the database. A writer that
// never pauses is always ahead of a checkpoint beside it, and the log would
// grow without end. So there are two passes: the first, long one beside the
// writers, and a second one for what came in meanwhile, under their mutex; and
// writers let it pass, since a mutex alone favours those who come back at once.
class StoreCheckpointer {
 public:
  // `writers` is held by all that write to the database, and outlives this.
  StoreCheckpointer(std::unique_ptr<Sql> sql, std::mutex& writers,
                    int64_t threshold_pages);
  // Waits for the pass that runs.
  ~StoreCheckpointer();

  // Before a writer locks `writers`: waits while the second pass wants it.
  void LetPass();

  // After a commit that made the log `pages` long. Never waits long.
  void Notify(int64_t pages);

  // Passes that failed; the log keeps growing then, and the next commits try
  // again.
  uint64_t failures() const { return failures_.load(); }
  uint64_t checkpoints() const { return checkpoints_.load(); }

 private:
  void Run();
  // True if all of the log is in the database.
  bool Pass(int64_t& log_pages);

  const std::unique_ptr<Sql> sql_;
  std::mutex& writers_;
  const int64_t threshold_pages_;

  std::mutex mutex_;
  std::condition_variable changed_;  // anything guarded
  bool second_pass_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t pages_ ABSL_GUARDED_BY(mutex_) = 0;
  // At how many pages the next checkpoint is due.
  int64_t due_ ABSL_GUARDED_BY(mutex_);

  std::atomic<uint64_t> failures_ = 0;
  std::atomic<uint64_t> checkpoints_ = 0;
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_CHECKPOINTER_H_
