// SPDX-License-Identifier: Apache-2.0

// Whole tables, received piece by piece and applied at once, as what differs.

#ifndef PLANB_SERVER_CONTROL_REPLACE_STREAM_H_
#define PLANB_SERVER_CONTROL_REPLACE_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// Each serves one call. Until everything is there and checked, nothing of it
// has an effect. Errors: those of an update; INVALID_ARGUMENT (COMMIT_MISSING,
// ROUTE_INVALID ...), RESOURCE_EXHAUSTED (TABLE_FULL, TOO_MANY_PENDING).
absl::Status ReceiveReplacement(
    ControlContext& context, const grpc::ServerContext& call,
    grpc::ServerReader<v1::ReplaceRoutesRequest>& requests,
    v1::ReplaceRoutesResponse& response);

// Also DATA_LOSS (SNAPSHOT_CORRUPT), INVALID_ARGUMENT (SNAPSHOT_INVALID).
absl::Status ReceiveSnapshot(
    ControlContext& context, const grpc::ServerContext& call,
    grpc::ServerReader<v1::ImportSnapshotRequest>& requests,
    v1::ReplaceRoutesResponse& response);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_REPLACE_STREAM_H_
