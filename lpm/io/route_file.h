// SPDX-License-Identifier: Apache-2.0

// Reads routing tables from files: text ("PREFIX/LENGTH NEXTHOP" on each line),
// MRT table dumps (RFC 6396) or a table file (TABLE_FILE.md), each plain,
// gzipped or bzip2ed. The content decides. Memory grows with the number of
// distinct next hops, not with the file, save for MRT: see ReadMrtRoutes.

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
  // The first malformed record, or a truncated file, is an error instead of
  // being counted.
  bool strict = false;
  // A file with nothing in it is a table without routes instead of an error.
  bool allow_empty = false;
  // The id of the first next hop of an MRT file, which has no ids of its own.
  // Several MRT files for one table need ranges that do not overlap: for each
  // further file, add the `next_hops` of the last report. Not used for text and
  // table files, which have ids.
  // REQUIRES: not 0.
  NextHopId first_next_hop_id = 1;
};

// Reads the file at `path`, which may be a pipe.
//
// Text: each line has one route: the prefix in a form that Prefix::Parse
// accepts, blanks, and the next hop as a decimal id of 1..4294967294. `#` and
// `;` start a comment. A byte order mark (UTF-8) is skipped. A last line
// without a newline is a line. Next hops are not described.
//
// MRT: each prefix gives one route, along the best of its paths in the whole
// file (lpm/README.md). Distinct gateways become next hops, numbered in the
// order of the routes that name them and labelled with the peer of the first
// one, such as "AS64500 peer 2001:db8::1". Link-local gateways are distinct by
// peer, and so are routes without a gateway, "no gateway, AS64500 peer ...".
// TABLE_DUMP and TABLE_DUMP_V2 are read, of IPv4 and IPv6 unicast, also in
// RIB_GENERIC and with additional paths (RFC 8050). Multicast, BGP4MP and other
// records are ignored.
//
// Table file: its next hops, groups and routes, with their ids. Next hops that
// are only named by groups or routes are not described. Any damage is
// DATA_LOSS, with or without `strict`.
//
// A route that is in the file twice reaches the sink twice; the last one
// counts.
//
// A file that gives no route is an error, for a caller that takes it for a
// table withdraws everything: INVALID_ARGUMENT if all its records are of other
// kinds, naming these; FAILED_PRECONDITION if no record could be read, or if
// there is none and not `allow_empty`. Other errors: NOT_FOUND,
// PERMISSION_DENIED or UNAVAILABLE for the file itself; INVALID_ARGUMENT if its
// format is not recognized; DATA_LOSS for a malformed record or a truncated
// file with `strict`, and for a damaged table file; UNIMPLEMENTED for a table
// file of a newer version; the errors of the sink. Before an error the sink may
// have received items.
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

// The part of a file's start that decides its format.
inline constexpr size_t kFormatProbe = 64 << 10;

// The format of a file that starts with `head`: kFormatProbe bytes, or the
// whole file. Text has no control characters, and one of its lines starts like
// a route, or all are blank or comments. MRT needs six bytes, a table file its
// magic number.
RouteFormat DetectRouteFormat(absl::string_view head);

// What a file is that starts with `head` and that this library does not read,
// such as "xz" or "JSON"; empty if that is not known.
std::string NameOfOtherFormat(absl::string_view head);

// True if DetectRouteFormat takes `head` for text unless it is something else.
bool LooksLikeTextRoutes(absl::string_view head);

// A line longer than this, without its comment, is malformed.
inline constexpr size_t kMaxTextLine = 4096;

// Parses a line without its comment and outer blanks. The next hop is a number
// of 1..4294967294 without a sign or leading zeros. Errors: INVALID_ARGUMENT,
// quoting the text and naming its defect.
absl::StatusOr<Route> ParseTextRoute(absl::string_view content);

// Reads a text to its end. Text does not describe next hops, so the output gets
// none. The line in which the stream is known to be cut is dropped. Errors:
// those of `in` save DATA_LOSS, and those of `out`.
absl::Status ReadTextRoutes(ByteReader& in, RouteOutput& out);

// Reads an MRT table dump (RFC 6396 sections 4.2 and 4.3) to its end:
// TABLE_DUMP records, PEER_INDEX_TABLE and the unicast RIB records, also
// RIB_GENERIC and those with additional paths (RFC 8050). Other records are
// ignored. All paths of a prefix compete, in whichever order and records;
// lpm/README.md has the rule. Delivers routes at the end, ordered by prefix;
// without one after an error of a record with `strict`.
//
// A malformed path is skipped and counted; a prefix without any other path is a
// lost route. Peers only label next hops and break ties: a missing peer is not
// an error, and a damaged peer table is ignored and described. Next-hop ids
// start at `first_next_hop_id`.
//
// Memory: 40 bytes a route, 80 while that grows, and for each distinct set of
// best paths (one for 20 routes of a real table) 80 bytes and 20 a neighbour
// AS. Errors: those of `in` save DATA_LOSS, and those of `out`;
// RESOURCE_EXHAUSTED when the ids run out.
absl::Status ReadMrtRoutes(ByteReader& in, NextHopId first_next_hop_id,
                           RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FILE_H_
