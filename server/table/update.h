// SPDX-License-Identifier: Apache-2.0

// A change of one table, from the request to its outcome. Plain values that the
// services, the RIB, the store and watchers pass to each other.

#ifndef PLANB_SERVER_TABLE_UPDATE_H_
#define PLANB_SERVER_TABLE_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::server {

// One change to one prefix. route_table.proto documents each operation.
struct RouteChange {
  enum class Op { kUpsert, kInsert, kReplace, kDelete, kDeleteStrict };
  Op op = Op::kUpsert;
  Prefix prefix;
  NextHopId next_hop = kNoRoute;  // kNoRoute for deletes
};

// The names of a request's lists, so that errors can name their entries.
struct UpdateFields {
  const char* changes = "updates";
  const char* replacement = "routes";
  const char* next_hops = "next_hops";
  const char* groups = "groups";
  const char* deleted_next_hops = "delete_ids";
  const char* deleted_groups = "delete_group_ids";
};
inline constexpr UpdateFields kUpdateFields;

// A request to change a table, decoded.
struct UpdateBatch {
  const UpdateFields* fields = &kUpdateFields;
  // First those of the list fields->changes, then those of `changes_v6`, then
  // those of `changes_v4`.
  std::vector<RouteChange> changes;
  size_t packed_v6 = 0, packed_v4 = 0;
  // If set, the table holds exactly these routes afterwards. Ascending; a
  // prefix that is listed twice is refused. `changes` is then empty.
  std::optional<std::vector<Route>> replacement;

  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<NextHopId> deleted_next_hops;
  std::vector<NextHopId> deleted_groups;
  // With a replacement: next hops and groups that are not listed are deleted.
  bool replace_next_hops = false;

  std::optional<uint64_t> expected_generation;
  uint64_t writer_epoch = 0;
  std::optional<bool> complete;
  bool validate_only = false;
  bool require_next_hops = false;
  std::string request_id;
  // A hash of the request. Distinguishes a retry from another request that has
  // the same request_id.
  uint64_t fingerprint = 0;

  // The field of the request that has changes[index], such as "updates[17]".
  std::string ChangeField(size_t index) const;
};

// How many entries a batch changes.
struct ChangeCounts {
  uint64_t added = 0;  // routes
  uint64_t changed = 0;
  uint64_t removed = 0;
  uint64_t unchanged = 0;
  uint64_t next_hops_added = 0;  // objects and groups
  uint64_t next_hops_changed = 0;
  uint64_t next_hops_removed = 0;

  bool Any() const {
    return added + changed + removed + next_hops_added + next_hops_changed +
               next_hops_removed >
           0;
  }

  friend bool operator==(const ChangeCounts&, const ChangeCounts&) = default;
};

// The answer to an accepted batch.
struct UpdateOutcome {
  uint64_t generation = 0;
  ChangeCounts counts;
  std::string digest;  // Table.digest of that generation
  absl::Time accepted;

  friend bool operator==(const UpdateOutcome&, const UpdateOutcome&) = default;
};

// The exact changes of one generation: the generation before with this delta
// applied is this generation.
struct Delta {
  uint64_t generation = 0;
  uint64_t previous = 0;  // the generation before
  // Ascending, each prefix once, with its new next hop; kNoRoute if it was
  // withdrawn.
  std::vector<Route> routes;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<NextHopId> deleted_next_hops;
  std::vector<NextHopId> deleted_groups;
  // Table.digest of this generation.
  std::string digest;
  // Table.complete_since_unix_nanos of this generation.
  uint64_t complete_since = 0;

  // Bytes held, approximately.
  size_t bytes() const;
};

// The first answer to a named request.
struct AnsweredRequest {
  std::string request_id;
  uint64_t fingerprint = 0;
  UpdateOutcome outcome;

  friend bool operator==(const AnsweredRequest&,
                         const AnsweredRequest&) = default;
};

// For how long the id of a request is known. Longer than a shared store may
// leave a request undecided (ten seconds) and a client then repeats it (a
// minute).
inline constexpr absl::Duration kRequestIdRetention = absl::Seconds(90);

// True if by the log, which has both times, the id of a request that was
// accepted at one time is still known when another one is accepted. A time that
// a wrong clock gave, far ahead or far behind, holds no id.
inline bool IsYoung(absl::Time accepted, absl::Time now) {
  return absl::AbsDuration(now - accepted) < kRequestIdRetention;
}

// How many of the oldest of these requests, in the order in which they were
// accepted, are by the log neither of the last `window` ones nor young.
size_t CountForgotten(absl::Span<const AnsweredRequest> requests,
                      size_t window);

// One accepted batch as the store keeps it, in full or not at all.
struct AcceptedBatch {
  // nullptr if the batch changed no route, next hop or group.
  std::shared_ptr<const Delta> delta;
  uint64_t writer_epoch = 0;  // the table's after this batch
  std::optional<AnsweredRequest> request;
};

// The changes of routes in one batch, by operation and result, for metrics. A
// plain value.
struct OperationCounts {
  // Strict deletes count as deletes. A replacement upserts the routes that it
  // lists and deletes the others.
  enum Op { kUpsert, kInsert, kReplace, kDelete };
  static constexpr size_t kOps = 4;
  // Unchanged: the route was there already, or there was none to delete. A
  // refused batch counts all its changes as refused.
  enum Result { kChanged, kUnchanged, kRefused };
  static constexpr size_t kResults = 3;

  std::array<std::array<uint64_t, kResults>, kOps> counts = {};

  friend bool operator==(const OperationCounts&,
                         const OperationCounts&) = default;
};

OperationCounts::Op CountedOp(RouteChange::Op op);

// The operations of an accepted batch that changed nothing. A batch that is
// only validated has no operations. O(batch).
OperationCounts UnchangedOperations(const UpdateBatch& batch);

// The operations of a refused batch.
OperationCounts RefusedOperations(const UpdateBatch& batch);

// The same operations, all counted as refused.
OperationCounts AllRefused(const OperationCounts& counts);

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_UPDATE_H_
