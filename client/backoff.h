// How long to wait before the next attempt: twice as long each time, up to a
// bound, and never exactly, so that the clients of a server that restarts do
// not all come back at the same moment.

#ifndef PLANB_CLIENT_BACKOFF_H_
#define PLANB_CLIENT_BACKOFF_H_

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace planb::client {

struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(10);
  absl::Duration max = absl::Seconds(2);
  // Each wait is drawn uniformly from [1 - jitter, 1] of what is due; 0 to 1.
  double jitter = 0.5;
};

// Thread-compatible.
class Backoff {
 public:
  explicit Backoff(const BackoffOptions& options);

  // The wait before the next attempt, after one that failed. At most
  // options.max.
  absl::Duration Next();

  // After a success: starts anew.
  void Reset() { due_ = options_.initial; }

 private:
  const BackoffOptions options_;
  absl::Duration due_;
  absl::BitGen random_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BACKOFF_H_
