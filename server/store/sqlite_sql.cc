// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_sql.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// SQLite reports FULL only for ENOSPC, but a disk quota or a limit of the file
// size has the same effect. SQLite keeps the system's error for some failures;
// for others, such as those of COMMIT, only errno has it.
bool IsFull(int code, int kept_error, int last_error) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  if ((code & 0xff) != SQLITE_IOERR) return false;
  for (int error : {kept_error, last_error}) {
    if (error == EDQUOT || error == EFBIG || error == ENOSPC) return true;
  }
  return false;
}

}  // namespace

absl::Status SqlError(sqlite3* sql) {
  const int last_error = errno;
  const int code = sqlite3_extended_errcode(sql);
  const char* path = sqlite3_db_filename(sql, "main");
  const std::string message =
      absl::StrCat(path == nullptr ? "" : path, ": ", sqlite3_errmsg(sql),
                   " (SQLite error ", code, ")");
  if (IsFull(code, sqlite3_system_errno(sql), last_error)) {
    return Error(absl::StatusCode::kResourceExhausted, "STORE_FULL", message);
  }
  if (code == SQLITE_IOERR_SHORT_READ || code == SQLITE_IOERR_CORRUPTFS) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
  }
  switch (code & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                   message);
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
    case SQLITE_INTERRUPT:
    case SQLITE_ABORT:
    case SQLITE_SCHEMA:
      return Error(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
    default:
      // The store's statements are valid, so an unknown column, for example,
      // means a damaged schema.
      return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
  }
}

// Clears errno for SqlError, because calls that succeed do not change it.
absl::StatusOr<bool> SqlStatement::Step() {
  errno = 0;
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  absl::Status status;
  if (code != SQLITE_DONE) {
    status = SqlError(sqlite3_db_handle(statement_.get()));
  }
  sqlite3_reset(statement_.get());
  if (!status.ok()) return status;
  return false;
}

absl::string_view SqlStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? absl::string_view()
                          : absl::string_view(static_cast<const char*>(bytes),
                                              static_cast<size_t>(size));
}

void SqlStatement::Bind(int index, absl::string_view text) {
  // A null pointer would bind NULL.
  sqlite3_bind_text64(statement_.get(), index,
                      text.data() == nullptr ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void SqlStatement::Bind(int index, const SqlBlob& blob) {
  sqlite3_bind_blob64(statement_.get(), index,
                      blob.bytes.data() == nullptr ? "" : blob.bytes.data(),
                      blob.bytes.size(), SQLITE_STATIC);
}

absl::StatusOr<std::unique_ptr<Sql>> Sql::Open(const std::string& path,
                                               bool create,
                                               const std::string& vfs) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE | (create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags,
                                   vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<Sql> sql(new Sql(raw));
  if (raw == nullptr) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 absl::StrCat(path, ": out of memory"));
  }
  if (code != SQLITE_OK) return SqlError(raw);
  return sql;
}

absl::Status Sql::Run(const std::string& text) {
  errno = 0;
  if (sqlite3_exec(sql(), text.c_str(), nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return SqlError(sql());
  }
  return absl::OkStatus();
}

absl::StatusOr<SqlStatement> Sql::Prepare(const std::string& text, bool kept) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(sql(), text.c_str(), -1,
                         kept ? SQLITE_PREPARE_PERSISTENT : 0, &raw,
                         nullptr) != SQLITE_OK) {
    return SqlError(sql());
  }
  return SqlStatement(raw);
}

absl::StatusOr<SqlStatement*> Sql::Kept(absl::string_view text) {
  auto found = kept_.find(text);
  if (found == kept_.end()) {
    absl::StatusOr<SqlStatement> statement =
        Prepare(std::string(text), /*kept=*/true);
    if (!statement.ok()) return statement.status();
    found = kept_.emplace(text, *std::move(statement)).first;
  }
  return &found->second;
}

absl::Status Sql::ForEachRow(SqlStatement& statement, ReadRow read) {
  while (true) {
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    const absl::Status status = read(statement);
    if (!status.ok()) return Damaged(status.message());
  }
}

absl::Status Sql::Damaged(absl::string_view what) const {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat(path(), ": ", what));
}

absl::StatusOr<bool> Sql::Checkpoint(int mode) {
  errno = 0;
  int pages = 0;
  int moved = 0;
  const int code =
      sqlite3_wal_checkpoint_v2(sql(), nullptr, mode, &pages, &moved);
  if (code == SQLITE_BUSY && mode == SQLITE_CHECKPOINT_PASSIVE) return false;
  if (code != SQLITE_OK) return SqlError(sql());
  return moved == pages;
}

absl::Status Sql::Sync() {
  for (int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER}) {
    sqlite3_file* file = nullptr;
    sqlite3_file_control(sql(), "main", which, &file);
    if (file == nullptr || file->pMethods == nullptr) continue;
    const int code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    if (code != SQLITE_OK) {
      return Error(
          absl::StatusCode::kUnavailable, "STORE_FAILED",
          absl::StrCat(path(), ": cannot sync (SQLite error ", code, ")"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Sql::Integer(const std::string& text) {
  int64_t value = 0;
  absl::Status status = ForEach(text, [&value](const SqlStatement& row) {
    value = row.Integer(0);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return value;
}

absl::StatusOr<std::string> Sql::Text(const std::string& text) {
  std::string value;
  absl::Status status = ForEach(text, [&value](const SqlStatement& row) {
    value = std::string(row.Bytes(0));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return value;
}

}  // namespace planb::server
