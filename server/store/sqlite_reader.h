// SPDX-License-Identifier: Apache-2.0

// Reads the contents of the store and verifies them: every entry and snapshot
// must match the checksums that lead to it.

#ifndef PLANB_SERVER_STORE_SQLITE_READER_H_
#define PLANB_SERVER_STORE_SQLITE_READER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_sql.h"
#include "server/table/store.h"

namespace planb::server {

// Reads the state and verifies its checksums. Reads of each log only the last
// entry. Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
absl::StatusOr<StoreState> ReadStoreState(Sql& sql);

// Reads all tables, ordered by name, and verifies them against `state`.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
// REQUIRES: `state` was read in the same transaction.
absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const StoreState& state);

// DATA_LOSS (STORE_CORRUPT) with the file.
absl::Status DamagedStore(const Sql& sql, absl::string_view what);

// Calls `read` with each row. Its errors become those of DamagedStore().
absl::Status ForEachRow(
    Sql& sql, SqlStatement& statement,
    absl::FunctionRef<absl::Status(const SqlStatement&)> read);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_READER_H_
