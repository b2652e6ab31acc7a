// A thread for what takes too long for gRPC's own. Those are as few as the
// machine has cores and answer the lookups; an update of a million routes, or
// one that waits for its turn at the table, must not sit on one.

#ifndef PLANB_SERVER_WORKER_H_
#define PLANB_SERVER_WORKER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace planb::server {

// Does jobs one after the other, in the order they came. Thread-safe.
// Bounded: jobs together weigh at most `max_weight`, the one being done
// included; but a job of any weight is taken if nothing else is there.
class Worker {
 public:
  using Job = std::function<void()>;

  explicit Worker(size_t max_weight);
  ~Worker();  // Does all that was posted. REQUIRES: nobody posts any more.

  // False, and `job` is never done, if too much is waiting. O(1).
  // REQUIRES: weight > 0.
  bool Post(size_t weight, Job job);

 private:
  struct Posted {
    size_t weight;
    Job job;
  };

  void Loop();

  const size_t max_weight_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Posted> posted_ ABSL_GUARDED_BY(mutex_);
  size_t weight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is ready
};

}  // namespace planb::server

#endif  // PLANB_SERVER_WORKER_H_
