// SPDX-License-Identifier: Apache-2.0

// A few threads that run the jobs of all tables: rebuilds, what follows an
// append to the store, callbacks of waiting lookups, freeing of memory.

#ifndef PLANB_SERVER_BASE_EXECUTOR_H_
#define PLANB_SERVER_BASE_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"

namespace planb::server {

// A pool of threads. Runs the job that is due for the longest time first. A
// thread that has nothing to run sleeps until the next job is due.
// Thread-safe.
class Executor {
 public:
  // A function that runs whenever it is scheduled. It never runs on two threads
  // at once. It may schedule itself.
  class Job {
   public:
    // `executor` must outlive this.
    Job(Executor& executor, std::function<void()> run);
    // Unschedules the job, and waits while it runs. REQUIRES: it is not called
    // by the job itself.
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // The job will run at `at` or soon after; if it is scheduled already, at
    // the earlier of the two times. If it is running, it will run once more.
    // Does not allocate. O(1).
    void Schedule(SteadyInstant at);
    void ScheduleNow() { Schedule(SteadyNow()); }

   private:
    friend class Executor;
    Executor& executor_;
    const std::function<void()> run_;
    // Guarded by the executor's mutex, as is the next.
    SteadyInstant due_ = SteadyInstant::max();  // max: not scheduled
    bool running_ = false;
  };

  // REQUIRES: threads > 0.
  explicit Executor(size_t threads);
  // REQUIRES: no Job exists.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

 private:
  void Loop();
  // The job that is due first of those that do not run. Null if none is
  // scheduled. O(jobs): a server has some hundreds.
  Job* First() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar scheduled_;
  CondVar ended_;  // a run
  std::vector<Job*> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_EXECUTOR_H_
