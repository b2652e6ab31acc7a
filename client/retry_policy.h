// When to try again to reach a server, and when to give up.

#ifndef PLANB_CLIENT_RETRY_POLICY_H_
#define PLANB_CLIENT_RETRY_POLICY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/backoff.h"

namespace planb::client {

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

  // All is well, or nobody needs the server for now.
  void Succeeded();

  absl::Time next_attempt() const { return next_attempt_; }

 private:
  const absl::Duration give_up_after_;
  Backoff backoff_;
  absl::Time failing_since_ = absl::InfiniteFuture();
  absl::Time next_attempt_ = absl::InfinitePast();
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_RETRY_POLICY_H_
