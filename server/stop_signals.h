// SPDX-License-Identifier: Apache-2.0

// SIGTERM and SIGINT, from the first moment of the process to the last.

#ifndef PLANB_SERVER_STOP_SIGNALS_H_
#define PLANB_SERVER_STOP_SIGNALS_H_

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace planb::server {

// As long as nothing is served, a signal ends the process at once, with status
// 0: restoring a large table must not hold a shutdown up, and a store outlives
// worse. Later there is something to drain, and the signal is for Await().
//
// Make one, before all other threads: they have to inherit that these signals
// are blocked. Not thread-safe.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on there is something to drain.
  void Serve();

  // The signal that came, once one has. REQUIRES: Serve() was called.
  int Await();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable came_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STOP_SIGNALS_H_
