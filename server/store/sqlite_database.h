// SPDX-License-Identifier: Apache-2.0

// The contents of a store's database: its schema, its rows and their checksums.
// STORE.md documents the columns.

#ifndef PLANB_SERVER_STORE_SQLITE_DATABASE_H_
#define PLANB_SERVER_STORE_SQLITE_DATABASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/sqlite_sql.h"
#include "server/store/store_entry.h"
#include "server/table/store.h"

namespace planb::server {

// PRAGMA application_id of our databases, "PlnB", and user_version of the
// schema.
inline constexpr int kStoreApplicationId = 0x506c6e42;
inline constexpr int64_t kStoreVersion = 5;

// A row of `tables`. The rows of `log` with the table's id are numbered from 0:
// first the parts of a snapshot, then entries.
struct TableRow {
  int64_t id = 0;
  std::string name;
  uint64_t remote_id = 0;       // StoredTable::id, in a copy of a remote store
  bool prefix_lengths = false;  // FibOptions
  uint64_t generation = 0;      // after the last entry
  uint64_t parts = 0;           // how many rows are of the snapshot
  uint64_t next = 0;            // number of the next row
  uint64_t chain = 0;           // checksum of all rows, one after the other
  uint64_t snapshot_bytes = 0;
  uint64_t log_bytes = 0;  // of entries
};

// All rows but those of `log`.
struct StoreState {
  uint64_t store_id = 0;  // random, the same for the life of the store
  uint64_t sequence = 0;  // number of the last transaction
  uint64_t generation_floor = 0;
  std::string about;  // what a copy is of; empty in a store
  std::map<std::string, TableRow> tables;  // by name

  // Covers everything, by the chains also all rows of `log`.
  uint64_t Checksum() const;
};

// Opens a database with the settings that the store relies on; closing it keeps
// the write-ahead log. If the file is absent or empty, makes the schema with
// this store id. Errors: FAILED_PRECONDITION (STORE_TOO_NEW, STORE_TOO_OLD) for
// another version; DATA_LOSS (STORE_CORRUPT) if it is not a store or is
// damaged; those of Sql.
struct DatabaseOptions {
  std::string path;
  StoreSync sync = StoreSync::kFull;
  int64_t checkpoint_pages = 4000;  // of the log, which start a checkpoint
  std::string vfs;                  // registered with SQLite; for tests
};
absl::StatusOr<std::unique_ptr<Sql>> OpenDatabase(const DatabaseOptions& of,
                                                  uint64_t new_store_id);

// Sets whether closing the last connection keeps the write-ahead log. Otherwise
// SQLite moves the readable part into the database and deletes the log, which
// would destroy the evidence of damage.
void KeepLog(Sql& sql, bool keep);

// Errors of both: DATA_LOSS (STORE_CORRUPT); those of Sql. The second verifies
// all rows of `log`. REQUIRES: in one transaction.
absl::StatusOr<StoreState> ReadState(Sql& sql);
absl::StatusOr<std::vector<StoredTable>> ReadTables(Sql& sql,
                                                    const StoreState& state);

// Changes of the database and of the state, within a transaction whose last is
// WriteState(). Errors are those of Sql.
absl::Status WriteState(Sql& sql, const StoreState& state);
absl::Status WriteTableRow(Sql& sql, const TableRow& row);
// Appends to the log of a table and advances the row.
absl::Status AppendRow(Sql& sql, absl::string_view entry, TableRow& row);
// The contents take the place of all that the table's log has. `row` is one of
// the state, or has no id: that of a new table.
absl::Status PutTable(Sql& sql, TableRow row, const TableContents& contents,
                      StoreState& state);
// REQUIRES: there is a table of that name.
absl::Status RemoveTable(Sql& sql, const std::string& name, StoreState& state);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_DATABASE_H_
