// SPDX-License-Identifier: Apache-2.0

// Writes rows within a transaction that its caller began. Keeps every statement
// that a commit needs prepared.

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

// Points into the batches it was made of. A plain value.
struct StoreChanges {
  // Ascending, each prefix once; kNoRoute: withdrawn.
  std::vector<const Route*> routes;
  // nullptr: deleted.
  std::map<NextHopId, const NextHop*> next_hops;
  std::map<NextHopId, const NextHopGroup*> groups;
  // In the order of the batches.
  std::vector<const AnsweredRequest*> requests;
  // The last one: it says where the table is afterwards. nullptr if nothing
  // changed.
  const Delta* last = nullptr;
  uint64_t writer_epoch = 0;
};

// O(n log n) for n routes, O(n) for one batch that is in order already.
// REQUIRES: `batches` is not empty. Where a delta both deletes and has a next
// hop, it has it.
StoreChanges MergeBatches(absl::Span<const AcceptedBatch> batches);

// A table as the store knows it between two commits.
struct StoredTableState {
  TableRow row;
  TableDigest objects;  // of next hops and groups; row.objects_digest in full
};

// Thread-compatible; must not outlive its Sql. Errors are those of Sql.
class StoreWriter {
 public:
  // `request_window`: the number of answered requests kept of each table.
  static absl::StatusOr<std::unique_ptr<StoreWriter>> Create(
      Sql& sql, uint64_t request_window);

  // Writes `changes` of a table, its row too, and updates `table`.
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
