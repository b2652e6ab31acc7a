// SPDX-License-Identifier: Apache-2.0

// How many changes of routes of each kind came to what, for metrics.

#ifndef PLANB_SERVER_TABLE_OPERATION_COUNTS_H_
#define PLANB_SERVER_TABLE_OPERATION_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/table/update.h"

namespace planb::server {

// A plain value.
struct OperationCounts {
  // Strict deletes are deletes. A replacement of everything upserts the routes
  // that it has and deletes the others.
  enum Op { kUpsert, kInsert, kReplace, kDelete };
  static constexpr size_t kOps = 4;
  // Unchanged: the route was so already, or not there to be deleted. A batch is
  // refused as a whole.
  enum Result { kChanged, kUnchanged, kRefused };
  static constexpr size_t kResults = 3;

  std::array<std::array<uint64_t, kResults>, kOps> counts = {};

  friend bool operator==(const OperationCounts&,
                         const OperationCounts&) = default;
};

OperationCounts::Op CountedOp(RouteChange::Op op);

// What `batch` did: `delta`, or nothing if that is null. One that is only
// validated has no operations. O(batch).
OperationCounts AppliedOperations(const UpdateBatch& batch, const Delta* delta);

// The same of one that was refused.
OperationCounts RefusedOperations(const UpdateBatch& batch);

// The same operations, refused.
OperationCounts AllRefused(const OperationCounts& counts);

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_OPERATION_COUNTS_H_
