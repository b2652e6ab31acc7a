// SPDX-License-Identifier: Apache-2.0

// Structured logs with levels, to stderr. An event and its fields are one line,
//   2026-11-20T20:45:00.123Z info    table published generation=7 table=blue
// or one JSON object in a line:
//   {"time":"2026-11-20T20:45:00.123Z","level":"info","event":"started"}

#ifndef PLANB_SERVER_BASE_LOG_H_
#define PLANB_SERVER_BASE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace planb::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below this level are not written. `name`: debug, info, warning, error.
// Errors: INVALID_ARGUMENT.
absl::Status SetLogLevel(absl::string_view name);

// Sets the format of lines. `name`: text, json. From then on, lines of gRPC and
// protobuf are logged here too, a bounded number a second.
// REQUIRES: no other thread runs. Errors: INVALID_ARGUMENT.
absl::Status SetLogFormat(absl::string_view name);

// True if lines are JSON.
bool LogsJson();

// True if lines of this level are written. Lets callers avoid making fields.
bool IsLogged(LogLevel level);

// In text, `value` is quoted if it has blanks, quotes or control characters. In
// JSON, an integer is a number and all else a string. A field with an empty key
// is left out. Valid only within the statement that makes it. REQUIRES: the key
// is none of time, level, event.
struct LogField {
  template <typename T>
  LogField(absl::string_view k, const T& v)  // NOLINT: implicit in lists
      : key(k), value(v), number(std::is_integral_v<T>) {}

  absl::string_view key;
  absl::AlphaNum value;
  bool number;
};

// Thread-safe. `event` is a constant phrase; fields hold what varies.
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});

// Bounds the lines a second of an event that clients can cause, so that they
// cannot flood the log. Thread-safe.
class LogLimit {
 public:
  explicit LogLimit(int lines_per_second) : lines_(lines_per_second) {}

  // Nothing if the event at `now` is not to be logged. Otherwise the number of
  // events left out since the last one that was logged.
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
  // Start of the current second, and the lines logged in it.
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int logged_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_LOG_H_
