// SPDX-License-Identifier: Apache-2.0

// WatchRoutes: a table's changes, generation by generation, as they become
// visible.

#ifndef PLANB_SERVER_CONTROL_ROUTE_WATCH_H_
#define PLANB_SERVER_CONTROL_ROUTE_WATCH_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// Serves one watch to its end. A client that does not read stops here, in the
// write of one message; what it misses meanwhile is kept in the table's history
// or, beyond its bound, not at all, and then the watch ends.
// Errors: NOT_FOUND (TABLE_NOT_FOUND), RESOURCE_EXHAUSTED (TOO_MANY_STREAMS,
// WATCHER_TOO_SLOW), OUT_OF_RANGE (HISTORY_COMPACTED, HISTORY_DIVERGED),
// UNAVAILABLE (DRAINING), CANCELLED.
absl::Status SendChanges(ControlContext& context,
                         const grpc::ServerContext& call,
                         const v1::WatchRoutesRequest& request,
                         grpc::ServerWriter<v1::WatchRoutesResponse>& out);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_ROUTE_WATCH_H_
