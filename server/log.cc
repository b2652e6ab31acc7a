#include "server/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "absl/strings/escaping.h"

namespace planb::server {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "planb", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc));
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum Level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::string Quoted(absl::string_view value) {
  const bool plain = !value.empty() &&
                     value.find_first_of(" \"=\\") == absl::string_view::npos &&
                     value == absl::string_view(absl::CHexEscape(value));
  return plain ? std::string(value)
               : absl::StrCat("\"", absl::CHexEscape(value), "\"");
}

}  // namespace

absl::Status SetLogLevel(absl::string_view name) {
  for (const auto& [known, level] : {std::pair("debug", LogLevel::kDebug),
                                     std::pair("info", LogLevel::kInfo),
                                     std::pair("warning", LogLevel::kWarning),
                                     std::pair("error", LogLevel::kError)}) {
    if (name == known) {
      Logger().set_level(Level(level));
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "log level \"", name, "\" is none of debug, info, warning, error"));
}

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  if (!Logger().should_log(Level(level))) return;
  std::string line(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=", Quoted(field.value.Piece()));
  }
  Logger().log(Level(level), line);
}

}  // namespace planb::server
