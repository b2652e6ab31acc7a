// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/record.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/internal/raw_logging.h"
#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/utf8.h"
#include "client/attributes.h"
#include "client/call.h"
#include "client/planbctl/output.h"
#include "planb/v1/types.pb.h"

namespace planb::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Printed names that are not the contract's, by the full name of a field or,
// for ids, by the name alone.
constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
    {"planb.v1.Table.name", "table"},
    {"planb.v1.ExplainLookupResponse.next_hop", "object"},
    {"planb.v1.ExplainLookupResponse.member", "member_object"},
    {"next_hop_id", "next_hop"},
    {"member_id", "member"},
};

// The headings of FormText. A row without text is left out.
constexpr std::pair<absl::string_view, absl::string_view> kRows[] = {
    {"server", "{server} ({health})"},
    {"table", "{table}"},
    {"generation",
     "{accepted_generation} accepted, {visible_generation} visible, "
     "{persisted_generation} persisted"},
    {"store", "{store}[, {store_path}][, sync {store_sync}]"},
    {"routes", "{routes_v6} IPv6, {routes_v4} IPv4, at most {max_routes}"},
    {"next hops", "{next_hops} described, {groups} groups"},
    {"writer epoch", "{writer_epoch}"},
    {"complete since", "{complete_since_time}"},
    {"intervals", "{intervals_v6} IPv6, {intervals_v4} IPv4"},
    {"memory", "{fib_bytes} FIB, {retired_fib_bytes} retired, {rib_bytes} RIB"},
    {"memory bound", "{memory_bound_bytes}, at most {memory_limit_bytes}"},
    {"history", "{history_bytes}, from generation {oldest_watch_generation}"},
    {"kernel", "{kernel} (of {available_kernels})"},
    {"last build", "{last_build_time}[, in {last_build_seconds}]"},
    {"builds",
     "{incremental_builds} incremental, {full_builds} full, {failed_builds} "
     "failed"},
    {"BUILD FAILED", "{last_build_error}"},
    {"digest", "{digest}"},
    {"IPv6 lengths", "{lengths_v6}"},
    {"IPv4 lengths", "{lengths_v4}"},
};

// The words of WordsText, where they are not the fields' names.
constexpr std::pair<absl::string_view, absl::string_view> kWords[] = {
    {"gateway", "via "},
    {"interface", "dev "},
    {"members", ""},
    {"attributes", ""},
    {"origin_as", "AS"},
    {"as_path", "path "},
    {"extended_communities", "extended "},
    {"large_communities", "large "},
    {"tags", "tag "}};

// As protobuf writes it.
template <typename Wrapper, typename Value>
std::string Json(const Value& value) {
  Wrapper wrapper;
  wrapper.set_value(value);
  std::string json;
  ABSL_RAW_CHECK(
      google::protobuf::util::MessageToJsonString(wrapper, &json).ok(),
      "a text or a number has a JSON form");
  return json;
}

std::string Words(const Message& object, const PrintedFields& fields);

std::string JsonObject(const PrintedFields& fields) {
  std::vector<std::string> members;
  for (const bool optional : {false, true}) {
    for (const PrintedField& field : fields) {
      if (field.optional != optional || field.json.empty()) continue;
      members.push_back(absl::StrCat("\"", field.name, "\":", field.json));
    }
  }
  return absl::StrCat("{", absl::StrJoin(members, ","), "}");
}

void Set(const std::string& text, PrintedField& to) {
  to.text = text;
  to.json = Json<google::protobuf::StringValue>(text);
}

// The value of a singular field (index -1), or of an element of a list.
void Set(const Message& message, const FieldDescriptor& field, int index,
         PrintedField& to) {
  const Reflection& reflection = *message.GetReflection();
  std::string text;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const Message& value =
          index < 0 ? reflection.GetMessage(message, &field)
                    : reflection.GetRepeatedMessage(message, &field, index);
      if (const auto* prefix = dynamic_cast<const v1::Prefix*>(&value)) {
        const auto parsed = FromProto(*prefix);
        return Set(parsed.ok() ? parsed->ToString() : "malformed", to);
      }
      if (const auto* large =
              dynamic_cast<const v1::Attributes::LargeCommunity*>(&value)) {
        return Set(CommunityText(*large), to);
      }
      const PrintedFields fields = FieldsOf(value);
      to.text = Words(value, fields);
      to.json = JsonObject(fields);
      return;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      text = index < 0 ? reflection.GetString(message, &field)
                       : reflection.GetRepeatedString(message, &field, index);
      if (field.type() == FieldDescriptor::TYPE_BYTES) {
        const auto address = Address::FromPacked(text);
        text = field.name() == "gateway" && address.ok()
                   ? address->ToString()
                   : absl::BytesToHexString(text);
      }
      return Set(text, to);
    default:
      google::protobuf::TextFormat::PrintFieldValueToString(message, &field,
                                                            index, &text);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return Set(text, to);
  if (field.full_name() == "planb.v1.Attributes.communities") {
    return Set(
        CommunityText(reflection.GetRepeatedUInt32(message, &field, index)),
        to);
  }
  if (field.full_name() == "planb.v1.Attributes.extended_communities") {
    return Set(ExtendedCommunityText(
                   reflection.GetRepeatedUInt64(message, &field, index)),
               to);
  }
  to.json = text;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    // JSON has no infinite numbers: they are strings there.
    to.json = Json<google::protobuf::DoubleValue>(
        index < 0 ? reflection.GetDouble(message, &field)
                  : reflection.GetRepeatedDouble(message, &field, index));
  }
  to.text = text == "false" ? "" : text == "true" ? "yes" : text;
}

// A number of nanoseconds or bytes, by the name of its field.
void SetUnit(uint64_t number, PrintedField& to) {
  absl::string_view name = to.name;
  const auto nanos = static_cast<int64_t>(number);
  if (absl::EndsWith(name, "_bytes")) {
    to.text = SizeText(static_cast<double>(number));
  } else if (absl::ConsumeSuffix(&name, "_unix_nanos")) {
    Set(absl::FormatTime(absl::FromUnixNanos(nanos), absl::UTCTimeZone()), to);
    to.name = absl::StrCat(name, "_time");
    to.optional = true;
    if (nanos == 0) {
      to.json = "";
      to.text = "never";
    }
  } else if (absl::ConsumeSuffix(&name, "_nanos")) {
    to.json =
        Json<google::protobuf::DoubleValue>(static_cast<double>(number) * 1e-9);
    to.text = absl::FormatDuration(absl::Nanoseconds(nanos));
    to.name = absl::StrCat(name, "_seconds");
  }
}

PrintedField Printed(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  PrintedField to = {.name = field.name()};
  if (field.is_repeated()) {
    std::vector<std::string> json, text;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      PrintedField value;
      if (field.is_map()) {
        const PrintedFields entry =
            FieldsOf(reflection.GetRepeatedMessage(message, &field, i));
        value.json = absl::StrCat("\"", entry[0].text, "\":", entry[1].json);
      } else {
        Set(message, field, i, value);
      }
      json.push_back(value.json);
      text.push_back(value.text);
    }
    if (field.is_map()) absl::c_sort(json);
    to.json = absl::StrCat(field.is_map() ? "{" : "[", absl::StrJoin(json, ","),
                           field.is_map() ? "}" : "]");
    const bool words = field.message_type() != nullptr ||
                       field.containing_type() == v1::Attributes::descriptor();
    to.text = absl::StrJoin(text, words ? " " : ", ");
    return to;
  }
  const bool is_set = reflection.HasField(message, &field);
  to.optional = (field.has_presence() &&
                 field.message_type() != v1::Prefix::descriptor()) ||
                field.name() == "member_id" ||
                field.type() == FieldDescriptor::TYPE_BYTES;
  if (is_set || !to.optional) Set(message, field, -1, to);
  if (field.name() == "next_hop_id" && !is_set) to.text = "no route";
  if (field.type() == FieldDescriptor::TYPE_UINT64) {
    SetUnit(reflection.GetUInt64(message, &field), to);
  }
  for (const auto& [name, printed] : kNames) {
    if (name == field.full_name() || name == field.name()) {
      to.name = std::string(printed);
    }
  }
  return to;
}

// The numbers of routes of one family, by length.
PrintedField Lengths(const v1::Table& table, bool v6) {
  std::vector<std::string> json, text;
  for (const v1::LengthCount& count : table.length_counts()) {
    if (count.v6() != v6) continue;
    json.push_back(absl::StrCat("\"", count.length(), "\":", count.routes()));
    text.push_back(absl::StrCat("/", count.length(), ": ", count.routes()));
  }
  return {.name = v6 ? "lengths_v6" : "lengths_v4",
          .json = absl::StrCat("{", absl::StrJoin(json, ","), "}"),
          .text = text.empty() ? "none" : absl::StrJoin(text, ", ")};
}

}  // namespace

PrintedFields FieldsOf(const Message& message, PrintedFields before) {
  PrintedFields fields = std::move(before);
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.full_name() == "planb.v1.Table.length_counts") {
      const auto& table = dynamic_cast<const v1::Table&>(message);
      fields.push_back(Lengths(table, true));
      fields.push_back(Lengths(table, false));
    } else {
      fields.push_back(Printed(message, field));
    }
  }
  return fields;
}

std::string TextOf(const PrintedFields& fields, absl::string_view name) {
  const auto field = absl::c_find_if(
      fields, [&](const PrintedField& each) { return each.name == name; });
  return field == fields.end() ? "" : field->text;
}

std::string Fill(absl::string_view pattern, const PrintedFields& fields,
                 bool* lacks) {
  std::string text;
  for (;;) {
    const size_t mark = pattern.find_first_of("{[");
    absl::StrAppend(&text, pattern.substr(0, mark));
    if (mark == absl::string_view::npos) return text;
    const bool part = pattern[mark] == '[';
    const size_t end = pattern.find(part ? ']' : '}', mark);
    const absl::string_view inner = pattern.substr(mark + 1, end - mark - 1);
    pattern.remove_prefix(end + 1);
    bool none = false;
    const std::string value =
        part ? Fill(inner, fields, &none) : TextOf(fields, inner);
    if (!none) text += value;
    if (!part && lacks != nullptr) *lacks |= value.empty() || value == "0";
  }
}

std::string FormText(const PrintedFields& fields) {
  std::string text;
  std::string patterns;
  for (const auto& [heading, pattern] : kRows) {
    absl::StrAppend(&patterns, pattern);
    const std::string row = Fill(pattern, fields);
    if (row != Fill(pattern, {})) text += Field(heading, row);
  }
  for (const PrintedField& field : fields) {
    // Lists of objects are tables of their own.
    if (field.text.empty() || absl::StartsWith(field.json, "[{") ||
        absl::StrContains(patterns, absl::StrCat("{", field.name, "}"))) {
      continue;
    }
    text += Field(absl::StrReplaceAll(field.name, {{"_", " "}}), field.text);
  }
  return text;
}

namespace {

std::string Words(const Message& object, const PrintedFields& fields) {
  if (const auto* member =
          dynamic_cast<const v1::NextHopGroup::Member*>(&object)) {
    return absl::StrCat(
        member->next_hop_id(),
        member->weight() == 1 ? "" : absl::StrCat("*", member->weight()));
  }
  if (const auto* segment =
          dynamic_cast<const v1::Attributes::Segment*>(&object)) {
    return SegmentText(*segment);
  }
  if (const auto* tag = dynamic_cast<const v1::Attributes::Tag*>(&object)) {
    return Printable(absl::StrCat(tag->key(), "=", tag->value()));
  }
  std::vector<std::string> words;
  for (const PrintedField& field : fields) {
    const bool usual = (field.name == "weight" && field.text == "1") ||
                       (field.name == "origin_as" && field.text == "0");
    if (field.name == "id" || field.text.empty() || usual) continue;
    const auto word = absl::c_find_if(
        kWords, [&](const auto& each) { return each.first == field.name; });
    words.push_back(absl::StrCat(
        word == std::end(kWords) ? absl::StrCat(field.name, " ") : word->second,
        Printable(field.text)));
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

std::string WordsText(const Message& object) {
  return Words(object, FieldsOf(object));
}

std::string Describe(NextHopId id, const NextHopObjects& objects) {
  if (const NextHop* next_hop = objects.FindNextHop(id)) {
    return WordsText(ToProto(*next_hop));
  }
  const NextHopGroup* group = objects.FindGroup(id);
  if (group == nullptr) return "";
  std::string words = WordsText(ToProto(*group));
  for (const NextHopGroup::Member& member : group->members) {
    const std::string meaning = Describe(member.next_hop, objects);
    if (meaning.empty()) continue;
    absl::StrAppend(&words, " (", member.next_hop, " ", meaning, ")");
  }
  return words;
}

std::string JsonText(const std::string& text) {
  return Json<google::protobuf::StringValue>(text);
}

std::string CsvText(absl::string_view text) {
  std::string cell = Printable(text);
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

OutputForm WantedForm() {
  return absl::GetFlag(FLAGS_json) ? OutputForm::kJson
                                   : absl::GetFlag(FLAGS_output).value;
}

namespace {

// A document. JSON is YAML, so that values need no other form.
std::string Yaml(const PrintedFields& fields) {
  std::string text = "---\n";
  for (const PrintedField& field : fields) {
    if (field.json.empty()) continue;
    absl::StrAppend(&text, field.name, ": ", field.json, "\n");
  }
  return text;
}

// Lists and objects are JSON in a cell.
std::string CsvCell(const PrintedField& field) {
  return CsvText(absl::StartsWith(field.json, "\"") ? field.text : field.json);
}

std::string Csv(const PrintedFields& fields) {
  static std::string* const last_header = new std::string;
  std::vector<std::string> names, cells;
  for (const PrintedField& field : fields) {
    names.push_back(field.name);
    cells.push_back(CsvCell(field));
  }
  const std::string header = absl::StrCat(absl::StrJoin(names, ","), "\n");
  const bool first = std::exchange(*last_header, header) != header;
  return absl::StrCat(first ? header : "", absl::StrJoin(cells, ","), "\n");
}

}  // namespace

std::string Record(const PrintedFields& fields) {
  switch (WantedForm()) {
    case OutputForm::kYaml:
      return Yaml(fields);
    case OutputForm::kCsv:
      return Csv(fields);
    case OutputForm::kTable:
    case OutputForm::kJson:
      break;
  }
  return JsonObject(fields) + "\n";
}

void Print(const PrintedFields& fields, absl::string_view text) {
  const bool table = WantedForm() == OutputForm::kTable;
  absl::PrintF("%s", !table              ? Record(fields)
                     : UsesColor(stdout) ? Colored(text)
                                         : std::string(text));
}

void Print(const Message& message, absl::string_view text) {
  Print(
      WantedForm() == OutputForm::kTable ? PrintedFields() : FieldsOf(message),
      text);
}

}  // namespace planb::client
