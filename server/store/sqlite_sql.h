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
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// A parameter of type BLOB; a bare string_view is TEXT.
struct SqlBlob {
  absl::string_view bytes;
};

// A prepared statement. Thread-compatible; must not outlive its Sql.
class SqlStatement {
 public:
  // Binds all parameters and runs a statement that returns no rows. Strings are
  // not copied and must live until it returns. Integers of 2^63 and above are
  // stored as negative ones.
  template <typename... Values>
  absl::Status Run(const Values&... values) {
    BindAll(values...);
    const absl::StatusOr<bool> row = Step();
    return row.ok() ? absl::OkStatus() : row.status();
  }

  // Binds all parameters, before Step(). Strings must live until the last
  // Step().
  template <typename... Values>
  void BindAll(const Values&... values) {
    int index = 0;
    (Bind(++index, values), ...);
  }

  // True if there is a row. Its columns can be read until the next Step().
  // After false or an error the statement can be run again.
  absl::StatusOr<bool> Step();

  int64_t Integer(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
  }
  uint64_t Unsigned(int column) const {
    return static_cast<uint64_t>(Integer(column));
  }
  bool IsNull(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
  }
  // The bytes of a TEXT or BLOB.
  absl::string_view Bytes(int column) const;

 private:
  friend class Sql;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const {
      sqlite3_finalize(statement);
    }
  };

  explicit SqlStatement(sqlite3_stmt* statement) : statement_(statement) {}

  void Bind(int index, int64_t value) {
    sqlite3_bind_int64(statement_.get(), index, value);
  }
  void Bind(int index, uint64_t value) {
    Bind(index, static_cast<int64_t>(value));
  }
  void Bind(int index, uint32_t value) { Bind(index, int64_t{value}); }
  void Bind(int index, int value) { Bind(index, int64_t{value}); }
  void Bind(int index, absl::string_view text);
  void Bind(int index, const SqlBlob& blob);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
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
  absl::StatusOr<int64_t> Integer(const std::string& text);
  absl::StatusOr<std::string> Text(const std::string& text);

  // Runs one statement that returns no rows. It is kept prepared.
  template <typename... Values>
  absl::Status Change(const char* text, const Values&... values) {
    const absl::StatusOr<SqlStatement*> statement = Kept(text);
    return statement.ok() ? (*statement)->Run(values...) : statement.status();
  }

  // Calls `read` with each row of a query. Its errors become Damaged().
  using ReadRow = absl::FunctionRef<absl::Status(const SqlStatement&)>;
  template <typename... Values>
  absl::Status ForEach(const std::string& text, ReadRow read,
                       const Values&... values) {
    absl::StatusOr<SqlStatement> statement = Prepare(text, /*kept=*/false);
    if (!statement.ok()) return statement.status();
    statement->BindAll(values...);
    return ForEachRow(*statement, read);
  }

  // DATA_LOSS (STORE_CORRUPT) with the file.
  absl::Status Damaged(absl::string_view what) const;

  // `mode` is one of SQLITE_CHECKPOINT_*. False if pages are left in the log,
  // because another process reads them or makes a checkpoint itself.
  absl::StatusOr<bool> Checkpoint(int mode);

  // Syncs the database and its write-ahead log, with what a process wrote that
  // died before it synced. REQUIRES: the database was read.
  absl::Status Sync();

  bool InTransaction() const { return sqlite3_get_autocommit(sql()) == 0; }

  sqlite3* sql() const { return sql_.get(); }
  const char* path() const { return sqlite3_db_filename(sql(), "main"); }

 private:
  struct Close {
    void operator()(sqlite3* sql) const { sqlite3_close_v2(sql); }
  };

  explicit Sql(sqlite3* sql) : sql_(sql) {}

  // `text` is one statement. `kept`: it will be run many times.
  absl::StatusOr<SqlStatement> Prepare(const std::string& text, bool kept);
  absl::StatusOr<SqlStatement*> Kept(absl::string_view text);
  absl::Status ForEachRow(SqlStatement& statement, ReadRow read);

  std::unique_ptr<sqlite3, Close> sql_;
  std::map<std::string, SqlStatement, std::less<>> kept_;  // by their text
};

// The error of the last call on `sql`. REQUIRES: errno is as that call left it.
absl::Status SqlError(sqlite3* sql);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_SQL_H_
