// SPDX-License-Identifier: Apache-2.0

#include "server/base/executor.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace planb::server {

Executor::Job::Job(Executor& executor, std::function<void()> run)
    : executor_(executor), run_(std::move(run)) {
  const MutexLock lock(executor_.mutex_);
  executor_.jobs_.push_back(this);
}

Executor::Job::~Job() {
  MutexLock lock(executor_.mutex_);
  executor_.ended_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                  executor_.mutex_) { return !running_; });
  std::erase(executor_.jobs_, this);
}

void Executor::Job::Schedule(SteadyInstant at) {
  {
    const MutexLock lock(executor_.mutex_);
    if (at >= due_) return;
    due_ = at;
  }
  executor_.scheduled_.notify_one();
}

Executor::Executor(size_t threads) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

Executor::~Executor() {
  {
    const MutexLock lock(mutex_);
    ABSL_RAW_CHECK(jobs_.empty(), "a job outlives its executor");
    stopping_ = true;
  }
  scheduled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Executor::Job* Executor::First() {
  Job* first = nullptr;
  for (Job* job : jobs_) {
    if (job->running_ || job->due_ == SteadyInstant::max()) continue;
    if (first == nullptr || job->due_ < first->due_) first = job;
  }
  return first;
}

void Executor::Loop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    Job* const job = First();
    if (job == nullptr) {
      scheduled_.wait(lock);
      continue;
    }
    if (job->due_ > SteadyNow()) {
      scheduled_.wait_until(lock, SteadyInstant(job->due_));
      continue;
    }
    job->due_ = SteadyInstant::max();
    job->running_ = true;
    // This thread may have been the only one that waited for the next job.
    if (First() != nullptr) scheduled_.notify_one();
    lock.unlock();
    job->run_();
    lock.lock();
    job->running_ = false;
    ended_.notify_all();
  }
}

}  // namespace planb::server
