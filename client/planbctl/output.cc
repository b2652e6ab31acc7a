// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/output.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/utf8.h"

namespace planb::client {

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Messages of output.proto always convert.
  ABSL_RAW_CHECK(
      google::protobuf::util::MessageToJsonString(message, &json, options).ok(),
      "a message of output.proto has no JSON form");
  json += '\n';
  return json;
}

OutputForm WantedForm() {
  return absl::GetFlag(FLAGS_json) ? OutputForm::kJson
                                   : absl::GetFlag(FLAGS_output).value;
}

namespace {

using google::protobuf::Message;
using google::protobuf::Value;

// The fields of JsonLine(), by name.
google::protobuf::Struct JsonFields(const Message& message) {
  google::protobuf::Struct fields;
  ABSL_RAW_CHECK(
      google::protobuf::util::JsonStringToMessage(JsonLine(message), &fields)
          .ok(),
      "JSON of protobuf's own making");
  return fields;
}

std::string JsonOf(const Value& value) {
  std::string json;
  ABSL_RAW_CHECK(google::protobuf::util::MessageToJsonString(value, &json).ok(),
                 "a value of JSON has a JSON form");
  return json;
}

// A document. JSON is YAML, so that values need no other form.
std::string Yaml(const Message& message) {
  const google::protobuf::Struct fields = JsonFields(message);
  std::string text = "---\n";
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const std::string& name = message.GetDescriptor()->field(i)->name();
    const auto field = fields.fields().find(name);
    if (field == fields.fields().end()) continue;
    absl::StrAppend(&text, name, ": ", JsonOf(field->second), "\n");
  }
  return text;
}

// RFC 4180, escaped for a terminal like other text.
std::string CsvCell(const std::string& value) {
  const std::string text = Printable(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// A row; lists and objects are JSON in a cell.
std::string Csv(const Message& message) {
  const google::protobuf::Struct fields = JsonFields(message);
  static const google::protobuf::Descriptor* header = nullptr;
  std::vector<std::string> names;
  std::vector<std::string> cells;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    names.push_back(message.GetDescriptor()->field(i)->name());
    const auto field = fields.fields().find(names.back());
    std::string& cell = cells.emplace_back();
    if (field == fields.fields().end()) continue;
    cell = CsvCell(field->second.kind_case() == Value::kStringValue
                       ? field->second.string_value()
                       : JsonOf(field->second));
  }
  const bool first =
      std::exchange(header, message.GetDescriptor()) != message.GetDescriptor();
  return absl::StrCat(first ? absl::StrJoin(names, ",") : "", first ? "\n" : "",
                      absl::StrJoin(cells, ","), "\n");
}

}  // namespace

std::string Record(const Message& message) {
  switch (WantedForm()) {
    case OutputForm::kYaml:
      return Yaml(message);
    case OutputForm::kCsv:
      return Csv(message);
    case OutputForm::kTable:
    case OutputForm::kJson:
      break;
  }
  return JsonLine(message);
}

void Print(const Message& message, absl::string_view text) {
  if (WantedForm() != OutputForm::kTable) {
    absl::PrintF("%s", Record(message));
  } else if (UsesColor(stdout)) {
    absl::PrintF("%s", Colored(text));
  } else {
    absl::PrintF("%s", text);
  }
}

bool IsTerminal(std::FILE* file) {
  const char* const terminal = std::getenv("TERM");
  return isatty(fileno(file)) != 0 &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

bool UsesColor(std::FILE* file) {
  switch (absl::GetFlag(FLAGS_color).value) {
    case ColorWhen::kAlways:
      return true;
    case ColorWhen::kNever:
      return false;
    case ColorWhen::kAuto:
      break;
  }
  const char* const none = std::getenv("NO_COLOR");  // https://no-color.org
  return IsTerminal(file) && (none == nullptr || none[0] == '\0');
}

std::string Colored(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"no route", "\x1b[31mno route\x1b[0m"},
                              {"NOT_SERVING", "\x1b[31mNOT_SERVING\x1b[0m"},
                              {"BUILD FAILED", "\x1b[31mBUILD FAILED\x1b[0m"},
                              {"SERVING", "\x1b[32mSERVING\x1b[0m"}});
}

std::string ProgressText(absl::string_view items, uint64_t done, uint64_t total,
                         absl::Duration elapsed) {
  constexpr uint64_t kWidth = 30;
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const std::string rate =
      seconds > 0 ? absl::StrFormat(", %.0f/s", Number(done) / seconds) : "";
  if (total == 0) return absl::StrCat(done, " ", items, rate);
  const uint64_t shown = std::min(done, total);
  const auto full = static_cast<size_t>(shown * kWidth / total);
  return absl::StrFormat("[%s%s] %3d%%  %d of %d %s%s", std::string(full, '#'),
                         std::string(kWidth - full, ' '), shown * 100 / total,
                         done, total, items, rate);
}

namespace {

constexpr absl::Duration kFirstProgress = absl::Milliseconds(500);
constexpr absl::Duration kNextProgress = absl::Milliseconds(100);

}  // namespace

Progress::Progress(std::string items, uint64_t total)
    : items_(std::move(items)),
      total_(total),
      terminal_(IsTerminal(stderr)),
      begun_(MonotonicNow()),
      shown_(begun_) {}

Progress::~Progress() {
  if (drawn_) absl::FPrintF(stderr, "\r\x1b[K");
}

void Progress::Show(uint64_t done, absl::string_view more) {
  const absl::Time now = MonotonicNow();
  const absl::Duration pause =
      terminal_ && shown_ != begun_ ? kNextProgress : kFirstProgress;
  if (now - shown_ < pause) return;
  shown_ = now;
  if (terminal_) {
    drawn_ = true;
    absl::FPrintF(stderr, "\r\x1b[K%s%s",
                  ProgressText(items_, done, total_, now - begun_), more);
    std::fflush(stderr);
  } else {
    absl::FPrintF(stderr, "planbctl: %d %s sent%s\n", done, items_, more);
  }
}

std::string SizeText(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f bytes", bytes);
  absl::string_view unit;
  for (const absl::string_view larger : {"KiB", "MiB", "GiB", "TiB"}) {
    // What would be printed as 1024.0 is one of the next unit.
    if (!unit.empty() && bytes < 1023.95) break;
    unit = larger;
    bytes /= 1024;
  }
  return absl::StrFormat("%.1f %s", bytes, unit);
}

std::string Field(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("%-14s %s\n", name, Printable(value));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = cell.empty() ? "-" : Printable(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  if (rows_.size() == 1) return "";
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  const bool colors = UsesColor(stdout);
  for (const auto& row : rows_) {
    const bool header = colors && &row == &rows_[0];
    if (header) text += "\x1b[1m";
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += row[i];
      if (!last) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += header ? "\x1b[0m\n" : "\n";
  }
  return text;
}

// JSON and text show the same message, so that they have the same content.

namespace {

using Counts = google::protobuf::Map<uint32_t, double>;

std::string Lengths(const Counts& counts) {
  std::vector<std::pair<uint32_t, double>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return "none";
  return absl::StrJoin(sorted, ", ", [](std::string* to, const auto& count) {
    absl::StrAppendFormat(to, "/%d: %.0f", count.first, count.second);
  });
}

std::string LastBuild(const output::Status& status) {
  if (!status.has_last_build_time()) return "never";
  return absl::StrCat(
      absl::FormatDuration(absl::Seconds(status.last_build_seconds())), ", ",
      status.last_build_time());
}

}  // namespace

std::string TextOf(const output::Status& s) {
  return absl::StrCat(
      Field("table", s.table()),
      Field("generation",
            absl::StrFormat("%.0f accepted, %.0f visible, %.0f persisted",
                            s.accepted_generation(), s.visible_generation(),
                            s.persisted_generation())),
      Field("store", s.store_path().empty()
                         ? s.store()
                         : absl::StrCat(s.store(), ", ", s.store_path())),
      Field("routes",
            absl::StrFormat("%.0f IPv6, %.0f IPv4, at most %.0f", s.routes_v6(),
                            s.routes_v4(), s.max_routes())),
      s.prefix_lengths() ? Field("prefix lengths", "kept") : "",
      Field("next hops", absl::StrFormat("%.0f described, %.0f groups",
                                         s.next_hops(), s.groups())),
      Field("writer epoch", absl::StrFormat("%.0f", s.writer_epoch())),
      Field("intervals", absl::StrFormat("%.0f IPv6, %.0f IPv4",
                                         s.intervals_v6(), s.intervals_v4())),
      Field("memory",
            absl::StrCat(SizeText(s.fib_bytes()), " FIB, ",
                         SizeText(s.retired_fib_bytes()), " retired, ",
                         SizeText(s.rib_bytes()), " RIB")),
      Field("memory bound",
            absl::StrCat(SizeText(s.memory_bound_bytes()), ", at most ",
                         SizeText(s.memory_limit_bytes()))),
      Field("history", absl::StrFormat("%s, from generation %.0f",
                                       SizeText(s.history_bytes()),
                                       s.oldest_watch_generation())),
      Field("kernel",
            absl::StrCat(s.kernel(), " (of ",
                         absl::StrJoin(s.available_kernels(), ", "), ")")),
      Field("last build", LastBuild(s)),
      Field("builds",
            absl::StrFormat("%.0f incremental, %.0f full, %.0f failed",
                            s.incremental_builds(), s.full_builds(),
                            s.failed_builds())),
      s.last_build_error().empty()
          ? ""
          : Field("BUILD FAILED", s.last_build_error()),
      Field("digest", s.digest()),
      Field("IPv6 lengths", Lengths(s.lengths_v6())),
      Field("IPv4 lengths", Lengths(s.lengths_v4())));
}

void CopyFields(const google::protobuf::Message& from,
                google::protobuf::Message& to) {
  using google::protobuf::FieldDescriptor;
  for (int i = 0; i < to.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = to.GetDescriptor()->field(i);
    const FieldDescriptor* const source =
        from.GetDescriptor()->FindFieldByName(field->name());
    if (source == nullptr) continue;
    if (source->type() == FieldDescriptor::TYPE_UINT64) {
      to.GetReflection()->SetDouble(
          &to, field, Number(from.GetReflection()->GetUInt64(from, source)));
    } else if (source->type() == FieldDescriptor::TYPE_STRING &&
               !source->is_repeated()) {
      to.GetReflection()->SetString(
          &to, field, from.GetReflection()->GetString(from, source));
    }
  }
}

output::Status Describe(const v1::Table& table) {
  output::Status status;
  CopyFields(table, status);
  status.set_table(table.name());
  status.set_prefix_lengths(table.prefix_lengths());
  *status.mutable_available_kernels() = table.available_kernels();
  status.set_digest(absl::BytesToHexString(table.digest()));
  status.set_last_build_seconds(Number(table.last_build_nanos()) * 1e-9);
  if (table.last_build_unix_nanos() != 0) {
    status.set_last_build_time(absl::FormatTime(
        absl::FromUnixNanos(
            static_cast<int64_t>(table.last_build_unix_nanos())),
        absl::UTCTimeZone()));
  }
  for (const v1::LengthCount& count : table.length_counts()) {
    auto& lengths = count.v6() ? *status.mutable_lengths_v6()
                               : *status.mutable_lengths_v4();
    lengths[count.length()] = Number(count.routes());
  }
  return status;
}

// Omits the fields that an object does not have.

output::NextHop Describe(const NextHop& next_hop) {
  output::NextHop described;
  described.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    described.set_gateway(next_hop.gateway->ToString());
  }
  described.set_interface(next_hop.interface);
  described.set_weight(next_hop.weight);
  described.set_label(next_hop.label);
  return described;
}

output::Group Describe(const NextHopGroup& group) {
  output::Group described;
  described.set_id(group.id);
  for (const NextHopGroup::Member& member : group.members) {
    output::Group::Member* to = described.add_members();
    to->set_next_hop(member.next_hop);
    to->set_weight(member.weight);
  }
  described.set_label(group.label);
  return described;
}

std::string MembersText(const NextHopGroup& group) {
  return absl::StrJoin(group.members, " ",
                       [](std::string* to, const NextHopGroup::Member& member) {
                         absl::StrAppend(to, member.next_hop);
                         if (member.weight != 1)
                           absl::StrAppend(to, "*", member.weight);
                       });
}

std::string TextOf(const NextHop& next_hop) {
  std::vector<std::string> parts;
  if (next_hop.gateway.has_value()) {
    parts.push_back(absl::StrCat("via ", next_hop.gateway->ToString()));
  }
  if (!next_hop.interface.empty()) {
    parts.push_back(absl::StrCat("dev ", Printable(next_hop.interface)));
  }
  if (next_hop.weight != 1) {
    parts.push_back(absl::StrCat("weight ", next_hop.weight));
  }
  if (!next_hop.label.empty()) {
    parts.push_back(absl::StrCat("label ", Printable(next_hop.label)));
  }
  return absl::StrJoin(parts, " ");
}

std::string TextOf(const NextHopGroup& group) {
  return group.label.empty() ? MembersText(group)
                             : absl::StrCat(MembersText(group), " label ",
                                            Printable(group.label));
}

}  // namespace planb::client
