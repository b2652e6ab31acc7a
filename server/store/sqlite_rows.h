// SPDX-License-Identifier: Apache-2.0

// The schema of the store's database, the rows of which it consists, and their
// checksums. STORE.md documents the columns.

#ifndef PLANB_SERVER_STORE_SQLITE_ROWS_H_
#define PLANB_SERVER_STORE_SQLITE_ROWS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/sqlite_sql.h"

namespace planb::server {

// PRAGMA application_id of our databases: "PlnB".
inline constexpr int kStoreApplicationId = 0x506c6e42;

// PRAGMA user_version of the schema.
inline constexpr int64_t kStoreVersion = 4;

// The only row of `store`. Covers all tables by a sum of checksums.
struct StoreRow {
  uint64_t store_id = 0;  // random, the same for the life of the store
  uint64_t sequence = 0;  // number of the last transaction
  uint64_t generation_floor = 0;
  // The sum, modulo 2^64, of TableRow::Checksum() of all tables.
  uint64_t heads_sum = 0;

  uint64_t Checksum() const;
};

// A row of `tables`, which says where the log of the table begins, and where
// that log ends.
struct TableRow {
  int64_t id = 0;
  std::string name;
  // Before the first entry of the log: the contents of a snapshot, or an empty
  // table if `snapshot` is 0.
  uint64_t generation = 0;
  uint64_t snapshot = 0;
  uint64_t parts = 0;              // rows of the snapshot
  uint64_t snapshot_checksum = 0;  // of the last one, which covers all
  uint64_t first = 1;              // number of the first entry
  uint64_t base = 0;               // the checksum before it
  bool prefix_lengths = false;     // FibOptions

  // No columns: of the log.
  uint64_t next = 1;            // number of the next entry
  uint64_t chain = 0;           // checksum of the last entry; the base if none
  uint64_t end_generation = 0;  // of the table after the last entry
  uint64_t log_bytes = 0;       // of all entries
  uint64_t snapshot_bytes = 0;

  // Covers the row and, by the chain, all entries.
  uint64_t Checksum() const;
};
using TableRows = std::map<std::string, TableRow>;  // by name

// Makes the schema in an empty database, and the row `first`, in one
// transaction. Checks that of any other. Errors: FAILED_PRECONDITION
// (STORE_TOO_NEW, STORE_TOO_OLD) for another version; DATA_LOSS (STORE_CORRUPT)
// if it is not a store or is damaged; those of Sql.
absl::Status PrepareStoreSchema(Sql& sql, const StoreRow& first);

// Read the rows and verify their checksums; of each log only the last entry.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
absl::StatusOr<StoreRow> ReadStoreRow(Sql& sql);
absl::StatusOr<TableRows> ReadTableRows(Sql& sql, const StoreRow& store);

// Write rows within a transaction. Errors are those of Sql.
absl::Status WriteStoreRow(Sql& sql, const StoreRow& row);
absl::Status WriteTableRow(Sql& sql, const TableRow& row);
absl::Status WritePart(Sql& sql, uint64_t snapshot, uint64_t part,
                       absl::string_view bytes);
// Appends an entry to the log of a table and advances `row`.
absl::Status WriteEntry(Sql& sql, absl::string_view entry, TableRow& row);

// A table without entries and rows, with an id that no table and no row of the
// log has.
absl::StatusOr<TableRow> NewTableRow(Sql& sql, const std::string& name,
                                     uint64_t generation);

// Deletes rows that no table refers to, one or 1 MiB of them, so that commits
// do not wait for long: what is left of a deleted table, of a log that a
// snapshot has replaced, or of a snapshot that was not finished. True if there
// were none.
absl::StatusOr<bool> DeleteLeftovers(Sql& sql);

// The keys of `log` and `snapshots`, which order their rows by table and number
// and by snapshot and part.
inline constexpr int kEntryBits = 43;
inline constexpr int kPartBits = 24;
inline constexpr uint64_t kMaxTableId = (1 << 20) - 1;
constexpr int64_t EntryKey(int64_t table, uint64_t number) {
  return static_cast<int64_t>(static_cast<uint64_t>(table) << kEntryBits |
                              number);
}
constexpr int64_t LastEntryKey(int64_t table) {
  return EntryKey(table, (uint64_t{1} << kEntryBits) - 1);
}
constexpr int64_t PartKey(uint64_t snapshot, uint64_t part) {
  return static_cast<int64_t>(snapshot << kPartBits | part);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_ROWS_H_
