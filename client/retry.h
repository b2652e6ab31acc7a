// SPDX-License-Identifier: Apache-2.0

// When to try again to reach a server, and when to give up.

#ifndef PLANB_CLIENT_RETRY_H_
#define PLANB_CLIENT_RETRY_H_

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace planb::client {

// How long to wait before the next attempt: twice as long each time, up to a
// bound, and never exactly, so that the clients of a server that restarts do
// not all come back at the same moment.
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

// Whether another stream may do better than one that ended with `status`:
// UNAVAILABLE, CANCELLED (by the server), or the server asks to come again.
bool IsRetryable(const absl::Status& status);

// Thread-compatible.
class RetryPolicy {
 public:
  // Gives up when attempts have failed for `give_up_after`, with no success in
  // between.
  RetryPolicy(const BackoffOptions& backoff, absl::Duration give_up_after);

  // An attempt failed with `why` at `now`, by a clock that never jumps. True:
  // the next one is due at next_attempt(), no earlier than the server asked
  // for. False: give up.
  bool Failed(const absl::Status& why, absl::Time now);

  // All is well, or the server is not needed for now.
  void Succeeded();

  absl::Time next_attempt() const { return next_attempt_; }

 private:
  const absl::Duration give_up_after_;
  Backoff backoff_;
  absl::Time failing_since_ = absl::InfiniteFuture();
  absl::Time next_attempt_ = absl::InfinitePast();
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_RETRY_H_
