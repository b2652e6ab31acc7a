// SPDX-License-Identifier: Apache-2.0

// StreamUpdates: batches of changes, several on the way at once, each answered
// for itself, in order.

#ifndef PLANB_SERVER_CONTROL_UPDATE_STREAM_H_
#define PLANB_SERVER_CONTROL_UPDATE_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// Serves one call to its end, with a second thread that answers while this one
// reads. What is on the way is bounded by the credits it grants.
// Errors: NOT_FOUND (TABLE_NOT_FOUND), those of CheckAck, RESOURCE_EXHAUSTED
// (TOO_MANY_STREAMS, CREDIT_EXCEEDED).
absl::Status ServeUpdates(
    ControlContext& context, grpc::ServerContext& call,
    grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                             v1::StreamUpdatesRequest>& stream);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_UPDATE_STREAM_H_
