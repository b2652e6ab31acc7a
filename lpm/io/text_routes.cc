// SPDX-License-Identifier: Apache-2.0

// Texts of routes: ConsumeNextHop, ParseTextRoute, ReadTextRoutes and
// LooksLikeTextRoutes of route_file.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/utf8.h"
#include "lpm/address.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

constexpr absl::string_view kBlanks = " \t";
constexpr absl::string_view kCommentStarts = "#;";

struct Line {
  absl::string_view text;   // its first kMaxTextLine bytes, without newline
  bool too_long = false;    // there was more
  bool terminated = false;  // by a newline
};

// Consumes the next line and describes it, until the next call of `in`.
Line NextLine(ByteReader& in) {
  Line line;
  absl::string_view ahead = in.Peek(kMaxTextLine + 1);
  const size_t end = ahead.substr(0, kMaxTextLine + 1).find('\n');
  if (end != absl::string_view::npos) {
    line.text = ahead.substr(0, end);
    line.terminated = true;
    in.Consume(end + 1);
  } else {
    line.text = ahead.substr(0, kMaxTextLine);
    line.too_long = ahead.size() > kMaxTextLine;
    in.Consume(line.text.size());
  }
  return line;
}

// Consumes the rest of a line; returns true if a newline ended it.
bool SkipLine(ByteReader& in) {
  for (;;) {
    const absl::string_view ahead = in.Peek(1);
    if (ahead.empty()) return false;
    const size_t end = ahead.find('\n');
    if (end != absl::string_view::npos) {
      in.Consume(end + 1);
      return true;
    }
    in.Consume(ahead.size());
  }
}

// Consumes the next newlines; returns how many. A few compressed bytes may be
// millions of blank lines.
uint64_t SkipNewlines(ByteReader& in) {
  for (uint64_t skipped = 0;;) {
    const absl::string_view ahead = in.Peek(1);
    const size_t count = std::min(ahead.find_first_not_of('\n'), ahead.size());
    if (count == 0) return skipped;
    in.Consume(count);
    skipped += count;
  }
}

absl::Status Malformed(absl::string_view content, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(content.substr(0, 64)), "\": ", why));
}

// Where the comment of a line starts, or its end. With `in_words`, where words
// have these characters, as names of interfaces do, it starts after a blank,
// and not after the word that a name follows.
size_t CommentOf(absl::string_view line, bool in_words) {
  size_t at = std::min(line.find_first_of(kCommentStarts), line.size());
  if (!in_words || at == line.size()) return at;
  at = 0;
  for (bool name = false;;) {
    at = std::min(line.find_first_not_of(kBlanks, at), line.size());
    if (at == line.size() ||
        (!name && absl::StrContains(kCommentStarts, line[at]))) {
      return at;
    }
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    const absl::string_view word = line.substr(at, end - at);
    name = !name && (word == "dev" || word == "on");
    at = end;
  }
}

// A line without its comment and the blanks around it.
absl::string_view TextLineContent(absl::string_view line, bool in_words) {
  return absl::StripAsciiWhitespace(line.substr(0, CommentOf(line, in_words)));
}

// `text` without the byte order mark of UTF-8 that editors write.
absl::string_view WithoutByteOrderMark(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  return text;
}

using Words = absl::Span<const absl::string_view>;

std::vector<absl::string_view> WordsOf(absl::string_view content) {
  return absl::StrSplit(content, absl::ByAnyChar(kBlanks), absl::SkipEmpty());
}

bool IsOneOf(Words words, absl::string_view word) {
  return absl::c_linear_search(words, word);
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

absl::StatusOr<NextHopId> ParseId(absl::string_view digits) {
  const std::optional<NextHopId> id = ParseNextHopId(digits);
  if (!id) {
    return Malformed(digits, "the next hop must be a number of 1..4294967294");
  }
  return *id;
}

// How the lines of a text are written.
enum class Form {
  kIds,       // "PREFIX/LENGTH NEXTHOP"
  kGateways,  // as `planbctl announce` takes and `ip route show` prints them
  kBird,      // as `birdc show route` prints them
  kOrigins,   // "ADDRESS LENGTH AS", CAIDA's pfx2as
  kCsv,       // a header, and fields between commas
};

// A group has as many members. More lines than that are not kept, since a few
// compressed bytes may be millions of them; some may be of dead hops.
constexpr size_t kMaxHops = 256;
constexpr size_t kMaxHopLines = 4 * kMaxHops;

// A route to one gateway or several, of one line or more.
struct GatewayRoute {
  struct Hop {
    NextHop object;  // without an id
    uint32_t weight = 1;
    bool dead = false;
  };

  RecordPlace place;
  std::optional<Prefix> prefix;   // none: the default route
  Family family = Family::kIpv4;  // of the default route
  uint32_t metric = 0;
  std::vector<Hop> hops;
  std::string nowhere;  // its kind, if packets go nowhere
  std::string ignored;  // its kind, if it is no route of the table
  bool broken = false;  // a line of it is malformed
  // BIRD: its last line is an attribute, which the next one may continue.
  bool in_attribute = false;
};

// `ip route show`.

// Kinds of routes that drop packets, and of those that the main table does not
// have.
constexpr absl::string_view kNowhere[] = {"blackhole", "unreachable",
                                          "prohibit", "throw"};
constexpr absl::string_view kOtherKinds[] = {"local", "broadcast", "multicast",
                                             "anycast"};
// Words that stand alone, and those before a value. A backslash is an end of
// line under `ip -o`.
constexpr absl::string_view kIpFlags[] = {
    "\\",        "dead",       "linkdown",          "nexthop",
    "notify",    "offload",    "offload_failed",    "onlink",
    "pervasive", "rt_offload", "rt_offload_failed", "rt_trap",
    "trap",      "unresolved"};
constexpr absl::string_view kIpValues[] = {
    "advmss",   "age",           "congctl",
    "cwnd",     "error",         "expires",
    "features", "from",          "hoplimit",
    "initcwnd", "initrwnd",      "metric",
    "mtu",      "nhid",          "pref",
    "proto",    "quickack",      "realm",
    "realms",   "reordering",    "rto_min",
    "rtt",      "rttvar",        "scope",
    "src",      "ssthresh",      "table",
    "tos",      "ttl-propagate", "users",
    "weight",   "window",        "fastopen_no_cookie"};

bool IsIpWord(absl::string_view word) {
  return word == "via" || word == "dev" || word == "encap" ||
         IsOneOf(kIpFlags, word) || IsOneOf(kIpValues, word);
}

// Adds what a value says. Most say nothing of where packets go. Returns false
// if it is malformed.
bool AddIpValue(absl::string_view word, absl::string_view value,
                GatewayRoute& route) {
  if (word == "table") route.ignored = "other-table";
  if (word == "from") route.ignored = "source-specific";
  if (word == "tos") route.ignored = "type-of-service";
  // IPv6 alone has router preferences.
  if (word == "pref") route.family = Family::kIpv6;
  if (word == "metric") {
    return IsNumber(value) && absl::SimpleAtoi(value, &route.metric);
  }
  if (word == "weight") {
    return !route.hops.empty() && IsNumber(value) &&
           absl::SimpleAtoi(value, &route.hops.back().weight) &&
           route.hops.back().weight >= 1 && route.hops.back().weight <= 256;
  }
  return true;
}

absl::Status AddHop(GatewayRoute& route) {
  if (route.hops.size() == kMaxHopLines) {
    return absl::InvalidArgumentError(
        absl::StrCat("a route of more than ", kMaxHopLines, " next hops"));
  }
  route.hops.emplace_back();
  return absl::OkStatus();
}

// Adds what `words` say, which follow a destination or continue its route.
absl::Status AddIpWords(Words words, GatewayRoute& route) {
  while (!words.empty()) {
    const absl::string_view word = words[0];
    if (word == "via" || word == "dev") {
      if (route.hops.empty()) route.hops.emplace_back();
      // `ip` names a family that is not the destination's.
      const bool foreign = words.size() > 1 && words[1] == "inet6";
      NextHop& object = route.hops.back().object;
      absl::Status status = ConsumeNextHop(words, object);
      if (!status.ok()) return status;
      if (word == "via" && !foreign) route.family = object.gateway->family();
      continue;
    }
    words.remove_prefix(1);
    if (word == "encap") {
      // What follows is the tunnel's, and its words mean other things.
      route.ignored = "encapsulated";
      return absl::OkStatus();
    }
    if (word == "nexthop") {
      absl::Status status = AddHop(route);
      if (!status.ok()) return status;
    } else if (word == "dead" && route.hops.empty()) {
      route.ignored = "dead";
    } else if (word == "dead") {
      route.hops.back().dead = true;
    }
    if (IsOneOf(kIpFlags, word)) continue;
    if (IsNumber(word)) {
      return Malformed(word, "an id, in a text whose routes have gateways");
    }
    if (!IsOneOf(kIpValues, word)) {
      return Malformed(word, "is unknown in a route to a gateway");
    }
    if (words.empty() || !AddIpValue(word, words[0], route)) {
      return Malformed(word, "has no value, or a wrong one");
    }
    words.remove_prefix(words[0] == "lock" && words.size() > 1 ? 2 : 1);
  }
  return absl::OkStatus();
}

// Consumes "[KIND] DESTINATION". An address is a host.
absl::Status ConsumeDestination(Words& words, GatewayRoute& route) {
  if (IsOneOf(kNowhere, words[0])) route.nowhere = std::string(words[0]);
  if (IsOneOf(kOtherKinds, words[0])) route.ignored = std::string(words[0]);
  if (!route.nowhere.empty() || !route.ignored.empty() ||
      words[0] == "unicast") {
    words.remove_prefix(1);
  }
  if (words.empty()) return absl::InvalidArgumentError("has no prefix");
  const absl::string_view text = words[0];
  words.remove_prefix(1);
  if (text == "default") return absl::OkStatus();
  absl::StatusOr<Prefix> prefix;
  if (absl::StrContains(text, '/')) {
    prefix = Prefix::Parse(text);
  } else {
    const absl::StatusOr<Address> host = Address::Parse(text);
    if (!host.ok()) return host.status();
    prefix = Prefix::Create(*host, AddressBits(host->family()));
  }
  if (!prefix.ok()) return prefix.status();
  route.prefix = *prefix;
  return absl::OkStatus();
}

// `birdc show route`.

constexpr absl::string_view kBirdKinds[] = {
    "unicast",    "multipath", "blackhole", "unreachable",
    "prohibited", "via",       "dev"};

// Adds "via GATEWAY on INTERFACE" or "dev INTERFACE", and "weight N".
absl::Status AddBirdHop(Words words, GatewayRoute& route) {
  std::vector<absl::string_view> as_of_ip(words.begin(), words.end());
  if (words.size() > 2 && words[2] == "on") as_of_ip[2] = "dev";
  absl::Status status = AddHop(route);
  return status.ok() ? AddIpWords(as_of_ip, route) : status;
}

// True if it starts with "ADDRESS/"; "ADDRESS" is enough if the line is cut.
bool StartsLikeRoute(absl::string_view content, bool cut) {
  const absl::string_view word =
      content.substr(0, content.find_first_of(kBlanks));
  return word.find_first_not_of("0123456789abcdefABCDEF:./") ==
             absl::string_view::npos &&
         (cut || word.find('/') != absl::string_view::npos);
}

// Takes the source of a source-specific route out of the words of its line,
// "PREFIX from SOURCE KIND". False if it has none.
bool ConsumeBirdSource(std::vector<absl::string_view>& words) {
  if (words.size() < 3 || words[1] != "from") return false;
  words.erase(words.begin() + 1, words.begin() + 3);
  return true;
}

// True for a line that starts a route, or another path of the one before.
bool IsBirdRoute(absl::string_view content) {
  const size_t bracket = content.find(" [");
  if (bracket == absl::string_view::npos) return false;
  std::vector<absl::string_view> words = WordsOf(content.substr(0, bracket));
  ConsumeBirdSource(words);
  const size_t kind = StartsLikeRoute(content, false) ? 1 : 0;
  return words.size() > kind && IsOneOf(kBirdKinds, words[kind]);
}

// True for a line that starts a route of something other than an address
// prefix, or another path to it, as in "64500:1 10.0.0.0/8  unicast [b 10:00] *
// (100)" of a VPN. What follows the brackets tells it from an attribute. Flow
// specifications have semicolons, where comments start.
bool IsOtherBirdRoute(absl::string_view content) {
  if (absl::StartsWith(content, "flow4 {") ||
      absl::StartsWith(content, "flow6 {")) {
    return true;
  }
  const size_t bracket = content.find(" [");
  if (bracket == absl::string_view::npos) return false;
  absl::string_view state = content.substr(bracket);
  state.remove_prefix(std::min(state.size(), state.find(']')));
  return absl::StartsWith(state, "] *") || absl::StartsWith(state, "] !") ||
         absl::StartsWith(state, "] (");
}

// Consumes "Table NAME:", leaving the name.
bool ConsumeBirdTable(absl::string_view* content) {
  absl::string_view name = *content;
  if (!absl::ConsumePrefix(&name, "Table ") ||
      !absl::ConsumeSuffix(&name, ":")) {
    return false;
  }
  *content = name;
  return true;
}

// A heading, as in "BIRD 2.0.12 ready.", "Table master4:".
bool IsBirdHeading(absl::string_view content) {
  return (absl::StartsWith(content, "BIRD ") &&
          absl::EndsWith(content, " ready.")) ||
         ConsumeBirdTable(&content);
}

// A line without the code that `birdc -v` puts before some: "1007-". An answer
// of BIRD's socket ends with "0000 ".
absl::string_view WithoutBirdCode(absl::string_view content) {
  if (content == "0000") return "";
  const bool code = content.size() > 4 && IsNumber(content.substr(0, 4)) &&
                    (content[4] == '-' || content[4] == ' ');
  return code ? absl::StripAsciiWhitespace(content.substr(5)) : content;
}

// True for a line that may continue a set, "(64500,1) (64500,2)", or an AS
// path, "64500 {64501 64502}".
bool ContinuesAttribute(absl::string_view content) {
  return absl::StartsWith(content, "(")
             ? absl::StrContains(content, ')')
             : content.find_first_not_of("0123456789 {}") ==
                   absl::string_view::npos;
}

// CSV (RFC 4180). The fields of a row, none if a quote is not closed. A quote
// within a field that does not begin with one is a character as others are.
// Blanks count within quotes alone.
std::optional<std::vector<std::string>> SplitCsv(absl::string_view row) {
  std::vector<std::string> fields(1);
  bool quoted = false;      // here
  bool has_quotes = false;  // this field
  const auto end_field = [&] {
    if (!std::exchange(has_quotes, false)) {
      absl::StripAsciiWhitespace(&fields.back());
    }
  };
  for (size_t i = 0; i < row.size(); ++i) {
    const char c = row[i];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (row.substr(i + 1, 1) == "\"") {
        fields.back() += row[i++];
      } else {
        quoted = false;
      }
    } else if (c == ',') {
      end_field();
      fields.emplace_back();
    } else if (c == '"' && !has_quotes &&
               absl::StripAsciiWhitespace(fields.back()).empty()) {
      quoted = has_quotes = true;
      fields.back().clear();
    } else if (!has_quotes ||
               !absl::ascii_isspace(static_cast<unsigned char>(c))) {
      fields.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  end_field();
  return fields;
}

// "ADDRESS LENGTH AS". Of several origins, "1_2" or "1,2", the first counts.
absl::StatusOr<Route> ParseOrigin(absl::string_view content) {
  const std::vector<absl::string_view> words = WordsOf(content);
  if (words.size() != 3) {
    return Malformed(content, "is not \"ADDRESS LENGTH AS\"");
  }
  const absl::StatusOr<Prefix> prefix =
      Prefix::Parse(absl::StrCat(words[0], "/", words[1]));
  if (!prefix.ok()) return prefix.status();
  absl::StatusOr<NextHopId> first;
  for (const absl::string_view origin :
       absl::StrSplit(words[2], absl::ByAnyChar("_,"))) {
    const absl::StatusOr<NextHopId> id = ParseId(origin);
    if (!id.ok()) return id.status();
    if (!first.ok()) first = id;
  }
  return Route{*prefix, *first};
}

// Delivers or reports each line of a text of one form. Thread-compatible.
class TextRoutes {
 public:
  // `options` and `out` must outlive this.
  TextRoutes(const RouteFileOptions& options, RouteOutput& out)
      : options_(options), out_(out), ids_(options.first_next_hop_id) {}

  // REQUIRES: all lines before were blank or comments.
  void SetForm(Form form) { form_ = form; }

  // Errors: those of the output; INVALID_ARGUMENT for the header of a CSV file.
  absl::Status OnLine(RecordPlace place, const Line& line) {
    if (open_row_.has_value()) return OnOpenRow(line);
    const bool in_words = form_ == Form::kGateways || form_ == Form::kBird;
    absl::string_view content = TextLineContent(line.text, in_words);
    const bool no_comment = CommentOf(line.text, in_words) == line.text.size();
    if (form_ == Form::kCsv && !content.empty()) {
      content = absl::StripAsciiWhitespace(line.text);
    }
    // A comment may be of any length.
    if (line.too_long && (no_comment || form_ == Form::kCsv)) {
      return Skip(place,
                  absl::InvalidArgumentError(absl::StrCat(
                      "the line is longer than ", kMaxTextLine, " bytes")));
    }
    if (content.empty()) return absl::OkStatus();
    switch (form_) {
      case Form::kIds:
        return OnRoute(place, ParseIds(content));
      case Form::kOrigins:
        return OnRoute(place, ParseOrigin(content));
      case Form::kGateways:
        return OnIpLine(place, WordsOf(content));
      case Form::kBird:
        return OnBirdLine(place, WithoutBirdCode(content));
      case Form::kCsv:
        return OnCsvLine(place, content);
    }
    return absl::OkStatus();
  }

  // After the last line of the file.
  absl::Status End() {
    if (!open_row_.has_value()) return Finish();
    return Skip(open_row_->place,
                Malformed(open_row_->text, "a quote is not closed"));
  }

 private:
  // No line continues the last route.
  absl::Status Finish() {
    if (!route_.has_value()) return absl::OkStatus();
    return Deliver(*std::exchange(route_, std::nullopt));
  }

  // The best route of a prefix.
  struct Best {
    NextHopId next_hop = kNoRoute;
    uint32_t metric = 0;
  };

  // Reports a malformed line, which no line continues.
  absl::Status Skip(RecordPlace place, const absl::Status& why) {
    absl::Status status = Finish();
    if (!status.ok()) return status;
    route_.emplace().broken = true;
    return out_.OnMalformed(place, why.message());
  }

  // Reports a malformed line of route_.
  absl::Status Break(RecordPlace place, const absl::Status& why) {
    route_->broken = true;
    return out_.OnMalformed(place, why.message());
  }

  absl::StatusOr<Route> ParseIds(absl::string_view content) const {
    if (options_.next_hop == kNoRoute ||
        content.find_first_of(kBlanks) != absl::string_view::npos) {
      return ParseTextRoute(content);
    }
    const absl::StatusOr<Prefix> prefix = Prefix::Parse(content);
    if (!prefix.ok()) return prefix.status();
    return Route{*prefix, options_.next_hop};
  }

  absl::Status OnIpLine(RecordPlace place, Words words) {
    if (words[0] == "nexthop") {
      if (!route_.has_value()) {
        return Skip(place, Malformed("nexthop", "continues no route"));
      }
      if (route_->broken) return absl::OkStatus();
      const absl::Status status = AddIpWords(words, *route_);
      return status.ok() ? status : Break(place, status);
    }
    GatewayRoute route{.place = place};
    absl::Status status = ConsumeDestination(words, route);
    if (status.ok()) status = AddIpWords(words, route);
    const bool whole = !route.hops.empty() || !route.nowhere.empty();
    const bool malformed = !status.ok();
    status = Start(std::move(route), status);
    return status.ok() && whole && !malformed ? Finish() : status;
  }

  absl::Status OnBirdLine(RecordPlace place, absl::string_view content) {
    if (content.empty() || content == "Access restricted") {
      return absl::OkStatus();
    }
    if (IsBirdHeading(content)) {
      if (ConsumeBirdTable(&content)) {
        table_ = std::string(content);
        // BIRD's own counts also if it is empty: what follows are VRFs.
        if (!table_v4_ && (table_ == "master4" || table_ == "master")) {
          table_v4_ = table_;
        }
        if (!table_v6_ && (table_ == "master6" || table_ == "master")) {
          table_v6_ = table_;
        }
      }
      prefix_.reset();
      other_ = false;
      return Finish();
    }
    std::vector<absl::string_view> words =
        WordsOf(content.substr(0, content.find(" [")));
    const bool names = StartsLikeRoute(content, false);
    const bool is_route = IsBirdRoute(content);
    const bool other = !names && !is_route && IsOtherBirdRoute(content);
    if (!names && !is_route && !other) {
      return OnBirdDetail(place, content, words);
    }
    GatewayRoute route{.place = place};
    const bool sourced = names && ConsumeBirdSource(words);
    other_ = other || sourced || (other_ && !names);
    if (other_) {
      prefix_.reset();
      route.ignored = sourced ? "source-specific" : "other-kind";
      return Start(std::move(route), absl::OkStatus());
    }
    if (names) {
      const absl::StatusOr<Prefix> prefix = Prefix::Parse(words[0]);
      prefix_.reset();
      if (!prefix.ok()) return Skip(place, prefix.status());
      prefix_ = *prefix;
      words.erase(words.begin());
    }
    if (!prefix_.has_value() || !is_route) {
      return Skip(place, Malformed(content, "is no route of BIRD"));
    }
    route.prefix = prefix_;
    absl::string_view state = content.substr(content.find(" ["));
    state.remove_prefix(std::min(state.size(), state.find(']')));
    // "!" if the route could not be exported.
    if (!absl::StartsWith(state, "] *") && !absl::StartsWith(state, "] !")) {
      route.ignored = "unselected";
    }
    // Others are VRFs, which may have the same prefixes.
    std::optional<std::string>& table =
        prefix_->family() == Family::kIpv6 ? table_v6_ : table_v4_;
    if (!table.has_value()) table = table_;
    if (*table != table_) route.ignored = "other-table";
    absl::Status status;
    if (words[0] == "via" || words[0] == "dev") {
      status = AddBirdHop(words, route);
    } else if (words[0] == "prohibited") {
      route.nowhere = "prohibit";
    } else if (words[0] != "unicast" && words[0] != "multipath") {
      route.nowhere = std::string(words[0]);
    }
    return Start(std::move(route), status);
  }

  // A next hop of route_, or an attribute under `show route all`.
  absl::Status OnBirdDetail(RecordPlace place, absl::string_view content,
                            Words words) {
    if (!route_.has_value() || absl::StrContains(words[0], '/')) {
      return Skip(place, Malformed(content, "is no route of BIRD"));
    }
    if (route_->broken || other_) return absl::OkStatus();
    if (words[0] == "via" || words[0] == "dev") {
      route_->in_attribute = false;
      const absl::Status status = AddBirdHop(words, *route_);
      return status.ok() ? status : Break(place, status);
    }
    if (absl::StrContains(content, ':')) {
      route_->in_attribute = true;
      return absl::OkStatus();
    }
    if (route_->in_attribute && ContinuesAttribute(content)) {
      return absl::OkStatus();
    }
    return Break(place, Malformed(content, "is no attribute of BIRD"));
  }

  absl::Status OnCsvLine(RecordPlace place, absl::string_view content) {
    const auto fields = SplitCsv(content);
    if (columns_.empty()) return OnHeader(content, fields);
    if (!fields.has_value()) {
      open_row_ = OpenRow{place, std::string(content)};
      return absl::OkStatus();
    }
    if (absl::c_all_of(*fields, [](const std::string& field) {
          return absl::StripAsciiWhitespace(field).empty();
        })) {
      return absl::OkStatus();
    }
    if (fields->size() != width_) {
      return Skip(place,
                  Malformed(content, "has other fields than the header"));
    }
    const auto field = [&](size_t i) -> absl::string_view {
      if (i >= columns_.size()) return "";
      return (*fields)[columns_[i]];
    };
    const absl::StatusOr<Prefix> prefix =
        Prefix::Parse(absl::StripAsciiWhitespace(field(0)));
    if (!prefix.ok()) return Skip(place, prefix.status());
    const absl::string_view next_hop = absl::StripAsciiWhitespace(field(1));
    const absl::string_view interface = field(2);
    const bool has_id =
        interface.empty() && (next_hop.empty() || IsNumber(next_hop));
    Route of_id{*prefix, options_.next_hop};
    GatewayRoute of_gateway{.place = place, .prefix = *prefix};
    absl::Status status;
    if (has_id) {
      if (!next_hop.empty() || of_id.next_hop == kNoRoute) {
        const absl::StatusOr<NextHopId> id = ParseId(next_hop);
        status = id.status();
        of_id.next_hop = id.value_or(kNoRoute);
      }
    } else {
      if (!next_hop.empty()) {
        status = AddIpWords({"via", next_hop}, of_gateway);
      }
      if (status.ok() && !interface.empty()) {
        status = AddIpWords({"dev", interface}, of_gateway);
      }
    }
    if (!status.ok()) return Skip(place, status);
    // The first row that is well-formed decides.
    if (std::exchange(has_ids_, has_ids_.value_or(has_id)) == !has_id) {
      return Skip(place, Malformed(content,
                                   "some rows have gateways, others "
                                   "have ids"));
    }
    return has_id ? OnRoute(place, of_id)
                  : Start(std::move(of_gateway), absl::OkStatus());
  }

  // A further line of a row whose quote is open.
  absl::Status OnOpenRow(const Line& line) {
    OpenRow row = *std::exchange(open_row_, std::nullopt);
    if (row.text.size() + line.text.size() >= kMaxTextLine) {
      return Skip(row.place,
                  Malformed(row.text, absl::StrCat("a quote is not closed "
                                                   "within ",
                                                   kMaxTextLine, " bytes")));
    }
    absl::StrAppend(&row.text, "\n", line.text);
    if (!absl::StrContains(line.text, '"')) {
      open_row_ = std::move(row);
      return absl::OkStatus();
    }
    return OnCsvLine(row.place, row.text);
  }

  // Finds the columns. Errors: INVALID_ARGUMENT, naming those that there are.
  absl::Status OnHeader(absl::string_view content,
                        const std::optional<std::vector<std::string>>& names) {
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat(out_.name(), ": ", why, " \"",
                       absl::CHexEscape(content.substr(0, 256)), "\""));
    };
    if (options_.csv_columns.empty() || options_.csv_columns.size() > 3) {
      return refuse(
          "CSV: give --csv_columns=PREFIX_COLUMN,NEXT_HOP_COLUMN"
          "[,INTERFACE_COLUMN], names of its header; its first line is");
    }
    if (options_.csv_columns.size() == 1 && options_.next_hop == kNoRoute) {
      return refuse(
          "a column of prefixes alone: give --next_hop; the header is");
    }
    if (!names.has_value()) {
      return refuse("a quote is not closed in the header");
    }
    for (const std::string& name : options_.csv_columns) {
      const auto at = absl::c_find(*names, name);
      if (at == names->end()) {
        return refuse(absl::StrCat("no column \"", absl::CHexEscape(name),
                                   "\" in the header"));
      }
      columns_.push_back(static_cast<size_t>(at - names->begin()));
    }
    width_ = names->size();
    return absl::OkStatus();
  }

  // A route; its first line is well-formed if `status` is OK. It is delivered
  // before the next one.
  absl::Status Start(GatewayRoute route, const absl::Status& status) {
    if (!status.ok()) return Skip(route.place, status);
    absl::Status finished = Finish();
    if (!finished.ok()) return finished;
    route_ = std::move(route);
    return absl::OkStatus();
  }

  absl::Status Deliver(GatewayRoute route) {
    if (route.broken) return absl::OkStatus();
    if (!route.nowhere.empty()) {
      route.hops.assign(1, {.object = {.label = route.nowhere}});
    }
    const size_t hops = route.hops.size();
    std::erase_if(route.hops, [](const auto& hop) { return hop.dead; });
    if (route.ignored.empty() && route.hops.size() < hops &&
        route.hops.empty()) {
      route.ignored = "dead";
    }
    const Prefix prefix = route.prefix.value_or(
        Prefix::Truncate(Address::FromBits(route.family, 0), 0));
    const auto best = best_.find(prefix);
    if (route.ignored.empty() && best != best_.end() &&
        best->second.metric < route.metric) {
      route.ignored = "higher-metric";
    }
    if (!route.ignored.empty()) {
      out_.OnIgnored(absl::StrCat(route.ignored, " route"));
      return absl::OkStatus();
    }
    const bool whole = absl::c_all_of(
        route.hops, [](const auto& hop) { return hop.object != NextHop(); });
    if (!whole || route.hops.empty() || route.hops.size() > kMaxHops) {
      return out_.OnMalformed(
          route.place,
          absl::StrCat(prefix.ToString(), " has ",
                       route.hops.size() > kMaxHops ? "too many" : "no",
                       " next hops"));
    }
    const absl::StatusOr<NextHopId> id = IdOf(route.hops);
    if (!id.ok()) return id.status();
    return OnRoute(route.place, Route{prefix, *id}, route.metric);
  }

  // The id of a next hop, or of a group of several. Describes what is new.
  absl::StatusOr<NextHopId> IdOf(const std::vector<GatewayRoute::Hop>& hops) {
    std::map<NextHopId, uint32_t> weights;
    for (const GatewayRoute::Hop& hop : hops) {
      NextHop meaning = hop.object;
      meaning.label.clear();
      const absl::StatusOr<NextHopId> id = ids_.IdOf(
          std::move(meaning), [&] { return hop.object.label; },
          [&](const NextHop& next_hop) { return out_.OnNextHop(next_hop); });
      if (!id.ok()) return id.status();
      weights[*id] += hop.weight;
    }
    if (weights.size() == 1) return weights.begin()->first;
    NextHopGroup group;
    for (const auto& [id, weight] : weights) {
      group.members.push_back({id, weight});
    }
    return ids_.IdOf(std::move(group), [&](const NextHopGroup& announced) {
      return out_.OnGroup(announced);
    });
  }

  // Delivers the route of a line, or reports the line.
  absl::Status OnRoute(RecordPlace place, const absl::StatusOr<Route>& route,
                       uint32_t metric = 0) {
    if (!route.ok()) return Skip(place, route.status());
    const auto [at, is_new] =
        best_.try_emplace(route->prefix, Best{route->next_hop, metric});
    if (!is_new && at->second.metric == metric &&
        at->second.next_hop != route->next_hop) {
      out_.OnRepeated(place, route->prefix);
    }
    at->second = {route->next_hop, metric};
    return out_.OnRoute(*route);
  }

  Form form_ = Form::kIds;
  const RouteFileOptions& options_;
  RouteOutput& out_;
  NextHopIds ids_;
  absl::flat_hash_map<Prefix, Best> best_;
  // The route that further lines may continue.
  std::optional<GatewayRoute> route_;
  // BIRD: the prefix of the lines without one, unless that is of another kind;
  // the table of the lines, and the one that counts of either family: BIRD's
  // own, else the first with routes.
  std::optional<Prefix> prefix_;
  bool other_ = false;
  std::string table_;
  std::optional<std::string> table_v4_, table_v6_;
  // CSV: where the columns of the options are, the number of all, and whether
  // rows have ids, as soon as one tells.
  std::vector<size_t> columns_;
  size_t width_ = 0;
  std::optional<bool> has_ids_;
  // CSV: the lines of a row whose quote is open.
  struct OpenRow {
    RecordPlace place;
    std::string text;
  };
  std::optional<OpenRow> open_row_;
};

// The form that a line shows; none if it shows none. `rest` follows it.
std::optional<Form> FormOfLine(absl::string_view content, bool cut,
                               absl::string_view rest) {
  const absl::string_view of_bird = WithoutBirdCode(content);
  if (IsBirdHeading(of_bird) || IsBirdRoute(of_bird)) return Form::kBird;
  std::vector<absl::string_view> words = WordsOf(content);
  const bool kind = words.size() > 1 &&
                    (IsOneOf(kNowhere, words[0]) ||
                     IsOneOf(kOtherKinds, words[0]) || words[0] == "unicast");
  const absl::string_view to = words[kind ? 1 : 0];
  const bool addressed = to == "default" || StartsLikeRoute(to, true);
  if (addressed && (kind || (words.size() > 1 && IsIpWord(words[1])) ||
                    (words.size() == 1 &&
                     absl::StartsWith(absl::StripLeadingAsciiWhitespace(rest),
                                      "nexthop ")))) {
    return Form::kGateways;
  }
  if (addressed && words.size() == 3 && IsNumber(words[1]) &&
      absl::ascii_isdigit(static_cast<unsigned char>(words[2][0])) &&
      !absl::StrContains(to, '/')) {
    return Form::kOrigins;
  }
  if (StartsLikeRoute(content, cut)) return Form::kIds;
  return std::nullopt;
}

// True if one of several fields of `row` is a prefix.
bool HasPrefixField(absl::string_view row) {
  const auto fields = SplitCsv(row);
  return fields.has_value() && fields->size() > 1 &&
         absl::c_any_of(*fields, [](const std::string& field) {
           return StartsLikeRoute(field, false) && WordsOf(field).size() == 1;
         });
}

// True if `content` may be a row, or a header with a row after it. JSON has
// commas too.
bool IsCsv(absl::string_view content, absl::string_view rest) {
  return absl::StrContains(content, ',') &&
         !absl::StrContains("[{<", content.substr(0, 1)) &&
         (HasPrefixField(content) ||
          HasPrefixField(rest.substr(0, rest.find('\n'))));
}

// True if a text of `form` may have `line`.
bool IsWellFormed(Form form, absl::string_view line,
                  const RouteFileOptions& options) {
  class : public RouteSink {
    absl::Status OnNextHop(const NextHop&) override { return absl::OkStatus(); }
    absl::Status OnRoute(const Route&) override { return absl::OkStatus(); }
  } nothing;
  RouteOutput out("", /*strict=*/true, nothing);
  TextRoutes routes(options, out);
  routes.SetForm(form);
  return routes
      .OnLine({}, {.text = line.substr(0, kMaxTextLine),
                   .too_long = line.size() > kMaxTextLine})
      .ok();
}

// The form of a text that starts with `head`: that of the first line that shows
// one and is well-formed in it, else of the first that shows one. Without any,
// `*says_something` tells whether there are lines.
std::optional<Form> FormOf(absl::string_view head,
                           const RouteFileOptions& options,
                           bool* says_something) {
  *says_something = false;
  if (!options.csv_columns.empty()) return Form::kCsv;
  head = WithoutByteOrderMark(head);
  std::optional<Form> first;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const bool cut = end == absl::string_view::npos;
    const absl::string_view line = head.substr(0, end);
    const absl::string_view content = TextLineContent(line, false);
    head.remove_prefix(cut ? head.size() : end + 1);
    if (content.empty()) continue;
    if (!*says_something && IsCsv(content, head)) return Form::kCsv;
    *says_something = true;
    const std::optional<Form> form = FormOfLine(content, cut, head);
    if (form.has_value() && IsWellFormed(*form, line, options)) return form;
    if (!first.has_value()) first = form;
  }
  return first;
}

bool IsText(absl::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) &&
           !absl::ascii_isspace(static_cast<unsigned char>(c));
  });
}

}  // namespace

absl::Status ConsumeNextHop(absl::Span<const absl::string_view>& words,
                            NextHop& next_hop) {
  const absl::string_view word = words[0];
  words.remove_prefix(1);
  if (word == "via" && words.size() > 1 &&
      (words[0] == "inet" || words[0] == "inet6")) {
    words.remove_prefix(1);
  }
  if (words.empty()) return Malformed(word, "has no value");
  const absl::string_view value = words[0];
  words.remove_prefix(1);
  if (word == "via" ? next_hop.gateway.has_value()
                    : !next_hop.interface.empty()) {
    return Malformed(word, "is there twice");
  }
  if (word == "dev") {
    if (value.size() > NextHop::kMaxInterface ||
        FirstUnprintable(value) != absl::string_view::npos) {
      return Malformed(
          value,
          absl::StrCat("an interface has at most ", NextHop::kMaxInterface,
                       " bytes of UTF-8 without control characters"));
    }
    next_hop.interface = std::string(value);
    return absl::OkStatus();
  }
  const absl::StatusOr<Address> gateway = Address::Parse(value);
  if (!gateway.ok()) return gateway.status();
  if (gateway->bits() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(gateway->ToString(), " is no gateway"));
  }
  next_hop.gateway = *gateway;
  return absl::OkStatus();
}

absl::StatusOr<Route> ParseTextRoute(absl::string_view content) {
  const size_t blank = content.find_first_of(kBlanks);
  if (blank == absl::string_view::npos) {
    return Malformed(content,
                     "is not \"PREFIX/LENGTH NEXTHOP\"; prefixes alone take "
                     "--next_hop");
  }
  absl::StatusOr<Prefix> prefix = Prefix::Parse(content.substr(0, blank));
  if (!prefix.ok()) return prefix.status();
  const absl::string_view next_hop =
      content.substr(content.find_first_not_of(kBlanks, blank));
  if (absl::StartsWith(next_hop, "via ") ||
      absl::StartsWith(next_hop, "dev ")) {
    return Malformed(next_hop, "a gateway, in a text whose routes have ids");
  }
  const absl::StatusOr<NextHopId> id = ParseId(next_hop);
  if (!id.ok()) return id.status();
  return Route{*prefix, *id};
}

absl::Status ReadTextRoutes(ByteReader& in, const RouteFileOptions& options,
                            RouteOutput& out) {
  if (options.next_hop == kUndecided) {
    return Malformed(absl::StrCat(options.next_hop), "is no next hop");
  }
  const absl::string_view start = in.Peek(3);
  in.Consume(start.size() - WithoutByteOrderMark(start).size());
  TextRoutes routes(options, out);
  bool has_form = false;
  RecordPlace place;
  for (;;) {
    place.line += SkipNewlines(in);
    place = {in.offset(), place.line + 1};
    if (!has_form) {
      const absl::string_view head =
          in.Peek(kFormatProbe).substr(0, kFormatProbe);
      has_form =
          !TextLineContent(head.substr(0, head.find('\n')), false).empty();
      bool says_something = false;
      if (has_form) {
        routes.SetForm(
            FormOf(head, options, &says_something).value_or(Form::kIds));
      }
    }
    const Line line = NextLine(in);
    const bool last = !line.terminated && !line.too_long;
    // What the stream breaks off in is dropped.
    if (last && !in.status().ok()) return out.OnEnd(place, in.status(), "");
    absl::Status status = routes.OnLine(place, line);
    if (!status.ok()) return status;
    if (last) return routes.End();
    if (line.too_long && !SkipLine(in)) {
      if (!in.status().ok()) return out.OnEnd(place, in.status(), "");
      return routes.End();
    }
  }
}

bool LooksLikeTextRoutes(absl::string_view head,
                         const RouteFileOptions& options) {
  bool says_something = false;
  return IsText(WithoutByteOrderMark(head)) &&
         (FormOf(head, options, &says_something).has_value() ||
          !says_something);
}

}  // namespace planb
