// SPDX-License-Identifier: Apache-2.0

// Converts the messages that change a table into batches of updates. All checks
// of a message alone are here. The RIB makes the checks that depend on the
// table.

#ifndef PLANB_SERVER_CONTROL_DECODE_UPDATE_H_
#define PLANB_SERVER_CONTROL_DECODE_UPDATE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"
#include "proto/wire/packed_changes.h"
#include "server/table/update.h"

namespace planb::server {

// Each decodes a whole request, with at most `max_entries` in each of its
// lists. Errors: INVALID_ARGUMENT with the paths of the fields at fault,
// RESOURCE_EXHAUSTED (BATCH_TOO_LARGE).
absl::StatusOr<UpdateBatch> DecodeUpdate(const v1::UpdateRoutesRequest& request,
                                         size_t max_entries);
absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::UpdateNextHopsRequest& request, size_t max_entries);
// Does not set the writer epoch: the first message of the stream has it.
absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::StreamUpdatesRequest& request, size_t max_entries);

// Bytes that a byte of packed changes takes in the decoded batch, at most.
inline constexpr size_t kPackedBytes =
    wire::PackedChanges::EntryBytes(wire::PackedChanges::kV4Bytes);
inline constexpr size_t kUnpackedBytes =
    (sizeof(RouteChange) + kPackedBytes - 1) / kPackedBytes;

// Counts the operations that a request asks for as refused. The request need
// not be valid.
OperationCounts RefusedOperations(const v1::UpdateRoutesRequest& request);
OperationCounts RefusedOperations(const v1::UpdateNextHopsRequest& request);
OperationCounts RefusedOperations(const v1::StreamUpdatesRequest& request);

// Decodes what the first message of a replacement alone has: the conditions and
// the request id. Errors: INVALID_ARGUMENT (REQUEST_ID_INVALID).
absl::Status DecodeConditions(const v1::ReplaceRoutesRequest& first,
                              UpdateBatch& batch);
absl::Status DecodeConditions(const v1::ImportSnapshotRequest& first,
                              UpdateBatch& batch);

// UpdateBatch::fingerprint of a replacement. It depends neither on the order of
// its entries nor on the messages that they came in. O(entries).
uint64_t ReplacementFingerprint(const UpdateBatch& batch);

// Appends the content of one message of a replacement to `batch`. Errors:
// INVALID_ARGUMENT with paths into this message.
absl::Status AppendReplacement(const v1::ReplaceRoutesRequest& request,
                               UpdateBatch& batch);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_DECODE_UPDATE_H_
