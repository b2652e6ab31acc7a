// SPDX-License-Identifier: Apache-2.0

// Keeps what strangers can cause from flooding the log: so many lines a second,
// and the next one tells how many were left out.

#ifndef PLANB_SERVER_BASE_LOG_LIMIT_H_
#define PLANB_SERVER_BASE_LOG_LIMIT_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace planb::server {

// Thread-safe.
class LogLimit {
 public:
  explicit LogLimit(int lines_per_second) : lines_(lines_per_second) {}

  // Whether an event that happens `now` is to be logged: then how many were
  // left out since the last that was.
  std::optional<uint64_t> Admit(absl::Time now = absl::Now()) {
    const absl::MutexLock lock(&mutex_);
    if (now >= second_ + absl::Seconds(1) || now < second_) {
      second_ = now;
      logged_ = 0;
    }
    if (logged_ >= lines_) {
      ++left_out_;
      return std::nullopt;
    }
    ++logged_;
    const uint64_t left_out = left_out_;
    left_out_ = 0;
    return left_out;
  }

 private:
  const int lines_;
  absl::Mutex mutex_;
  // When the present second began, and the lines in it.
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int logged_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_LOG_LIMIT_H_
