// SPDX-License-Identifier: Apache-2.0

// Reads routing tables from files of any format: plain text
// ("PREFIX/LEN NEXTHOP" a line), MRT TABLE_DUMP_V2 (RFC 6396) or a table file
// (TABLE_FILE.md), each plain, gzipped or bzip2ed, all told apart by content.
// Streams: memory grows with the distinct next hops, not with the file.

#ifndef PLANB_LPM_IO_ROUTE_FILE_H_
#define PLANB_LPM_IO_ROUTE_FILE_H_

#include <memory>
#include <string>

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

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FILE_H_
