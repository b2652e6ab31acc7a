// SPDX-License-Identifier: Apache-2.0

// The formats of route files: how they are told apart by content, and the
// readers of text and MRT. route_file.h is the way in.

#ifndef PLANB_LPM_IO_ROUTE_FORMATS_H_
#define PLANB_LPM_IO_ROUTE_FORMATS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {

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

#endif  // PLANB_LPM_IO_ROUTE_FORMATS_H_
