// The last attempt comes when it is time to give up, not before.

#include "client/retry_policy.h"

#include <algorithm>

#include "client/status.h"

namespace planb::client {

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
