// Jitter shortens and never lengthens: the bounds hold as they are given.

#include "client/backoff.h"

#include <algorithm>
#include <utility>

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

}  // namespace planb::client
