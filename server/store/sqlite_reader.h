// SPDX-License-Identifier: Apache-2.0

// Reads the contents of the store and verifies them: every entry and snapshot
// must match the checksums that lead to it.

#ifndef PLANB_SERVER_STORE_SQLITE_READER_H_
#define PLANB_SERVER_STORE_SQLITE_READER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/store/sqlite_rows.h"
#include "server/store/sqlite_sql.h"
#include "server/table/store.h"

namespace planb::server {

// Reads all tables, ordered by name, and verifies them against `tables`.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
// REQUIRES: `tables` was read in the same transaction.
absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const TableRows& tables);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_READER_H_
