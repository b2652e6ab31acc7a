// SPDX-License-Identifier: Apache-2.0

#include "server/base/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace planb::server {
namespace {

constexpr char kText[] = "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v";
// %v is the string of the event, then the fields.
constexpr char kJson[] =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","event":%v})";

bool json = false;  // set before other threads start

std::unique_ptr<spdlog::formatter> Formatter() {
  return std::make_unique<spdlog::pattern_formatter>(
      json ? kJson : kText, spdlog::pattern_time_type::utc);
}

// Never freed: gRPC's threads may log while the process exits.
spdlog::logger& Logger() {
  static spdlog::logger& logger = []() -> spdlog::logger& {
    auto* const made = new spdlog::logger(
        "planb", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(Formatter());
    made->flush_on(spdlog::level::info);
    return *made;
  }();
  return logger;
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

std::string TextLine(absl::string_view event,
                     std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    if (field.key.empty()) continue;
    absl::StrAppend(&line, " ", field.key, "=", Quoted(field.value.Piece()));
  }
  return line;
}

// Appends the byte `c` of a JSON string.
void AppendAscii(char c, std::string& out) {
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code != 0x7f) {
    out += c;
  } else {
    absl::StrAppend(&out, "\\u", absl::Hex(code, absl::kZeroPad4));
  }
}

// Appends `text` as a JSON string with quotes (RFC 8259). Each byte that is not
// part of valid UTF-8 becomes U+FFFD, so the line is always valid.
void AppendJsonString(absl::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const size_t bytes = Utf8Length(text);
    if (bytes == 1) {
      AppendAscii(text.front(), out);
    } else if (bytes == 0) {
      out.append(kReplacementCharacter.data(), kReplacementCharacter.size());
    } else {
      out.append(text.data(), bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  out += '"';
}

std::string JsonLine(absl::string_view event,
                     std::initializer_list<LogField> fields) {
  std::string line;
  AppendJsonString(event, line);
  for (const LogField& field : fields) {
    if (field.key.empty()) continue;
    line += ',';
    AppendJsonString(field.key, line);
    line += ':';
    if (field.number) {
      absl::StrAppend(&line, field.value);
    } else {
      AppendJsonString(field.value.Piece(), line);
    }
  }
  return line;
}

// Clients can cause these lines: a compressed call or a failed handshake makes
// one.
void LogForGrpc(gpr_log_func_args* args) {
  static auto& limit = *new LogLimit(/*lines_per_second=*/10);
  const LogLevel level =
      args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kError
      : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                : LogLevel::kDebug;
  if (!IsLogged(level)) return;
  const auto left_out = limit.Admit();
  if (!left_out.has_value()) return;
  Log(level, "grpc",
      {{"message", args->message},
       {"file", args->file},
       {"line", args->line},
       {"not_logged", *left_out}});
}

// Clients can cause these lines: a string that is not UTF-8 makes one.
void LogForProtobuf(google::protobuf::LogLevel severity, const char* file,
                    int number, const std::string& message) {
  static LogLimit limit(/*lines_per_second=*/5);
  const auto left_out = limit.Admit();
  if (!left_out.has_value()) return;
  const LogLevel level =
      severity >= google::protobuf::LOGLEVEL_ERROR     ? LogLevel::kError
      : severity == google::protobuf::LOGLEVEL_WARNING ? LogLevel::kWarning
                                                       : LogLevel::kInfo;
  Log(level, "protobuf",
      {{"message", message},
       {"file", file},
       {"line", number},
       {"not_logged", *left_out}});
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
      "--log_level: \"", name, "\" is none of debug, info, warning, error"));
}

absl::Status SetLogFormat(absl::string_view name) {
  if (name != "text" && name != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_format: \"", name, "\" is none of text, json"));
  }
  json = name == "json";
  Logger().set_formatter(Formatter());
  google::protobuf::SetLogHandler(LogForProtobuf);
  gpr_set_log_function(LogForGrpc);
  return absl::OkStatus();
}

bool LogsJson() { return json; }

bool IsLogged(LogLevel level) { return Logger().should_log(Level(level)); }

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  if (!IsLogged(level)) return;
  Logger().log(Level(level),
               json ? JsonLine(event, fields) : TextLine(event, fields));
}

}  // namespace planb::server
