// SPDX-License-Identifier: Apache-2.0

// Reads routing tables from files: text of several forms, MRT table dumps
// (RFC 6396) or a table file (TABLE_FILE.md), each plain or compressed.
// The content decides. What a small compressed file may become is bounded
// (Decompress in byte_source.h). Memory grows with the number of distinct next
// hops, for text also with that of distinct prefixes, 80 to 150 bytes each; for
// MRT see ReadMrtRoutes.

#ifndef PLANB_LPM_IO_ROUTE_FILE_H_
#define PLANB_LPM_IO_ROUTE_FILE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {

// What a path means, encoded as NextHop has it. True if something was cut to
// the bounds of that.
using EncodedPath = std::pair<Attributes, bool>;
using PathEncoder = EncodedPath (*)(const BgpAttributes& path);

struct RouteFileOptions {
  // The first malformed record, or a truncated file, is an error instead of
  // being counted.
  bool strict = false;
  // A file with nothing in it is a table without routes instead of an error.
  bool allow_empty = false;
  // The id of the first next hop of a file that has no ids of its own: MRT, and
  // text with gateways.
  // Several MRT files for one table need ranges that do not overlap: for each
  // further file, add the `next_hops` of the last report. Not used for files
  // that have ids.
  // REQUIRES: not 0.
  NextHopId first_next_hop_id = 1;
  // Text: the next hop of prefixes that stand alone. kNoRoute: such a line is
  // malformed.
  NextHopId next_hop = kNoRoute;
  // CSV: the names of the columns of the prefix, of the next hop (an id or a
  // gateway) and of the interface. The latter two may be left out. Without
  // names CSV is refused; with them each text is CSV.
  std::vector<std::string> csv_columns;
  // MRT: what this says of a path is a part of its next hop, with the AS of the
  // peer for an empty AS path (follow/path_attributes.h). None: the gateway
  // alone makes a next hop.
  PathEncoder path_encoder = nullptr;
};

// Reads the file at `path`, which may be a pipe.
//
// Text: `#` and `;` start a comment; where next hops are gateways, at the start
// of a word that is no name of an interface, since these have them too. A byte
// order mark (UTF-8) is skipped. A last line without a newline is a line. All
// lines have the form of the first one that shows a form and is well-formed in
// it; others are malformed. If there is none, the first one that shows a form
// counts. So a text has ids, which it does not describe, or gateways, which
// become next hops numbered in order of appearance, and never both.
// - "PREFIX NEXTHOP": a prefix that Prefix::Parse accepts, and an id. Prefixes
//   alone take RouteFileOptions::next_hop.
// - "PREFIX via GATEWAY dev INTERFACE", either part alone, and all that
//   `ip route show` and `ip -6 route show` print: an address is a host,
//   "default" is of the gateway's family, else IPv6 if "pref" stands there.
//   Several next hops are a group. blackhole, unreachable, prohibit and throw
//   are next hops with that label. Routes of other tables, sources, types of
//   service, encapsulated, local, broadcast, multicast and dead ones are
//   ignored. Of a prefix the lowest metric counts.
// - `birdc show route` of BIRD 1.6 and 2, also "all" and -v: the selected
//   routes ("*") of the first table with routes of each family. Others are
//   ignored, such as those of VPNs.
// - "ADDRESS LENGTH AS", CAIDA's pfx2as: the AS number is the id. Of several,
//   "1_2" or "1,2", the first counts.
// - CSV with a header, by RouteFileOptions::csv_columns. Rows without any field
//   are skipped.
// A prefix with several next hops is reported, and the last counts.
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
// PERMISSION_DENIED or UNAVAILABLE for the file itself; RESOURCE_EXHAUSTED if
// it takes too much memory to decompress, or becomes too large;
// INVALID_ARGUMENT if its format is not recognized; DATA_LOSS for a malformed
// record or a truncated file with `strict`, and for a damaged table file;
// UNIMPLEMENTED for a table file of a newer version; the errors of the sink.
// Before an error the sink may have received items.
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
// whole file. Text has no control characters, and one of its lines shows a form
// of text, or all are blank or comments, or `options` name columns of CSV. MRT
// needs six bytes, a table file its magic number.
RouteFormat DetectRouteFormat(absl::string_view head,
                              const RouteFileOptions& options = {});

// What a file is that starts with `head` and that this library does not read,
// such as "xz" or "JSON"; empty if that is not known.
std::string NameOfOtherFormat(absl::string_view head);

// True if DetectRouteFormat takes `head` for text unless it is something else.
bool LooksLikeTextRoutes(absl::string_view head,
                         const RouteFileOptions& options);

// A line longer than this, without its comment, is malformed.
inline constexpr size_t kMaxTextLine = 4096;

// Parses a line without its comment and outer blanks. The next hop is a number
// of 1..4294967294 without a sign or leading zeros. Errors: INVALID_ARGUMENT,
// quoting the text and naming its defect.
absl::StatusOr<Route> ParseTextRoute(absl::string_view content);

// Consumes "via GATEWAY" or "dev INTERFACE" and sets that part of `next_hop`.
// `ip` names the gateway's family before it if the prefix has another.
// REQUIRES: words[0] is "via" or "dev". Errors: INVALID_ARGUMENT without a
// value, for a malformed gateway, 0.0.0.0 and ::, for an interface that a table
// cannot have (planb.v1.NextHop), and if `next_hop` has that part already.
absl::Status ConsumeNextHop(absl::Span<const absl::string_view>& words,
                            NextHop& next_hop);

// Reads a text to its end. The line in which the stream is known to be cut is
// dropped, and a route of several lines with it. Errors: those of `in` save
// DATA_LOSS, and those of `out`; INVALID_ARGUMENT for CSV whose header lacks
// `options.csv_columns`, and for CSV of prefixes alone without
// `options.next_hop`; RESOURCE_EXHAUSTED when the ids run out.
absl::Status ReadTextRoutes(ByteReader& in, const RouteFileOptions& options,
                            RouteOutput& out);

// Reads an MRT table dump (RFC 6396 sections 4.2 and 4.3) to its end:
// TABLE_DUMP records, PEER_INDEX_TABLE and the unicast RIB records, also
// RIB_GENERIC and those with additional paths (RFC 8050). Other records are
// ignored. All paths of a prefix compete, in whichever order and records;
// lpm/README.md has the rule. Delivers routes at the end, ordered by prefix;
// without one after an error of a record with `strict`.
//
// A malformed path is skipped and counted; a prefix without any other path is a
// lost route. Peers only label next hops and break ties: a missing peer is not
// an error, and a damaged peer table is ignored and described.
//
// With `path_encoder`, a path that could be the best and whose attributes are
// malformed is skipped as well.
//
// Memory: 40 bytes a route, 80 while that grows, and for each distinct set of
// best paths (one for 20 routes of a real table) 80 bytes and 24 a neighbour
// AS; with `path_encoder`, 150 bytes and the encoding for each distinct one of
// a path that could be the best when it came. Errors: those of `in` save
// DATA_LOSS, and those of `out`; RESOURCE_EXHAUSTED when the ids run out.
absl::Status ReadMrtRoutes(ByteReader& in, const RouteFileOptions& options,
                           RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FILE_H_
