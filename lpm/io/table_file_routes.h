// Routes from a table file (TABLE_FILE.md), among the other route files.

#ifndef PLANB_LPM_IO_TABLE_FILE_ROUTES_H_
#define PLANB_LPM_IO_TABLE_FILE_ROUTES_H_

#include "absl/status/status.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/route_output.h"

namespace planb {

// Reads `in` to its end, and hands on all there is: next hops and groups that
// the file describes, and routes. Nothing is skipped: a table file has all of a
// table. Memory: one block and the ids of next hops and groups.
// Errors: those of TableFileReader, with the name of `out` before them,
// DATA_LOSS also for an id that is both a next hop's and a group's; those of
// `in` and of `out`.
absl::Status ReadTableFileRoutes(ByteReader& in, RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_ROUTES_H_
