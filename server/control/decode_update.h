// SPDX-License-Identifier: Apache-2.0

// From the messages that change a table to what the table understands. All
// validation of what a caller sent, field by field, is here; what depends on
// the table is the RIB's.

#ifndef PLANB_SERVER_CONTROL_DECODE_UPDATE_H_
#define PLANB_SERVER_CONTROL_DECODE_UPDATE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"
#include "server/table/update.h"

namespace planb::server {

// Each decodes a whole request, at most `max_entries` in each of its lists.
// Errors: INVALID_ARGUMENT with the paths of the fields at fault,
// RESOURCE_EXHAUSTED (BATCH_TOO_LARGE).
absl::StatusOr<UpdateBatch> DecodeUpdate(const v1::UpdateRoutesRequest& request,
                                         size_t max_entries);
absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::UpdateNextHopsRequest& request, size_t max_entries);
// Without the writer epoch, which is the stream's.
absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::StreamUpdatesRequest& request, size_t max_entries);

// What each asks for, refused; whether or not it can be decoded.
OperationCounts RefusedOperations(const v1::UpdateRoutesRequest& request);
OperationCounts RefusedOperations(const v1::UpdateNextHopsRequest& request);
OperationCounts RefusedOperations(const v1::StreamUpdatesRequest& request);

// Appends what one message of a replacement brings to `batch`. Errors:
// INVALID_ARGUMENT with paths into this message.
absl::Status AppendReplacement(const v1::ReplaceRoutesRequest& request,
                               UpdateBatch& batch);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_DECODE_UPDATE_H_
