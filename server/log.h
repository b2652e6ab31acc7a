// Structured, leveled logs to stderr: an event and its fields, one line each,
//   2026-11-20T20:45:00.123Z info  table published generation=7 routes=258956

#ifndef PLANB_SERVER_LOG_H_
#define PLANB_SERVER_LOG_H_

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Nothing below this level is written. `name`: debug, info, warning, error.
// Errors: INVALID_ARGUMENT.
absl::Status SetLogLevel(absl::string_view name);

// `value` is quoted where it holds blanks, quotes or control characters.
struct LogField {
  absl::string_view key;
  absl::AlphaNum value;
};

// Thread-safe. `event` is a constant phrase; what varies goes into fields.
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});

}  // namespace planb::server

#endif  // PLANB_SERVER_LOG_H_
