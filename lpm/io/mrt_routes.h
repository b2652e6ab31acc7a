// Routes from an MRT TABLE_DUMP_V2 file (RFC 6396 section 4.3), as RIPE RIS and
// RouteViews publish them.

#ifndef PLANB_LPM_IO_MRT_ROUTES_H_
#define PLANB_LPM_IO_MRT_ROUTES_H_

#include "absl/status/status.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/route_output.h"
#include "lpm/prefix.h"

namespace planb {

// Reads `in` to its end: PEER_INDEX_TABLE and the unicast RIB records, those
// with additional paths (RFC 8050) included; other records are ignored. Of the
// paths in a record the one with the shortest AS path is taken, then with the
// lowest origin, then with the lowest peer index, then the first. A malformed
// path is skipped and counted; its record still counts if another path is good.
// Peers name next hops and break ties; one that is missing is no error.
// Next-hop ids start at `first_next_hop_id`.
// Errors: those of `in` save DATA_LOSS, and those of `out`;
// RESOURCE_EXHAUSTED when the ids run out.
absl::Status ReadMrtRoutes(ByteReader& in, NextHopId first_next_hop_id,
                           RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_MRT_ROUTES_H_
