// SPDX-License-Identifier: Apache-2.0

// Writes and deletes rows of the store's database.

#ifndef PLANB_SERVER_STORE_SQLITE_WRITER_H_
#define PLANB_SERVER_STORE_SQLITE_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_sql.h"

namespace planb::server {

// Rows that no table refers to: what is left of a deleted table, of a log that
// a snapshot has replaced, or of a snapshot that was not finished.
struct Leftovers {
  bool log = false;             // or snapshots
  int64_t first = 0, last = 0;  // keys
};

// Writes rows within a transaction that its caller began. Keeps its statements
// prepared. Must not outlive its Sql. Errors are those of Sql.
// Thread-compatible.
class SqliteWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteWriter>> Create(Sql& sql);

  absl::Status WriteStore(const StoreRow& row);
  absl::Status WriteTable(const TableRow& row);
  absl::Status DeleteTable(int64_t id);

  // Appends an entry to the log of a table and advances `head`.
  absl::Status Append(absl::string_view entry, TableHead& head);

  absl::Status WritePart(uint64_t snapshot, uint64_t part,
                         absl::string_view bytes);

  // The lowest id that no table in `state` and no row of the log has.
  absl::StatusOr<int64_t> FreeTableId(const StoreState& state);

  // Some leftovers, few enough to be deleted in some milliseconds; nullopt if
  // there are none.
  absl::StatusOr<std::optional<Leftovers>> FindLeftovers(
      const StoreState& state);
  absl::Status Delete(const Leftovers& leftovers);

 private:
  // The statements that sweep one table of the database.
  struct Sweep {
    std::optional<SqlStatement> next, sizes, remove;
  };

  SqliteWriter() = default;

  // The first key from `from` on; nullopt if there is none.
  static absl::StatusOr<std::optional<int64_t>> NextKey(Sweep& sweep,
                                                        int64_t from);
  // Leftovers from `first` on, at most up to `last`.
  static absl::StatusOr<std::optional<Leftovers>> SomeOf(Sweep& sweep,
                                                         int64_t first,
                                                         int64_t last);

  std::optional<SqlStatement> put_store_, put_table_, delete_table_;
  std::optional<SqlStatement> put_entry_, put_part_;
  Sweep log_, snapshots_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_WRITER_H_
