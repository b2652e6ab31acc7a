// SPDX-License-Identifier: Apache-2.0

// Jitter shortens and never lengthens: the bounds hold as they are given.

#include "client/retry.h"

#include <algorithm>
#include <utility>

#include "client/status.h"

namespace planb::client {
namespace {

BackoffOptions Sane(BackoffOptions options) {
  // Twice nothing is nothing: an attempt after the other, without a pause.
  options.initial = std::max(options.initial, absl::Microseconds(100));
  options.max = std::max(options.max, options.initial);
  options.jitter = std::clamp(options.jitter, 0.0, 1.0);
  return options;
}

}  // namespace

Backoff::Backoff(const BackoffOptions& options)
    : options_(Sane(options)), due_(options_.initial) {}

absl::Duration Backoff::Next() {
  const absl::Duration due =
      std::exchange(due_, std::min(due_ * 2, options_.max));
  return due * (1 - options_.jitter * absl::Uniform(random_, 0.0, 1.0));
}

// The last attempt comes when it is time to give up, not before.

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         RetryDelay(status).has_value();
}

RetryPolicy::RetryPolicy(const BackoffOptions& backoff,
                         absl::Duration give_up_after)
    : give_up_after_(give_up_after), backoff_(backoff) {}

bool RetryPolicy::Failed(const absl::Status& why, absl::Time now) {
  failing_since_ = std::min(failing_since_, now);
  const absl::Time give_up = failing_since_ + give_up_after_;
  if (now >= give_up) return false;
  const absl::Duration wait =
      std::max(backoff_.Next(), RetryDelay(why).value_or(absl::ZeroDuration()));
  next_attempt_ = std::min(now + wait, give_up);
  return true;
}

void RetryPolicy::Succeeded() {
  backoff_.Reset();
  failing_since_ = absl::InfiniteFuture();
}

}  // namespace planb::client
