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

// The error of the last call, of a database that SQLite knows no path of while
// it is not open. REQUIRES: errno was 0 before that call, because one that
// succeeds does not change it.
absl::Status SqlError(sqlite3* sql, absl::string_view path) {
  const int last_error = errno;
  const int code = sqlite3_extended_errcode(sql);
  const std::string message = absl::StrCat(path, ": ", sqlite3_errmsg(sql),
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

absl::Status SqlError(sqlite3* sql) {
  const char* path = sqlite3_db_filename(sql, "main");
  return SqlError(sql, path == nullptr ? "" : path);
}

}  // namespace

absl::string_view SqlRow::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? absl::string_view()
                          : absl::string_view(static_cast<const char*>(bytes),
                                              static_cast<size_t>(size));
}

void Sql::Bind(sqlite3_stmt* statement, int index, absl::string_view text) {
  // A null pointer would bind NULL.
  sqlite3_bind_text64(statement, index,
                      text.data() == nullptr ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void Sql::Bind(sqlite3_stmt* statement, int index, const SqlBlob& blob) {
  sqlite3_bind_blob64(statement, index,
                      blob.bytes.data() == nullptr ? "" : blob.bytes.data(),
                      blob.bytes.size(), SQLITE_STATIC);
}

absl::StatusOr<std::unique_ptr<Sql>> Sql::Open(const std::string& path,
                                               bool create,
                                               const std::string& vfs) {
  sqlite3* raw = nullptr;
  errno = 0;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE | (create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags,
                                   vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<Sql> sql(new Sql(raw));
  if (raw == nullptr) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 absl::StrCat(path, ": out of memory"));
  }
  if (code != SQLITE_OK) return SqlError(raw, path);
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

absl::StatusOr<sqlite3_stmt*> Sql::Kept(absl::string_view text) {
  auto found = kept_.find(text);
  if (found == kept_.end()) {
    sqlite3_stmt* raw = nullptr;
    errno = 0;
    if (sqlite3_prepare_v3(sql(), text.data(), static_cast<int>(text.size()),
                           SQLITE_PREPARE_PERSISTENT, &raw,
                           nullptr) != SQLITE_OK) {
      return SqlError(sql());
    }
    found = kept_.emplace(text, raw).first;
  }
  return found->second.get();
}

absl::Status Sql::ForEachRow(sqlite3_stmt* statement, ReadRow read) {
  absl::Status status;
  for (int code = SQLITE_ROW; status.ok() && code == SQLITE_ROW;) {
    errno = 0;
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
      const absl::Status wrong = read(SqlRow(statement));
      if (!wrong.ok()) status = Damaged(wrong.message());
    } else if (code != SQLITE_DONE) {
      status = SqlError(sql());
    }
  }
  sqlite3_reset(statement);
  return status;
}

absl::Status Sql::Damaged(absl::string_view what) const {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat(path(), ": ", what));
}

absl::Status Sql::Truncate() {
  errno = 0;
  return sqlite3_wal_checkpoint_v2(sql(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                   nullptr, nullptr) == SQLITE_OK
             ? absl::OkStatus()
             : SqlError(sql());
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

absl::StatusOr<int64_t> Sql::Integer(absl::string_view text) {
  int64_t value = 0;
  absl::Status status = ForEach(text, [&value](const SqlRow& row) {
    value = row.Integer(0);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return value;
}

absl::StatusOr<std::string> Sql::Text(absl::string_view text) {
  std::string value;
  absl::Status status = ForEach(text, [&value](const SqlRow& row) {
    value = std::string(row.Bytes(0));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return value;
}

}  // namespace planb::server
