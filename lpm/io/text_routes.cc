// SPDX-License-Identifier: Apache-2.0

// Texts of routes: ParseTextRoute, ReadTextRoutes and LooksLikeTextRoutes of
// route_file.h.

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

constexpr absl::string_view kBlanks = " \t";

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

absl::Status Malformed(absl::string_view content, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(content.substr(0, 64)), "\": ", why));
}

constexpr absl::string_view kCommentStarts = "#;";

// A line without its comment and the blanks around it.
absl::string_view TextLineContent(absl::string_view line) {
  return absl::StripAsciiWhitespace(
      line.substr(0, line.find_first_of(kCommentStarts)));
}

// `text` without the byte order mark of UTF-8 that editors write.
absl::string_view WithoutByteOrderMark(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  return text;
}

// The route of a line, or none if it is blank. A comment may be of any length.
absl::StatusOr<std::optional<Route>> ParseLine(const Line& line) {
  if (line.too_long &&
      line.text.find_first_of(kCommentStarts) == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line is longer than ", kMaxTextLine, " bytes"));
  }
  const absl::string_view content = TextLineContent(line.text);
  if (content.empty()) return std::nullopt;
  absl::StatusOr<Route> route = ParseTextRoute(content);
  if (!route.ok()) return route.status();
  return *route;
}

}  // namespace

absl::StatusOr<Route> ParseTextRoute(absl::string_view content) {
  const size_t blank = content.find_first_of(kBlanks);
  if (blank == absl::string_view::npos) {
    return Malformed(content, "is not \"PREFIX/LENGTH NEXTHOP\"");
  }
  absl::StatusOr<Prefix> prefix = Prefix::Parse(content.substr(0, blank));
  if (!prefix.ok()) return prefix.status();
  const absl::string_view digits =
      content.substr(content.find_first_not_of(kBlanks, blank));
  const std::optional<NextHopId> next_hop = ParseNextHopId(digits);
  if (!next_hop.has_value()) {
    return Malformed(digits, "the next hop must be a number of 1..4294967294");
  }
  return Route{*prefix, *next_hop};
}

absl::Status ReadTextRoutes(ByteReader& in, RouteOutput& out) {
  const absl::string_view head = in.Peek(3);
  in.Consume(head.size() - WithoutByteOrderMark(head).size());
  RecordPlace place;
  for (;;) {
    place = {in.offset(), place.line + 1};
    const Line line = NextLine(in);
    const bool last = !line.terminated && !line.too_long;
    // A line in which the stream breaks off is dropped.
    if (last && !in.status().ok()) return out.OnEnd(place, in.status(), "");
    const absl::StatusOr<std::optional<Route>> route = ParseLine(line);
    absl::Status status = absl::OkStatus();
    if (!route.ok()) {
      status = out.OnMalformed(place, route.status().message());
    } else if (route->has_value()) {
      status = out.OnRoute(**route);
    }
    if (last || !status.ok()) return status;
    if (line.too_long && !SkipLine(in))
      return out.OnEnd(place, in.status(), "");
  }
}

namespace {

bool IsText(absl::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) &&
           !absl::ascii_isspace(static_cast<unsigned char>(c));
  });
}

// True if it starts with "ADDRESS/"; "ADDRESS" is enough if the line is cut.
bool StartsLikeRoute(absl::string_view content, bool cut) {
  const absl::string_view word =
      content.substr(0, content.find_first_of(" \t"));
  return word.find_first_not_of("0123456789abcdefABCDEF:./") ==
             absl::string_view::npos &&
         (cut || word.find('/') != absl::string_view::npos);
}

}  // namespace

bool LooksLikeTextRoutes(absl::string_view head) {
  head = WithoutByteOrderMark(head);
  if (!IsText(head)) return false;
  bool says_something = false;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const bool cut = end == absl::string_view::npos;
    const absl::string_view content = TextLineContent(head.substr(0, end));
    if (!content.empty()) {
      if (StartsLikeRoute(content, cut)) return true;
      says_something = true;
    }
    head.remove_prefix(cut ? head.size() : end + 1);
  }
  return !says_something;
}

}  // namespace planb
