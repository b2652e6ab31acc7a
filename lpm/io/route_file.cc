// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_file.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_sink.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb {

RouteFormat DetectRouteFormat(absl::string_view head,
                              const RouteFileOptions& options) {
  if (absl::StartsWith(head, kTableFileMagic)) return RouteFormat::kTableFile;
  if (StartsLikeMrt(head)) return RouteFormat::kMrt;
  if (LooksLikeTextRoutes(head, options)) return RouteFormat::kText;
  return RouteFormat::kUnknown;
}

std::string NameOfOtherFormat(absl::string_view head) {
  struct Format {
    absl::string_view name, start;
    size_t offset = 0;
  };
  static constexpr Format kFormats[] = {
      {"lz4", "\x04\x22\x4d\x18"},
      {"compress (.Z)", "\x1f\x9d"},
      {"a zip archive", "PK\x03\x04"},
      {"a zip archive without files", "PK\x05\x06"},
      {"a 7-Zip archive", "7z\xbc\xaf\x27\x1c"},
      {"a tar archive", "ustar", 257},
      {"UTF-16 text", "\xff\xfe"},
      {"UTF-16 text", "\xfe\xff"},
      {"an SQLite database", "SQLite format 3"},
  };
  for (const Format& format : kFormats) {
    if (head.size() > format.offset &&
        absl::StartsWith(head.substr(format.offset), format.start)) {
      return std::string(format.name);
    }
  }
  absl::string_view text = head;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  text = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(text, "{") || absl::StartsWith(text, "[")) return "JSON";
  if (absl::StartsWith(text, "<")) return "HTML or XML";
  return "";
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
  const std::string other = NameOfOtherFormat(head);
  if (!other.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", other,
        ", which is not read; a text of routes (planbctl help load), "
        "MRT (RFC 6396) and a table file are, plain or "
        "compressed by gzip, bzip2, xz or zstd"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name,
      ": neither a text of routes (planbctl help load) nor MRT "
      "(RFC 6396) nor a table file, plain or compressed; it starts with "
      "\"",
      absl::CHexEscape(head.substr(0, 16)), "\""));
}

absl::Status ReadDetected(absl::string_view name, RouteFormat format,
                          ByteReader& in, const RouteFileOptions& options,
                          RouteOutput& out) {
  switch (format) {
    case RouteFormat::kText:
      return ReadTextRoutes(in, options, out);
    case RouteFormat::kMrt:
      return ReadMrtRoutes(in, options, out);
    case RouteFormat::kTableFile:
      return ReadTableFileRoutes(in, out);
    case RouteFormat::kUnknown:
      break;
  }
  const absl::string_view head = in.Peek(kFormatProbe);
  // The stream failed before its format was known.
  if (head.size() < kMrtHeaderSize && !in.status().ok()) {
    return out.OnEnd({}, in.status(), "");
  }
  return Unrecognized(name, head);
}

// Where and why the first of all records gave no route, as none did.
std::string WhyNone(absl::string_view name, const RouteFileReport& report) {
  const RouteFileProblem& first = report.problems.front();
  const absl::string_view record = first.line > 0 ? "line" : "record";
  std::string why;
  if (report.paths_skipped + report.routes_lost > 0 || report.truncated) {
    why = absl::StrCat("no route could be read: ", ProblemCounts(report));
  } else if (report.malformed == 1) {
    why = absl::StrCat("1 ", record, " is malformed");
  } else {
    why =
        absl::StrCat("all ", report.malformed, " ", record, "s are malformed");
  }
  return absl::StrCat(PlaceIn(name, {first.offset, first.line}), ": ", why,
                      ": ", first.message);
}

// OK if the file gave a route or may be without.
absl::Status CheckSomeRoute(absl::string_view name, RouteFormat format,
                            const RouteFileReport& report, bool allow_empty) {
  if (report.routes > 0) return absl::OkStatus();
  if (report.ignored > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ",
                     report.ignored_by.contains(MrtTypeName(kMrtBgp4mp))
                         ? "BGP4MP updates: try planbctl replay; "
                         : "",
                     "no route: ", ProblemCounts(report)));
  }
  if (!report.problems.empty()) {
    return absl::FailedPreconditionError(WhyNone(name, report));
  }
  if (format == RouteFormat::kMrt) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": no route: an MRT peer index without RIB records"));
  }
  if (allow_empty) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      name, ": no routes in it; --allow_empty takes it for an empty table"));
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
  const RouteFormat format =
      DetectRouteFormat(in.Peek(kFormatProbe).substr(0, kFormatProbe), options);
  absl::Status status = ReadDetected(name, format, in, options, out);
  if (!status.ok()) {
    // A decompressor does not know the name.
    return status == in.status() && absl::IsResourceExhausted(status)
               ? Named(name, status)
               : status;
  }
  const RouteFileReport report = out.report();
  status = CheckSomeRoute(name, format, report, options.allow_empty);
  if (!status.ok()) return status;
  return report;
}

}  // namespace planb
