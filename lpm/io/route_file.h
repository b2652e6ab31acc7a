// SPDX-License-Identifier: Apache-2.0

// Reads routing tables from files of any format: plain text
// ("PREFIX/LEN NEXTHOP" a line), MRT TABLE_DUMP_V2 (RFC 6396) or a table file
// (TABLE_FILE.md), each plain, gzipped or bzip2ed, all told apart by content.
// Streams: memory grows with the distinct next hops, not with the file.

#ifndef PLANB_LPM_IO_ROUTE_FILE_H_
#define PLANB_LPM_IO_ROUTE_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {

struct RouteFileOptions {
  // Treat the first malformed record, or a truncated file, as an error instead
  // of counting it.
  bool strict = false;
  // The first id given to a next hop of an MRT file, which has no ids of its
  // own. Several MRT files that go into one table need ranges that do not
  // overlap: for the next file add the `next_hops` of the last report.
  // Text and table files name their ids; this changes nothing there.
  // REQUIRES: not 0.
  NextHopId first_next_hop_id = 1;
};

// Reads the file at `path` (which may be a pipe).
//
// Text: one route a line, the prefix in any form that Prefix::Parse takes, the
// next hop a decimal id of 1..4294967294, blanks between; `#` starts a comment.
// Next hops have nothing but their id. A last line without its newline is read,
// and the file reported as truncated.
//
// MRT: one route per prefix of a RIB record, along the path with the shortest
// AS path, then the lowest origin, then the lowest peer index. Distinct gateway
// addresses become next hops, numbered in order of appearance and labelled with
// the peer that first showed them, such as "AS64500 peer 2001:db8::1". Records
// with additional paths (RFC 8050) are read too; multicast, generic, BGP4MP and
// old TABLE_DUMP records are ignored.
//
// Table file: its next hops, groups and routes, ids and all; a next hop that is
// only named by a group or route has nothing but its id. It is read as a whole
// or not at all: with or without `strict`, damage is DATA_LOSS.
//
// A route given twice reaches the sink twice: the last one counts. An empty
// file holds no routes and is fine.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE for the file itself;
// INVALID_ARGUMENT if its format is not recognized; DATA_LOSS for a malformed
// record or a truncated file with `strict`, and for a damaged table file;
// UNIMPLEMENTED for a table file of a newer version; the errors of the sink.
// The sink keeps the items that it was given before the error.
absl::StatusOr<RouteFileReport> ReadRouteFile(const std::string& path,
                                              const RouteFileOptions& options,
                                              RouteSink& sink);

// The same for a stream that is already open; `name` is for messages.
absl::StatusOr<RouteFileReport> ReadRoutes(absl::string_view name,
                                           std::unique_ptr<ByteSource> source,
                                           const RouteFileOptions& options,
                                           RouteSink& sink);

// The steps of ReadRoutes. Tests and the fuzzer call them directly.

enum class RouteFormat { kUnknown, kText, kMrt, kTableFile };

// How much of a file's start is looked at.
inline constexpr size_t kFormatProbe = 64 << 10;

// The format of a file that starts with `head`, which is all of it if shorter
// than kFormatProbe. Text has no control characters, and one of its lines
// starts like a route, or all are blank or comments. MRT is told from six bytes
// on, a table file from its magic number.
RouteFormat DetectRouteFormat(absl::string_view head);

// A line longer than this, its comment not counted, is malformed.
inline constexpr size_t kMaxTextLine = 4096;

// Parses a line of text without its comment and the blanks around it, strictly:
// the next hop is a number of 1..4294967294 without sign or leading zeros.
// Errors: INVALID_ARGUMENT, quoting the text and naming its defect.
absl::StatusOr<Route> ParseTextRoute(absl::string_view content);

// Reads `in`, a text, to its end. Text does not describe next hops, so none is
// handed on.
// A last line without its newline is read but reported as truncated, for it
// may be cut; it is dropped where the stream is known to be cut.
// Errors: those of `in` save DATA_LOSS, and those of `out`.
absl::Status ReadTextRoutes(ByteReader& in, RouteOutput& out);

// Reads `in`, an MRT TABLE_DUMP_V2 file (RFC 6396 section 4.3), to its end:
// PEER_INDEX_TABLE and the unicast RIB records, those with additional paths
// (RFC 8050) included; other records are ignored. Of the paths in a record the
// one with the shortest AS path is taken, then with the lowest origin, then
// with the lowest peer index, then the first. A malformed path is skipped and
// counted; its record still counts if another path is good. Peers name next
// hops and break ties; one that is missing is no error. Next-hop ids start at
// `first_next_hop_id`.
// Errors: those of `in` save DATA_LOSS, and those of `out`; RESOURCE_EXHAUSTED
// when the ids run out.
absl::Status ReadMrtRoutes(ByteReader& in, NextHopId first_next_hop_id,
                           RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FILE_H_
