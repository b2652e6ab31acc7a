// SPDX-License-Identifier: Apache-2.0

// Structured, leveled logs to stderr: an event and its fields, one line each,
//   2026-11-20T20:45:00.123Z info    table published generation=7 table=blue
// or as JSON, a line an object:
//   {"time":"2026-11-20T20:45:00.123Z","level":"info","event":"table
//   published",
//    "generation":7,"table":"blue"}

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

// Nothing below this level is written. `name`: debug, info, warning, error.
// Errors: INVALID_ARGUMENT.
absl::Status SetLogLevel(absl::string_view name);

// How lines look. `name`: text, json. From then on what gRPC and protobuf log
// comes by here, and some of it is left out where there is much. To be called
// before there are threads. Errors: INVALID_ARGUMENT.
absl::Status SetLogFormat(absl::string_view name);

// True if lines are JSON.
bool LogsJson();

// True if lines of this level are written: to spare making their fields.
bool IsLogged(LogLevel level);

// In text, `value` is quoted where it holds blanks, quotes or control
// characters; in JSON, it is a number if it was an integer, else a string.
// No key is "time", "level" or "event". Lives as long as its statement.
struct LogField {
  template <typename T>
  LogField(absl::string_view k, const T& v)  // NOLINT: so that fields read well
      : key(k), value(v), number(std::is_integral_v<T>) {}

  absl::string_view key;
  absl::AlphaNum value;
  bool number;
};

// Thread-safe. `event` is a constant phrase; what varies goes into fields.
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});

// Keeps what strangers can cause from flooding the log: so many lines a second,
// and the next one tells how many were left out. Thread-safe.
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

#endif  // PLANB_SERVER_BASE_LOG_H_
