// SPDX-License-Identifier: Apache-2.0

// Structured, leveled logs to stderr: an event and its fields, one line each,
//   2026-11-20T20:45:00.123Z info    table published generation=7 table=blue
// or as JSON, a line an object:
//   {"time":"2026-11-20T20:45:00.123Z","level":"info","event":"table
//   published",
//    "generation":7,"table":"blue"}

#ifndef PLANB_SERVER_BASE_LOG_H_
#define PLANB_SERVER_BASE_LOG_H_

#include <initializer_list>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_LOG_H_
