// SPDX-License-Identifier: Apache-2.0

// The schema of the store's database, the rows of which it consists, and their
// checksums. STORE.md documents the columns.

#ifndef PLANB_SERVER_STORE_SQLITE_SCHEMA_H_
#define PLANB_SERVER_STORE_SQLITE_SCHEMA_H_

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/store/sqlite_sql.h"

namespace planb::server {

struct StoreRow;

// PRAGMA application_id of our databases: "PlnB".
inline constexpr int kStoreApplicationId = 0x506c6e42;

// PRAGMA user_version of the schema.
inline constexpr int64_t kStoreVersion = 4;

// Makes the schema in an empty database, and the row `first`, in one
// transaction. Checks that of any other. Errors: FAILED_PRECONDITION
// (STORE_TOO_NEW, STORE_TOO_OLD) for another version; DATA_LOSS (STORE_CORRUPT)
// if it is not a store or is damaged; those of Sql.
absl::Status PrepareStoreSchema(Sql& sql, const StoreRow& first);

// A hash of fields, the same on any machine. A string has its length before it,
// so that two different lists of fields never give the same text.
uint64_t HashText(absl::string_view text);
template <typename... Fields>
uint64_t HashFields(const Fields&... fields) {
  std::string text;
  const auto append = [&text](const auto& field) {
    if constexpr (std::is_convertible_v<decltype(field), absl::string_view>) {
      absl::StrAppend(&text, absl::string_view(field).size(), ":",
                      absl::string_view(field));
    } else {
      absl::StrAppend(&text, field, " ");
    }
  };
  (append(fields), ...);
  return HashText(text);
}

// The only row of `store`. Covers all tables by a sum of checksums.
struct StoreRow {
  uint64_t store_id = 0;  // random, the same for the life of the store
  uint64_t sequence = 0;  // number of the last transaction
  uint64_t generation_floor = 0;
  // The sum, modulo 2^64, of TableHead::Checksum() of all tables.
  uint64_t heads_sum = 0;

  uint64_t Checksum() const;
};

// A row of `tables`: where the log of the table begins.
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
};

// A table as of the end of its log. A plain value.
struct TableHead {
  TableRow row;
  uint64_t next = 1;        // number of the next entry
  uint64_t chain = 0;       // checksum of the last entry; the base if none
  uint64_t generation = 0;  // of the table after the last entry
  uint64_t log_bytes = 0;   // of all entries
  uint64_t snapshot_bytes = 0;

  // Covers the row and, by the chain, all entries.
  uint64_t Checksum() const;
};

// The contents of the database except for entries and snapshots.
struct StoreState {
  StoreRow row;
  std::map<std::string, TableHead> tables;  // by name
};

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

#endif  // PLANB_SERVER_STORE_SQLITE_SCHEMA_H_
