// SPDX-License-Identifier: Apache-2.0

// Merges the batches of a commit and writes their rows.

#ifndef PLANB_SERVER_STORE_STORE_WRITER_H_
#define PLANB_SERVER_STORE_STORE_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "server/store/store_schema.h"
#include "server/store/store_sql.h"
#include "server/table/table_digest.h"
#include "server/table/update.h"

namespace planb::server {

// The merged changes of the batches of one commit: the last state of each
// prefix, next hop and group. Points into the batches. A plain value.
struct StoreChanges {
  // Ascending, each prefix once; with kNoRoute if it is withdrawn.
  std::vector<const Route*> routes;
  // nullptr for a deleted one.
  std::map<NextHopId, const NextHop*> next_hops;
  std::map<NextHopId, const NextHopGroup*> groups;
  // In the order of the batches.
  std::vector<const AnsweredRequest*> requests;
  // The last delta, with the generation and digest of the table after the
  // commit. nullptr if there is no delta.
  const Delta* last = nullptr;
  uint64_t writer_epoch = 0;
};

// If a delta both deletes and adds a next hop, the next hop is added.
// O(n log n) for n routes, O(n) for one batch whose routes are sorted.
// REQUIRES: `batches` is not empty.
StoreChanges MergeBatches(absl::Span<const AcceptedBatch> batches);

// The store's state of a table between two commits.
struct StoredTableState {
  TableRow row;
  TableDigest objects;  // of next hops and groups, as row.objects_digest
};

// Writes rows within a transaction that its caller began. Keeps all statements
// of a commit prepared. Must not outlive its Sql. Errors are those of Sql.
// Thread-compatible.
class StoreWriter {
 public:
  // `request_window` is the number of answered requests kept for each table.
  static absl::StatusOr<std::unique_ptr<StoreWriter>> Create(
      Sql& sql, uint64_t request_window);

  // Writes `changes` and the table's row, and updates `table`.
  absl::Status Write(const StoreChanges& changes, StoredTableState& table);

  absl::Status WriteTable(const TableRow& row);
  absl::Status DeleteTable(int64_t id);
  absl::Status WriteStore(const StoreRow& row);

 private:
  StoreWriter() = default;

  absl::Status WriteRoutes(const StoreChanges& changes, int64_t table);
  absl::Status WriteNextHops(const StoreChanges& changes,
                             StoredTableState& table);
  absl::Status WriteGroups(const StoreChanges& changes,
                           StoredTableState& table);
  absl::Status WriteRequests(const StoreChanges& changes, TableRow& row);

  uint64_t request_window_ = 0;
  std::optional<SqlStatement> put_route_, delete_route_;
  std::optional<SqlStatement> get_next_hop_, put_next_hop_, delete_next_hop_;
  std::optional<SqlStatement> get_group_, put_group_, delete_group_;
  std::optional<SqlStatement> put_request_, prune_requests_;
  std::optional<SqlStatement> put_table_, put_store_;
  std::vector<SqlStatement> delete_table_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_WRITER_H_
