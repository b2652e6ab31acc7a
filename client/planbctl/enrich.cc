// SPDX-License-Identifier: Apache-2.0

// planbctl enrich: adds what a table says of addresses to records of text.
//
// Lookups are function calls in tables that follow the server's. Records are
// written as they come, byte for byte, with the added fields at their ends, so
// that beside the tables memory is bounded by the longest record.

#include <fcntl.h>
#include <poll.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"
#include "client/attributes.h"
#include "client/local_table.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"

ABSL_FLAG(
    std::string, columns, "",
    "Names of the columns or members with addresses, separated by commas, "
    "such as src_addr,dst_addr.");
ABSL_FLAG(std::string, add, "next_hop,gateway,interface,label",
          "What to add of each, separated by commas: next_hop (the id; 0: no "
          "route), gateway, interface, label, origin_as, as_path, communities, "
          "prefix_length (which is put last).");
ABSL_FLAG(std::string, table_column, "",
          "The column or member that chooses the table by --tables, such as "
          "that of the exporter.");
ABSL_FLAG(std::string, tables, "",
          "VALUE=TABLE,...: the table for each value of --table_column. For "
          "another value it is --table.");

namespace planb::client {
namespace {

constexpr size_t kLongestRecord = 1 << 20;
constexpr size_t kBlock = 1 << 16;
// Of next hops whose fields are kept as text, and of values of --table_column.
constexpr size_t kMostKept = 1 << 16;

struct AddedField {
  absl::string_view name;
  bool number;
  // By the attributes of the next hop, decoded.
  std::string (*of)(const NextHop&, const v1::Attributes&);
};

constexpr absl::string_view kNotCsv = "quotes are not as in RFC 4180";
constexpr absl::string_view kNextHopField = "next_hop";
constexpr absl::string_view kLengthField = "prefix_length";
constexpr AddedField kFields[] = {
    {"gateway", false,
     [](const NextHop& hop, const v1::Attributes&) {
       return hop.gateway.has_value() ? hop.gateway->ToString() : "";
     }},
    {"interface", false,
     [](const NextHop& hop, const v1::Attributes&) { return hop.interface; }},
    {"label", false,
     [](const NextHop& hop, const v1::Attributes&) { return hop.label; }},
    {"origin_as", true,
     [](const NextHop&, const v1::Attributes& attributes) {
       const uint32_t as = attributes.origin_as();
       return as == 0 ? "" : absl::StrCat(as);
     }},
    {"as_path", false,
     [](const NextHop&, const v1::Attributes& attributes) {
       return AsPathText(attributes);
     }},
    {"communities", false,
     [](const NextHop&, const v1::Attributes& attributes) {
       return absl::StrJoin(attributes.communities(), " ",
                            [](std::string* to, uint32_t community) {
                              *to += CommunityText(community);
                            });
     }},
};

// What is added to each record.
struct Format {
  bool json = false;
  std::vector<std::string> columns;  // with addresses
  bool next_hop = false, length = false;
  std::vector<const AddedField*> fields;
  std::map<std::string, std::string> tables;  // by Canonical() values

  // How many fields each of them adds.
  size_t added() const {
    return fields.size() + (next_hop ? 1 : 0) + (length ? 1 : 0);
  }
  // Their names, in their order.
  std::vector<std::string> NamesFor(const std::string& column) const {
    std::vector<std::string> names;
    const auto add = [&](absl::string_view name) {
      names.push_back(absl::StrCat(column, "_", name));
    };
    if (next_hop) add(kNextHopField);
    for (const AddedField* field : fields) add(field->name);
    if (length) add(kLengthField);
    return names;
  }

  // Appends a field, with the comma before it. JSON has none without a value.
  void Append(const std::string& column, absl::string_view name,
              const std::string& value, bool number, std::string& out) const {
    if (!json) {
      absl::StrAppend(&out, ",", CsvText(value));
    } else if (!value.empty()) {
      absl::StrAppend(&out, ",", JsonText(absl::StrCat(column, "_", name)), ":",
                      number ? value : JsonText(Printable(value)));
    }
  }
};

// A table, and what its next hops add to records.
class Table {
 public:
  Table(std::unique_ptr<LocalTable> table, const Format& format)
      : table_(std::move(table)),
        format_(format),
        known_(format.columns.size()) {
    for (const std::string& column : format.columns) {
      std::string text;
      format.Append(column, kLengthField, "0", true, text);
      before_length_.push_back(text.substr(0, text.size() - 1));
    }
  }

  // Appends the fields of an address in a column. Errors: those of LocalTable.
  absl::Status Append(size_t column, const Address& address, std::string& out) {
    NextHopId id = kNoRoute;
    uint8_t length = kNoPrefixLength;
    const std::string packed = address.ToPacked();
    const auto looked_up =
        format_.length
            ? table_->LookupWithLengths(address.family(), packed.data(), 1, &id,
                                        &length)
            : table_->Lookup(address.family(), packed.data(), 1, &id);
    if (!looked_up.ok()) return looked_up.status();
    auto objects = table_->routes().objects();
    if (objects != objects_ || known_[column].size() > kMostKept) {
      objects_ = std::move(objects);
      for (auto& known : known_) known.clear();
    }
    const auto [text, added] = known_[column].try_emplace(id);
    if (added) text->second = FieldsOf(column, id);
    out += text->second;
    if (!format_.length) return absl::OkStatus();
    if (length != kNoPrefixLength) {
      absl::StrAppend(&out, before_length_[column], int{length});
    } else if (!format_.json) {
      out += ',';
    }
    return absl::OkStatus();
  }

 private:
  using Values = std::vector<std::string>;  // by Format::fields

  // Made once an object, as long as that stays the same.
  Values ValuesOf(const NextHop& hop) {
    if (made_.size() > kMostKept) made_.clear();
    auto& [of, values] = made_[hop.id];
    if (values.empty() || of != hop) {
      of = hop;
      values.clear();
      const v1::Attributes attributes = ToProto(hop.attributes);
      for (const AddedField* field : format_.fields) {
        values.push_back(field->of(hop, attributes));
      }
    }
    return values;
  }

  // Of a group they are what all members have in common, but the label is its
  // own.
  Values ValuesOf(NextHopId id) {
    if (format_.fields.empty()) return {};
    if (const NextHop* hop = objects_->FindNextHop(id)) return ValuesOf(*hop);
    Values common(format_.fields.size());
    const NextHopGroup* group = objects_->FindGroup(id);
    if (group == nullptr) return common;
    for (const NextHopGroup::Member& member : group->members) {
      const Values values = ValuesOf(member.next_hop);
      if (&member == &group->members.front()) common = values;
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] != common[i]) common[i].clear();
      }
    }
    for (size_t i = 0; i < common.size(); ++i) {
      if (format_.fields[i]->name == "label") common[i] = group->label;
    }
    return common;
  }

  std::string FieldsOf(size_t column, NextHopId id) {
    std::string text;
    const std::string& name = format_.columns[column];
    if (format_.next_hop) {
      format_.Append(name, kNextHopField, absl::StrCat(id), true, text);
    }
    const Values values = ValuesOf(id);
    for (size_t i = 0; i < values.size(); ++i) {
      const AddedField& field = *format_.fields[i];
      format_.Append(name, field.name, values[i], field.number, text);
    }
    return text;
  }

  const std::unique_ptr<LocalTable> table_;
  const Format& format_;
  std::shared_ptr<const NextHopObjects> objects_;
  // By column: the fields but the length, as of objects_.
  std::vector<absl::flat_hash_map<NextHopId, std::string>> known_;
  absl::flat_hash_map<NextHopId, std::pair<NextHop, Values>> made_;
  std::vector<std::string> before_length_;
};

// A value of --table_column as it is compared: an address in one form.
std::string Canonical(absl::string_view value) {
  const auto address = Address::Parse(value);
  return address.ok() ? Unmapped(*address).ToString() : std::string(value);
}

// The tables by the values of --table_column. An address has any of its forms.
class TableChoice {
 public:
  // Follows the tables, each once. Errors: those of LocalTable::Follow.
  absl::Status Open(const std::shared_ptr<grpc::Channel>& channel,
                    const Format& format) {
    std::map<std::string, Table*> by_name;
    const auto open = [&](const std::string& name) -> absl::StatusOr<Table*> {
      Table*& table = by_name[name.empty() ? "default" : name];
      if (table != nullptr) return table;
      auto followed = LocalTable::Follow(
          channel, {.table = name, .prefix_lengths = format.length},
          CallDeadline());
      if (!followed.ok()) return followed.status();
      if (absl::GetFlag(FLAGS_await_complete)) {
        const absl::Status complete =
            (*followed)->WaitUntilComplete(CallDeadline());
        if (!complete.ok()) return complete;
      }
      tables_.push_back(std::make_unique<Table>(*std::move(followed), format));
      return table = tables_.back().get();
    };
    const auto fallback = open(absl::GetFlag(FLAGS_table));
    if (!fallback.ok()) return fallback.status();
    fallback_ = *fallback;
    for (const auto& [value, name] : format.tables) {
      const auto table = open(name);
      if (!table.ok()) return table.status();
      chosen_[value] = *table;
    }
    return absl::OkStatus();
  }

  Table& For(absl::string_view value) {
    const auto seen = seen_.find(value);
    if (seen != seen_.end()) return *seen->second;
    if (seen_.size() >= kMostKept) seen_.clear();
    const auto chosen = chosen_.find(Canonical(value));
    Table* const table = chosen == chosen_.end() ? fallback_ : chosen->second;
    seen_.emplace(value, table);
    return *table;
  }

 private:
  std::vector<std::unique_ptr<Table>> tables_;
  Table* fallback_ = nullptr;
  std::map<std::string, Table*> chosen_;
  absl::flat_hash_map<std::string, Table*> seen_;
};

// A record within the input, without its line's end.
struct Record {
  absl::string_view bytes;
  absl::string_view end;  // "\n", "\r\n" or, of the last one, nothing
  std::vector<absl::string_view> fields;  // of CSV, with their quotes
  bool malformed = false;
};

// Finds the record that `data` begins with, by RFC 4180. False: more of it is
// needed. `last`: there is no more.
bool FindCsv(absl::string_view data, bool last, Record& record) {
  record.fields.clear();
  record.malformed = false;
  const auto finish = [&](size_t size, size_t end_size) {
    record.bytes = data.substr(0, size);
    record.end = data.substr(size, end_size);
    return true;
  };
  for (size_t begin = 0;;) {
    size_t at = begin;
    if (at < data.size() && data[at] == '"') {
      for (++at;; at += 2) {
        at = data.find('"', at);
        if (at == absl::string_view::npos) {
          if (!last) return false;
          record.malformed = true;
          return finish(data.size(), 0);
        }
        if (at + 1 == data.size() && !last) return false;
        if (at + 1 == data.size() || data[at + 1] != '"') break;
      }
      ++at;
    }
    const size_t quoted_end = at;
    at = data.find_first_of(",\n", at);
    if (at == absl::string_view::npos) {
      if (!last) return false;
      at = data.size();
    }
    absl::string_view field = data.substr(begin, at - begin);
    const bool ends = at == data.size() || data[at] == '\n';
    size_t end_size = at == data.size() ? 0 : 1;
    if (ends && absl::ConsumeSuffix(&field, "\r")) {
      --at;
      ++end_size;
    }
    // A quote within a field without quotes, or text behind quotes.
    record.malformed |=
        quoted_end == begin ? absl::StrContains(field, '"') : quoted_end != at;
    record.fields.push_back(field);
    if (ends) return finish(at, end_size);
    begin = at + 1;
  }
}

bool FindLine(absl::string_view data, bool last, Record& record) {
  const size_t at = data.find('\n');
  if (at == absl::string_view::npos && !last) return false;
  record.bytes = data.substr(0, at);
  record.end = data.substr(record.bytes.size());
  record.end = record.end.substr(0, 1);
  while (absl::EndsWith(record.bytes, "\r")) {
    record.bytes.remove_suffix(1);
    record.end = data.substr(record.bytes.size(), record.end.size() + 1);
  }
  return true;
}

std::string Unquoted(absl::string_view field) {
  if (!absl::ConsumePrefix(&field, "\"")) return std::string(field);
  absl::ConsumeSuffix(&field, "\"");
  return absl::StrReplaceAll(field, {{"\"\"", "\""}});
}

// Reads members of JSON objects.
class JsonMembers {
 public:
  // So many bytes behind a line are read as well, and ignored.
  static constexpr size_t kPadding = simdjson::SIMDJSON_PADDING;

  // Looks for the members `names`, which differ, and tells of those in `added`.
  void Open(const std::vector<std::string>& names,
            const std::vector<std::string>& added) {
    for (const std::string& name : names) slots_.emplace(name, slots_.size());
    count_ = names.size();
    for (const std::string& name : added) slots_.emplace(name, count_);
    for (const auto& [name, slot] : slots_) lengths_.set(LengthOf(name));
  }

  // The texts of the members in `line`; empty for one that is absent or null.
  // Of two with one name the last counts. `there` is the name of one in `added`
  // that it has, else empty. Valid until the next call. Errors: the line is no
  // object. REQUIRES: kPadding bytes behind `line` are readable.
  simdjson::error_code Read(absl::string_view line,
                            std::vector<absl::string_view>& texts,
                            absl::string_view& there) {
    texts.assign(count_, "");
    inexact_.assign(count_, false);
    there = "";
    others_.clear();
    simdjson::dom::object object;
    const simdjson::error_code error =
        parser_.parse(line.data(), line.size(), /*realloc_if_needed=*/false)
            .get(object);
    if (error != simdjson::SUCCESS) return error;
    for (const auto [key, value] : object) {
      const absl::string_view name(key.data(), key.size());
      if (!lengths_[LengthOf(name)]) continue;
      const auto slot = slots_.find(name);
      if (slot == slots_.end()) continue;
      if (slot->second == count_) {
        there = slot->first;
      } else {
        texts[slot->second] = TextOf(value);
        using Type = simdjson::dom::element_type;
        const Type type = value.type();
        inexact_[slot->second] =
            type == Type::DOUBLE || type == Type::OBJECT || type == Type::ARRAY;
      }
    }
    return simdjson::SUCCESS;
  }

  // True if the text of that member of the last line is not as the line has it:
  // a number may be written in several ways.
  bool inexact(size_t name) const { return inexact_[name]; }

 private:
  absl::string_view TextOf(simdjson::dom::element value) {
    std::string_view text;
    if (value.get_string().get(text) == simdjson::SUCCESS) {
      return {text.data(), text.size()};
    }
    if (value.is_null()) return "";
    return others_.emplace_back(simdjson::minify(value));
  }

  static size_t LengthOf(absl::string_view name) {
    return std::min(name.size(), kLongestName);
  }

  simdjson::dom::parser parser_;
  // Places in the texts; count_: of a member that is to be added.
  absl::flat_hash_map<std::string, size_t> slots_;
  // Of their names: most members are none of them, which is seen without a
  // hash.
  static constexpr size_t kLongestName = 63;  // and all longer ones
  std::bitset<kLongestName + 1> lengths_;
  size_t count_ = 0;
  std::deque<std::string> others_;  // texts of the line that are no strings
  std::vector<bool> inexact_;
};

class Enricher {
 public:
  Enricher(Format format, int input)
      : format_(std::move(format)), input_(input) {}

  // Errors: INVALID_ARGUMENT for input that cannot be read, or used, with its
  // line; those of the tables.
  absl::Status Run(const std::shared_ptr<grpc::Channel>& channel) {
    absl::Status status = Begin();
    if (!status.ok()) return status;
    status = tables_.Open(channel, format_);
    if (!status.ok()) return status;
    const bool csv = !format_.json;
    Record record;
    for (bool header = csv; NextRecord(record, status); header = false) {
      if (header) {
        status = ReadHeader(record);
      } else if (csv) {
        status = EnrichCsv(record);
      } else {
        status = EnrichJson(record);
      }
      if (!status.ok()) return status;
      absl::StrAppend(&out_, record.end);
      if (out_.size() >= kBlock && !Flush()) return absl::OkStatus();
    }
    Flush();
    return status;
  }

  // Of JSON: the names that no object has with a value, unless there is none.
  std::vector<std::string> absent() const {
    return objects_ == 0
               ? std::vector<std::string>()
               : std::vector<std::string>(absent_.begin(), absent_.end());
  }
  uint64_t malformed() const { return malformed_; }
  const std::string& first_malformed() const { return first_malformed_; }

 private:
  // Finds out which form the input has.
  absl::Status Begin() {
    constexpr absl::string_view kMark = "\xef\xbb\xbf";
    absl::Status status;
    while (status.ok() && !at_end_ && data() != kMark &&
           absl::StartsWith(kMark, data())) {
      status = Fill();
    }
    // The mark of UTF-8 is no part of the first record.
    if (absl::StartsWith(data(), kMark)) {
      out_ = std::string(kMark);
      begin_ = kMark.size();
    }
    for (size_t at = 0; status.ok(); status = Fill()) {
      at = data().find_first_not_of(" \t\r\n");
      if (at != absl::string_view::npos) {
        format_.json = data()[at] == '{';
        break;
      }
      if (at_end_) break;
    }
    if (!status.ok()) return status;
    if (!format_.json) return absl::OkStatus();
    std::vector<std::string> names = format_.columns;
    choice_place_ =
        static_cast<size_t>(absl::c_find(names, choice_) - names.begin());
    if (!choice_.empty() && choice_place_ == names.size()) {
      names.push_back(choice_);
    }
    absent_.insert(names.begin(), names.end());
    std::vector<std::string> added;
    for (const std::string& column : format_.columns) {
      for (std::string& name : format_.NamesFor(column)) {
        added.push_back(std::move(name));
      }
    }
    members_.Open(names, added);
    return absl::OkStatus();
  }

  absl::string_view data() const {
    return absl::string_view(buffer_).substr(begin_);
  }

  // Reads more of the input. What is ready is written before it waits.
  absl::Status Fill() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    if (buffer_.size() > kLongestRecord) {
      return Malformed("the record is longer than 1 MiB");
    }
    pollfd ready = {.fd = input_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 0) == 0) Flush();
    const size_t before = buffer_.size();
    buffer_.resize(before + kBlock);
    ssize_t got = 0;
    do {
      got = read(input_, buffer_.data() + before, kBlock);
    } while (got < 0 && errno == EINTR);
    const int error = errno;
    buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    buffer_.reserve(buffer_.size() + JsonMembers::kPadding);
    if (got < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read the input: ", std::strerror(error)));
    }
    at_end_ = got == 0;
    return absl::OkStatus();
  }

  // False at the end, or on an error.
  bool NextRecord(Record& record, absl::Status& status) {
    for (;;) {
      if (begin_ == buffer_.size() && at_end_) return false;
      if (begin_ < buffer_.size() &&
          (format_.json ? FindLine(data(), at_end_, record)
                        : FindCsv(data(), at_end_, record))) {
        break;
      }
      status = Fill();
      if (!status.ok()) return false;
    }
    line_ = next_line_;
    ++next_line_;
    if (!format_.json) {
      next_line_ += static_cast<uint64_t>(absl::c_count(record.bytes, '\n'));
    }
    begin_ += record.bytes.size() + record.end.size();
    return true;
  }

  // False if the output is closed; the end of planbctl says so.
  bool Flush() {
    const bool written =
        std::fwrite(out_.data(), 1, out_.size(), stdout) == out_.size() &&
        std::fflush(stdout) == 0;
    out_.clear();
    return written;
  }

  absl::Status Malformed(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", next_line_, ": ", why));
  }

  // Counts a malformed record, which passes. Errors: with --strict.
  absl::Status Pass(absl::string_view why) {
    std::string text = absl::StrCat("line ", line_, ": ", why);
    if (strict_) return absl::InvalidArgumentError(text);
    if (malformed_++ == 0) first_malformed_ = std::move(text);
    return absl::OkStatus();
  }

  absl::Status ReadHeader(const Record& record) {
    if (record.malformed) {
      return absl::InvalidArgumentError(absl::StrCat("line 1: ", kNotCsv));
    }
    std::vector<std::string> names;
    for (const absl::string_view field : record.fields) {
      names.push_back(Unquoted(field));
    }
    const auto find = [&](const std::string& name, size_t& at) {
      at = static_cast<size_t>(absl::c_find(names, name) - names.begin());
      return at < names.size()
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError(absl::StrCat(
                       "line 1: there is no column \"", Printable(name),
                       "\" among ", Printable(absl::StrJoin(names, ", "))));
    };
    absl::StrAppend(&out_, record.bytes);
    width_ = names.size();
    for (const std::string& column : format_.columns) {
      places_.emplace_back();
      absl::Status status = find(column, places_.back());
      if (!status.ok()) return status;
      for (const std::string& name : format_.NamesFor(column)) {
        size_t at = 0;
        if (find(name, at).ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat("line 1: there is a column \"", name, "\" already"));
        }
        absl::StrAppend(&out_, ",", CsvText(name));
      }
    }
    return choice_.empty() ? absl::OkStatus() : find(choice_, choice_place_);
  }

  absl::Status EnrichCsv(const Record& record) {
    absl::StrAppend(&out_, record.bytes);
    const bool blank = record.bytes.empty() && width_ > 1;
    if (blank) return absl::OkStatus();
    if (record.malformed || record.fields.size() != width_) {
      return Pass(record.malformed
                      ? std::string(kNotCsv)
                      : absl::StrCat(record.fields.size(),
                                     " fields, the header has ", width_));
    }
    texts_.clear();
    for (const size_t place : places_) {
      absl::string_view field = record.fields[place];
      if (absl::ConsumePrefix(&field, "\"")) field.remove_suffix(1);
      texts_.push_back(field);
    }
    const size_t before = out_.size();
    absl::Status status =
        choice_.empty()
            ? Append(tables_.For(""))
            : Append(tables_.For(Unquoted(record.fields[choice_place_])));
    if (!wrong_.empty()) {
      // It has the fields, without values.
      out_.resize(before);
      out_.append(
          format_.columns.size() * format_.NamesFor(format_.columns[0]).size(),
          ',');
      return Pass(wrong_);
    }
    return status;
  }

  absl::Status EnrichJson(const Record& record) {
    const size_t before = out_.size();
    absl::StrAppend(&out_, record.bytes);
    if (record.bytes.find_first_not_of(" \t") == absl::string_view::npos) {
      return absl::OkStatus();
    }
    absl::string_view there;
    const simdjson::error_code error =
        members_.Read(record.bytes, texts_, there);
    if (error != simdjson::SUCCESS) {
      return Pass(absl::StrCat("the line cannot be read as a JSON object: ",
                               simdjson::error_message(error)));
    }
    ++objects_;
    for (size_t i = 0; i < texts_.size() && !absent_.empty(); ++i) {
      if (texts_[i].empty()) continue;
      absent_.erase(i < format_.columns.size() ? format_.columns[i] : choice_);
    }
    if (!there.empty()) {
      return Pass(absl::StrCat("there is a member \"", there, "\" already"));
    }
    if (!choice_.empty() && members_.inexact(choice_place_)) {
      return Pass(absl::StrCat(choice_, ": neither text nor an integer"));
    }
    // It ends with the brace of the object, and blanks.
    const size_t brace = record.bytes.rfind('}');
    out_.resize(before + brace);
    const size_t added = out_.size();
    Table& table = tables_.For(choice_.empty() ? "" : texts_[choice_place_]);
    absl::Status status = Append(table);
    if (!wrong_.empty()) {
      out_.resize(before);
      absl::StrAppend(&out_, record.bytes);
      return Pass(wrong_);
    }
    const size_t open = record.bytes.find('{');
    if (record.bytes.find_first_not_of(" \t\r", open + 1) == brace &&
        out_.size() > added) {
      out_.erase(added, 1);  // the comma
    }
    absl::StrAppend(&out_, record.bytes.substr(brace));
    return status;
  }

  // Appends the fields of texts_, the addresses. Sets wrong_ to what is no
  // address.
  absl::Status Append(Table& table) {
    wrong_.clear();
    for (size_t i = 0; i < format_.columns.size(); ++i) {
      if (texts_[i].empty()) {
        if (!format_.json) out_.append(format_.added(), ',');
        continue;
      }
      const auto address = Address::Parse(texts_[i]);
      if (!address.ok()) {
        wrong_ =
            absl::StrCat(format_.columns[i], ": ", address.status().message());
        return absl::OkStatus();
      }
      absl::Status status = table.Append(i, Unmapped(*address), out_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Format format_;
  const int input_;
  const bool strict_ = absl::GetFlag(FLAGS_strict);
  const std::string choice_ = absl::GetFlag(FLAGS_table_column);
  TableChoice tables_;
  JsonMembers members_;

  // The input from begin_ on is not used yet.
  std::string buffer_;
  size_t begin_ = 0;
  bool at_end_ = false;
  uint64_t line_ = 0, next_line_ = 1;  // of the record, and of the next one
  std::string out_;

  // Of the header: its columns, where the addresses and the choice are. Of
  // JSON: where the choice is in texts_.
  size_t width_ = 0;
  std::vector<size_t> places_;
  size_t choice_place_ = 0;

  // Of JSON: the number of objects, and the names that none of them had so far.
  uint64_t objects_ = 0;
  std::set<std::string> absent_;
  std::vector<absl::string_view> texts_;
  std::string wrong_;
  uint64_t malformed_ = 0;
  std::string first_malformed_;
};

// Errors: INVALID_ARGUMENT.
absl::StatusOr<Format> FormatFromFlags() {
  Format format;
  format.columns =
      absl::StrSplit(absl::GetFlag(FLAGS_columns), ',', absl::SkipEmpty());
  if (format.columns.empty()) {
    return absl::InvalidArgumentError(
        "--columns has to name the columns with addresses");
  }
  for (absl::string_view name :
       absl::StrSplit(absl::GetFlag(FLAGS_add), ',', absl::SkipEmpty())) {
    const auto* const field = absl::c_find_if(
        kFields, [&](const AddedField& each) { return each.name == name; });
    if (name == kNextHopField) {
      format.next_hop = true;
    } else if (name == kLengthField) {
      format.length = true;
    } else if (field != std::end(kFields)) {
      format.fields.push_back(field);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--add: there is no \"", name, "\""));
    }
  }
  std::set<std::string> names;
  for (const std::string& column : format.columns) {
    for (const std::string& name : format.NamesFor(column)) {
      if (!names.insert(name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", name, "\" would be added twice"));
      }
    }
  }
  for (const std::string& column : format.columns) {
    if (names.contains(column)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", column, "\" would be added, and is one of --columns"));
    }
  }
  if (format.added() == 0) {
    return absl::InvalidArgumentError("--add is empty");
  }
  const bool column = !absl::GetFlag(FLAGS_table_column).empty();
  if (column == absl::GetFlag(FLAGS_tables).empty()) {
    return absl::InvalidArgumentError(
        "--table_column and --tables need each other");
  }
  for (absl::string_view pair :
       absl::StrSplit(absl::GetFlag(FLAGS_tables), ',', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    if (equals == absl::string_view::npos || equals == 0 ||
        equals + 1 == pair.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tables: \"", pair, "\" is not VALUE=TABLE"));
    }
    const absl::string_view value = pair.substr(0, equals);
    if (!format.tables.emplace(Canonical(value), pair.substr(equals + 1))
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tables: \"", value, "\" is there twice"));
    }
  }
  return format;
}

ExitCode Run(const Arguments& arguments) {
  auto format = FormatFromFlags();
  if (!format.ok()) return FailUsage(format.status().message());
  const bool is_stdin = arguments.empty() || arguments[0] == "-";
  const int input = is_stdin ? STDIN_FILENO
                             : open(arguments[0].c_str(), O_RDONLY | O_CLOEXEC);
  if (input < 0) {
    return FailUsage(absl::StrCat(arguments[0], ": ", std::strerror(errno)));
  }
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  Enricher enricher(*std::move(format), input);
  const absl::Status status = enricher.Run(*channel);
  if (!is_stdin) close(input);
  if (absl::IsInvalidArgument(status)) return FailUsage(status.message());
  if (!status.ok()) return Fail(status);
  ExitCode code = ExitCode::kOk;
  for (const std::string& name : enricher.absent()) {
    absl::FPrintF(stderr, "planbctl: no record has a value of \"%s\"\n",
                  Printable(name));
    code = ExitCode::kNegative;
  }
  if (enricher.malformed() == 0) return code;
  absl::FPrintF(stderr,
                "planbctl: %d malformed records passed, the first at %s\n",
                enricher.malformed(), Printable(enricher.first_malformed()));
  return ExitCode::kNegative;
}

const RegisteredCommand kEnrichCommand({
    .name = "enrich",
    .arguments = "[FILE | -]",
    .summary = "add next hops to records of CSV or JSON lines",
    .description =
        "Reads CSV with a header, or JSON objects, one a line, and writes each "
        "record as it is, with fields added for each of --columns: "
        "COLUMN_next_hop and so on. Of a group it adds what all members have "
        "in common, and the group's label. JSON gets no member without a "
        "value.\n\nFollows the table, so that lookups are function calls: "
        "millions of records a minute, also while the server restarts. An "
        "IPv4-mapped address, ::ffff:192.0.2.1, is looked up as the IPv4 "
        "address in it. Needs "
        "the right to watch it. What was read is written before planbctl waits "
        "for more.\n\nA malformed record passes: one that is no record, "
        "unchanged; one with text that is no address, without values. Then the "
        "exit code is 1. With --strict it ends planbctl, with its line's "
        "number and exit code 2. So does, always, a record of more than 1 "
        "MiB.\n\nA column that the header has not is an error. A member that "
        "no JSON object has is named at the end, with exit code 1. Of two "
        "members with one name the last counts. A line of JSON is malformed as "
        "well if it is not UTF-8, escapes half a pair of surrogates, has a "
        "number that neither 64 bits nor a double hold, or more than 1023 "
        "levels.",
    .flags = {"columns", "add", "table_column", "tables", "await_complete",
              "strict"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
