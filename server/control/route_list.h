// SPDX-License-Identifier: Apache-2.0

// Lists: all of one generation, however long its reader takes. What is shown is
// pinned, one chunk at a time is in memory.

#ifndef PLANB_SERVER_CONTROL_ROUTE_LIST_H_
#define PLANB_SERVER_CONTROL_ROUTE_LIST_H_

#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// Each answers one call. Errors: NOT_FOUND (TABLE_NOT_FOUND),
// RESOURCE_EXHAUSTED (TOO_MANY_STREAMS), CANCELLED; of SendRoutes also
// INVALID_ARGUMENT (MATCH_INVALID, PREFIX_INVALID).
absl::Status SendRoutes(ControlContext& context,
                        const v1::ListRoutesRequest& request,
                        grpc::ServerWriter<v1::ListRoutesResponse>& out);
absl::Status SendNextHops(ControlContext& context,
                          const v1::ListNextHopsRequest& request,
                          grpc::ServerWriter<v1::ListNextHopsResponse>& out);
absl::Status SendSnapshot(ControlContext& context,
                          const v1::ExportSnapshotRequest& request,
                          grpc::ServerWriter<v1::ExportSnapshotResponse>& out);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_ROUTE_LIST_H_
