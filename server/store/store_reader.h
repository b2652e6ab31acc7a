// SPDX-License-Identifier: Apache-2.0

// Reads the contents of the store and verifies them: every value must be valid,
// and all rows must match the stored checksums.

#ifndef PLANB_SERVER_STORE_STORE_READER_H_
#define PLANB_SERVER_STORE_STORE_READER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_schema.h"
#include "server/store/store_sql.h"
#include "server/store/store_writer.h"
#include "server/table/store.h"

namespace planb::server {

// The rows whose checksums cover all others.
struct StoreState {
  StoreRow store;
  std::vector<StoredTableState> tables;  // by ascending id
};

// Reads and verifies the state, including the digest of next hops and groups.
// Memory and time do not depend on the number of routes.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
absl::StatusOr<StoreState> ReadStoreState(Sql& sql);

// Reads all tables, ordered by name, and verifies them against `state`.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
// REQUIRES: `state` was read in the same transaction.
absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const StoreState& state);

// The next hop or group of the current row of `statement`. Its columns from
// `column` on are id, gateway, interface, weight, label, or id, members, label.
absl::StatusOr<NextHop> ReadNextHop(const SqlStatement& statement, int column);
absl::StatusOr<NextHopGroup> ReadGroup(const SqlStatement& statement,
                                       int column);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_READER_H_
