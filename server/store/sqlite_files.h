// SPDX-License-Identifier: Apache-2.0

// The files of a store: opens the database with the settings that the store
// relies on, and detects the loss of acknowledged commits by a second file, the
// mark.

#ifndef PLANB_SERVER_STORE_SQLITE_FILES_H_
#define PLANB_SERVER_STORE_SQLITE_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/sqlite_rows.h"
#include "server/store/sqlite_sql.h"
#include "server/table/store.h"

namespace planb::server {

// The contents of a mark: one record of 64 bytes with a checksum.
struct StoreMarkRecord {
  uint64_t store_id = 0;  // of the database
  // Of the last acknowledged commit, or of one shortly before: the record is
  // written after each commit and not synced.
  uint64_t sequence = 0;
  // False if a power loss may lose commits.
  bool synced = true;
  std::string boot_id;  // 16 bytes; the machine's at the time of writing

  friend bool operator==(const StoreMarkRecord&,
                         const StoreMarkRecord&) = default;
};

// The boot id of this machine, 16 bytes; zeros if the system has none.
std::string CurrentBootId();

// The mark: a small file beside the database, with the number of its last
// commit. SQLite treats a write-ahead log that was cut or damaged as one that
// ends early, and drops the later commits without an error; the mark reveals
// that. Holds an exclusive lock on the file, which prevents a second server
// from opening the store. Thread-compatible.
class CommitWatermark {
 public:
  // Creates the file if it is absent.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE) if another object or process has
  // the lock; FAILED_PRECONDITION (STORE_UNWRITABLE) if the file cannot be
  // created or written; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<CommitWatermark> Open(const std::string& path);

  CommitWatermark(CommitWatermark&& other) noexcept;
  CommitWatermark& operator=(CommitWatermark&&) = delete;
  ~CommitWatermark();

  // nullopt if the file is empty or all zeros, which a power loss can cause.
  // Errors: DATA_LOSS (STORE_CORRUPT) if it does not hold a valid record.
  absl::StatusOr<std::optional<StoreMarkRecord>> Read() const;

  // One system call. Errors: UNAVAILABLE (STORE_FAILED).
  absl::Status Write(const StoreMarkRecord& record);

 private:
  CommitWatermark(std::string path, int file)
      : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

// The path of the mark: PATH-mark.
std::string StoreMarkPath(const std::string& path);

// Bytes of a file; 0 if it is absent.
uint64_t StoreFileBytes(const std::string& path);

// Checks the files before SQLite opens them, since SQLite would create a
// missing database and delete a log without a database. Errors: DATA_LOSS
// (STORE_CORRUPT) if the database is missing or is not one.
absl::Status CheckStoreFiles(const std::string& path,
                             const std::optional<StoreMarkRecord>& mark);

// Opens a connection with the store's settings; closing it keeps the log.
// Creates the file if it is absent or empty. Errors: those of Sql.
absl::StatusOr<std::unique_ptr<Sql>> OpenStoreDatabase(const std::string& path,
                                                       StoreSync sync,
                                                       const std::string& vfs);

// Sets whether closing the last connection keeps the write-ahead log. Otherwise
// SQLite moves the readable part into the database and deletes the log, which
// would destroy the evidence of damage.
void KeepStoreLog(Sql& sql, bool keep);

// Compares a database with its mark. Logs a warning if the mark is missing or
// unsynced commits were lost. Errors: DATA_LOSS (STORE_CORRUPT) if acknowledged
// commits are missing.
absl::Status CheckStoreMark(const std::string& path,
                            const std::optional<StoreMarkRecord>& mark,
                            const StoreRow& store);

// Adds the remedy to a DATA_LOSS; returns other statuses unchanged.
absl::Status WithRemedy(const absl::Status& status, const std::string& path);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_FILES_H_
