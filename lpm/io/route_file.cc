// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_file.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_sink.h"
#include "lpm/io/table_file.h"
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

// A line without its comment and the blanks around it.
absl::string_view TextLineContent(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
}

// The route of a line, or none if it is blank. A comment may be of any length.
absl::StatusOr<std::optional<Route>> ParseLine(const Line& line) {
  if (line.too_long && line.text.find('#') == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line is longer than ", kMaxTextLine, " bytes"));
  }
  const absl::string_view content = TextLineContent(line.text);
  if (content.empty()) return std::nullopt;
  absl::StatusOr<Route> route = ParseTextRoute(content);
  if (!route.ok()) return route.status();
  return *route;
}

// Delivers or reports each line. Thread-compatible.
class TextRoutes {
 public:
  explicit TextRoutes(RouteOutput& out) : out_(out) {}

  absl::Status OnLine(RecordPlace place,
                      const absl::StatusOr<std::optional<Route>>& line) {
    if (!line.ok()) return out_.OnMalformed(place, line.status().message());
    return line->has_value() ? out_.OnRoute(**line) : absl::OkStatus();
  }

  // The text after the last newline, often empty.
  absl::Status OnLastLine(RecordPlace place,
                          const absl::StatusOr<std::optional<Route>>& line,
                          const absl::Status& stream) {
    if (!stream.ok()) return out_.OnEnd(place, stream, "");
    if (!line.ok()) {
      return out_.OnTruncated(place,
                              absl::StrCat("the file ends inside this line: ",
                                           line.status().message()));
    }
    if (!line->has_value()) return absl::OkStatus();
    absl::Status status = out_.OnTruncated(
        place, "the last line has no newline: the file may be cut here");
    if (!status.ok()) return status;
    return out_.OnRoute(**line);
  }

 private:
  RouteOutput& out_;
};

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
  Route route{*prefix, kNoRoute};
  // SimpleAtoi allows signs and blanks; an id has neither.
  if (digits.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(digits, &route.next_hop) || digits[0] == '0' ||
      !IsNextHop(route.next_hop)) {
    return Malformed(digits, "the next hop must be a number of 1..4294967294");
  }
  return route;
}

absl::Status ReadTextRoutes(ByteReader& in, RouteOutput& out) {
  TextRoutes routes(out);
  RecordPlace place;
  for (;;) {
    place = {in.offset(), place.line + 1};
    const Line line = NextLine(in);
    // Parsed before SkipLine, which invalidates the view of the text.
    const absl::StatusOr<std::optional<Route>> parsed = ParseLine(line);
    const bool terminated = line.terminated || (line.too_long && SkipLine(in));
    if (!terminated) return routes.OnLastLine(place, parsed, in.status());
    absl::Status status = routes.OnLine(place, parsed);
    if (!status.ok()) return status;
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

RouteFormat DetectRouteFormat(absl::string_view head) {
  if (absl::StartsWith(head, kTableFileMagic)) return RouteFormat::kTableFile;
  if (StartsLikeMrt(head)) return RouteFormat::kMrt;
  if (!IsText(head)) return RouteFormat::kUnknown;
  bool says_something = false;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const bool cut = end == absl::string_view::npos;
    const absl::string_view content = TextLineContent(head.substr(0, end));
    if (!content.empty()) {
      if (StartsLikeRoute(content, cut)) return RouteFormat::kText;
      says_something = true;
    }
    head.remove_prefix(cut ? head.size() : end + 1);
  }
  return says_something ? RouteFormat::kUnknown : RouteFormat::kText;
}

namespace {

// The contents of a subtype of TABLE_DUMP_V2.
struct Subtype {
  enum Kind { kPeers, kRib, kOther } kind = kOther;
  Family family = Family::kIpv6;  // for kRib
  bool additional_paths = false;  // for kRib: entries have a path identifier
};

Subtype SubtypeOf(uint16_t number) {
  switch (number) {
    case 1:  // PEER_INDEX_TABLE
      return {Subtype::kPeers};
    case 2:  // RIB_IPV4_UNICAST
      return {Subtype::kRib, Family::kIpv4, false};
    case 4:  // RIB_IPV6_UNICAST
      return {Subtype::kRib, Family::kIpv6, false};
    case 8:  // RIB_IPV4_UNICAST_ADDPATH
      return {Subtype::kRib, Family::kIpv4, true};
    case 10:  // RIB_IPV6_UNICAST_ADDPATH
      return {Subtype::kRib, Family::kIpv6, true};
    default:  // multicast, generic, geographic, future ones
      return {Subtype::kOther};
  }
}

// The best of the paths seen so far.
struct Candidate {
  BgpPath path;
  uint16_t peer = 0;

  bool BetterThan(const Candidate& other) const {
    return std::tie(path.as_path_length, path.origin, peer) <
           std::tie(other.path.as_path_length, other.path.origin, other.peer);
  }
};

// Thread-compatible.
class MrtRoutes {
 public:
  MrtRoutes(NextHopId first_next_hop_id, RouteOutput& out)
      : ids_(first_next_hop_id), out_(out) {}

  absl::Status OnRecord(const MrtRecord& record) {
    if (record.type != kMrtTableDumpV2) return Ignore();
    const Subtype subtype = SubtypeOf(record.subtype);
    switch (subtype.kind) {
      case Subtype::kPeers:
        return OnPeerTable(record);
      case Subtype::kRib:
        return OnRib(record, subtype);
      case Subtype::kOther:
        break;
    }
    return Ignore();
  }

 private:
  absl::Status Ignore() {
    out_.OnIgnored();
    return absl::OkStatus();
  }

  absl::Status OnPeerTable(const MrtRecord& record) {
    absl::StatusOr<std::vector<Peer>> peers = ParsePeerTable(record.body);
    if (!peers.ok()) {
      // Later paths do not refer to the old peers.
      peers_.clear();
      return out_.OnMalformed(record.place, peers.status().message());
    }
    peers_ = *std::move(peers);
    return absl::OkStatus();
  }

  absl::Status OnRib(const MrtRecord& record, const Subtype& subtype) {
    absl::StatusOr<RibRecord> rib =
        ParseRibRecord(record.body, subtype.family, subtype.additional_paths);
    if (!rib.ok()) {
      return out_.OnMalformed(record.place, rib.status().message());
    }
    if (rib->entries.empty()) return Ignore();
    return OnPaths(record.place, *rib);
  }

  absl::Status OnPaths(RecordPlace place, const RibRecord& rib) {
    std::optional<Candidate> best;
    for (size_t i = 0; i < rib.entries.size(); ++i) {
      const RibEntry& entry = rib.entries[i];
      absl::StatusOr<BgpPath> path =
          ParseBgpPath(entry.attributes, rib.prefix.family());
      if (!path.ok()) {
        absl::Status status = out_.OnMalformed(
            place, absl::StrCat("entry ", i, " of ", rib.prefix.ToString(),
                                ": ", path.status().message()));
        if (!status.ok()) return status;
        continue;
      }
      const Candidate candidate{*path, entry.peer};
      if (!best || candidate.BetterThan(*best)) best = candidate;
    }
    if (!best) return absl::OkStatus();
    absl::StatusOr<NextHopId> id = IdOf(*best);
    if (!id.ok()) return id.status();
    return out_.OnRoute({rib.prefix, *id});
  }

  // The id of the path's next hop, announcing it if it is new.
  absl::StatusOr<NextHopId> IdOf(const Candidate& candidate) {
    const Address& gateway = candidate.path.next_hop;
    absl::StatusOr<GatewayIds::Id> id = ids_.IdOf(gateway);
    if (!id.ok() || !id->is_new) {
      return id.ok() ? absl::StatusOr<NextHopId>(id->id) : id.status();
    }
    NextHop next_hop;
    next_hop.id = id->id;
    next_hop.gateway = gateway;
    next_hop.label = PeerLabel(candidate.peer);
    absl::Status status = out_.OnNextHop(next_hop);
    if (!status.ok()) return status;
    return next_hop.id;
  }

  // A peer may be missing from the table: GoBGP's own routes have the index of
  // no peer.
  std::string PeerLabel(uint16_t index) const {
    return index < peers_.size() ? peers_[index].Label()
                                 : absl::StrCat("unknown peer ", index);
  }

  // Of the last PEER_INDEX_TABLE; empty before it.
  std::vector<Peer> peers_;
  GatewayIds ids_;
  RouteOutput& out_;
};

}  // namespace

absl::Status ReadMrtRoutes(ByteReader& in, NextHopId first_next_hop_id,
                           RouteOutput& out) {
  MrtReader records(in, out);
  MrtRoutes routes(first_next_hop_id, out);
  for (;;) {
    MrtRecord record;
    absl::StatusOr<bool> more = records.Next(&record);
    if (!more.ok() || !*more) return more.status();
    absl::Status status = routes.OnRecord(record);
    if (!status.ok()) return status;
  }
}

namespace {

absl::Status Named(absl::string_view name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

// Delivers the contents of a table file to a route output. Invariant: `named_`
// has the ids of all delivered next hops and groups, and of the groups'
// members. Thread-compatible.
class HandOn : public TableFileSink {
 public:
  explicit HandOn(RouteOutput& out) : out_(out) {}

  absl::Status OnHeader(const TableFileHeader&) override {
    return absl::OkStatus();
  }

  absl::Status OnNextHop(const NextHop& next_hop) override {
    named_.insert(next_hop.id);
    return Keep(out_.OnNextHop(next_hop));
  }

  absl::Status OnGroup(const NextHopGroup& group) override {
    // Also refuses a group that is a member of an earlier group.
    if (!named_.insert(group.id).second) {
      return Keep(absl::DataLossError(
          absl::StrCat(out_.name(), ": damaged table file: ", group.id,
                       " is the id of a next hop and of a group")));
    }
    for (const NextHopGroup::Member& member : group.members) {
      named_.insert(member.next_hop);
    }
    return Keep(out_.OnGroup(group));
  }

  absl::Status OnRoute(const Route& route) override {
    return Keep(out_.OnRoute(route));
  }

  absl::Status OnEnd(const TableFileCounts&) override {
    return absl::OkStatus();
  }

  // The last error of the output.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status Keep(const absl::Status& status) { return status_ = status; }

  RouteOutput& out_;
  absl::flat_hash_set<NextHopId> named_;
  absl::Status status_;
};

// Reads a table file to its end and delivers its next hops, groups and routes.
// Memory: one block and the ids of next hops and groups.
// Errors: those of TableFileReader, after the name of `out`; DATA_LOSS also if
// an id is both a next hop's and a group's; those of `in` and of `out`.
absl::Status ReadTableFileRoutes(ByteReader& in, RouteOutput& out) {
  HandOn hand_on(out);
  TableFileReader reader(hand_on);
  absl::Status status;
  while (status.ok()) {
    const absl::string_view ahead = in.Peek(1);
    if (ahead.empty()) break;
    status = reader.Push(ahead);
    in.Consume(ahead.size());
  }
  // The stream's own error says more than where it ended.
  if (status.ok() && !in.status().ok()) {
    return absl::IsDataLoss(in.status()) ? Named(out.name(), in.status())
                                         : in.status();
  }
  if (status.ok()) status = reader.Finish();
  if (status.ok() || !hand_on.status().ok()) return status;
  return Named(out.name(), status);
}

absl::Status Unrecognized(absl::string_view name, absl::string_view head) {
  return absl::InvalidArgumentError(absl::StrCat(
      name,
      ": neither a text of routes (\"PREFIX/LENGTH NEXTHOP\" a line) nor MRT "
      "(RFC 6396) nor a table file, plain, gzipped or bzip2ed; it starts with "
      "\"",
      absl::CHexEscape(head.substr(0, 16)), "\""));
}

absl::Status ReadDetected(absl::string_view name, ByteReader& in,
                          const RouteFileOptions& options, RouteOutput& out) {
  const absl::string_view head = in.Peek(kFormatProbe);
  switch (DetectRouteFormat(head.substr(0, kFormatProbe))) {
    case RouteFormat::kText:
      return ReadTextRoutes(in, out);
    case RouteFormat::kMrt:
      return ReadMrtRoutes(in, options.first_next_hop_id, out);
    case RouteFormat::kTableFile:
      return ReadTableFileRoutes(in, out);
    case RouteFormat::kUnknown:
      break;
  }
  // The stream failed before its format was known.
  if (head.size() < kMrtHeaderSize && !in.status().ok()) {
    return out.OnEnd({}, in.status(), "");
  }
  return Unrecognized(name, head);
}

}  // namespace

absl::StatusOr<RouteFileReport> ReadRouteFile(const std::string& path,
                                              const RouteFileOptions& options,
                                              RouteSink& sink) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  return ReadRoutes(path, *std::move(source), options, sink);
}

absl::StatusOr<RouteFileReport> ReadRoutes(absl::string_view name,
                                           std::unique_ptr<ByteSource> source,
                                           const RouteFileOptions& options,
                                           RouteSink& sink) {
  ABSL_RAW_CHECK(options.first_next_hop_id != kNoRoute,
                 "next hop 0 is reserved");
  absl::StatusOr<std::unique_ptr<ByteSource>> plain =
      Decompress(std::move(source));
  if (!plain.ok()) return plain.status();
  ByteReader in(*std::move(plain));
  RouteOutput out(name, options.strict, sink);
  absl::Status status = ReadDetected(name, in, options, out);
  if (!status.ok()) return status;
  return out.report();
}

}  // namespace planb
