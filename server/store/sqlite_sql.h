// SPDX-License-Identifier: Apache-2.0

// The part of SQLite's C interface that the store needs, with ownership,
// statuses and typed parameters. It does not depend on the store's contents.

#ifndef PLANB_SERVER_STORE_SQLITE_SQL_H_
#define PLANB_SERVER_STORE_SQLITE_SQL_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// A parameter of type BLOB; a bare string_view is TEXT.
struct SqlBlob {
  absl::string_view bytes;
};

// A row of a query, while it is read.
class SqlRow {
 public:
  explicit SqlRow(sqlite3_stmt* statement) : statement_(statement) {}

  int64_t Integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  uint64_t Unsigned(int column) const {
    return static_cast<uint64_t>(Integer(column));
  }
  // The bytes of a TEXT or BLOB.
  absl::string_view Bytes(int column) const;

 private:
  sqlite3_stmt* const statement_;
};

// A connection to a database file. Thread-compatible.
//
// Errors: DATA_LOSS (STORE_CORRUPT) if only a damaged database can cause them,
// RESOURCE_EXHAUSTED (STORE_FULL) if the disk is full, FAILED_PRECONDITION
// (STORE_UNWRITABLE) if a permission is missing, UNAVAILABLE (STORE_FAILED)
// otherwise. Messages name the file.
class Sql {
 public:
  // Opens for reading and writing. `vfs` names a registered VFS; empty for the
  // default.
  static absl::StatusOr<std::unique_ptr<Sql>> Open(const std::string& path,
                                                   bool create,
                                                   const std::string& vfs = "");

  // Runs statements without parameters and ignores their rows.
  absl::Status Run(const std::string& text);

  // The first column of the first row.
  absl::StatusOr<int64_t> Integer(absl::string_view text);
  absl::StatusOr<std::string> Text(absl::string_view text);

  // Runs one statement, which is kept prepared, with parameters: integers,
  // those of 2^63 and above as negative ones, and bytes. Calls `read` with each
  // row; its errors become Damaged().
  using ReadRow = absl::FunctionRef<absl::Status(const SqlRow&)>;
  template <typename... Values>
  absl::Status ForEach(absl::string_view text, ReadRow read,
                       const Values&... values) {
    const absl::StatusOr<sqlite3_stmt*> statement = Kept(text);
    if (!statement.ok()) return statement.status();
    int index = 0;
    (Bind(*statement, ++index, values), ...);
    return ForEachRow(*statement, read);
  }
  template <typename... Values>
  absl::Status Change(absl::string_view text, const Values&... values) {
    return ForEach(
        text, [](const SqlRow&) { return absl::OkStatus(); }, values...);
  }

  // DATA_LOSS (STORE_CORRUPT) with the file.
  absl::Status Damaged(absl::string_view what) const;

  // Moves the write-ahead log into the database and truncates it.
  absl::Status Truncate();

  // Syncs the database and its write-ahead log, with what a process wrote that
  // died before it synced. REQUIRES: the database was read.
  absl::Status Sync();

  bool InTransaction() const { return sqlite3_get_autocommit(sql()) == 0; }

  sqlite3* sql() const { return sql_.get(); }
  const char* path() const { return sqlite3_db_filename(sql(), "main"); }

 private:
  struct Free {
    void operator()(sqlite3* sql) const { sqlite3_close_v2(sql); }
    void operator()(sqlite3_stmt* statement) const {
      sqlite3_finalize(statement);
    }
  };

  explicit Sql(sqlite3* sql) : sql_(sql) {}

  absl::StatusOr<sqlite3_stmt*> Kept(absl::string_view text);
  absl::Status ForEachRow(sqlite3_stmt* statement, ReadRow read);

  static void Bind(sqlite3_stmt* statement, int index, int64_t value) {
    sqlite3_bind_int64(statement, index, value);
  }
  static void Bind(sqlite3_stmt* statement, int index, uint64_t value) {
    Bind(statement, index, static_cast<int64_t>(value));
  }
  static void Bind(sqlite3_stmt* statement, int index, absl::string_view text);
  static void Bind(sqlite3_stmt* statement, int index, const SqlBlob& blob);

  std::unique_ptr<sqlite3, Free> sql_;
  // By their text.
  std::map<std::string, std::unique_ptr<sqlite3_stmt, Free>, std::less<>> kept_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_SQL_H_
