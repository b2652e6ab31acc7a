// SPDX-License-Identifier: Apache-2.0

// The files of a store: opening the database with the settings that the store
// counts on, and noticing when something that was committed is gone.

#ifndef PLANB_SERVER_STORE_STORE_FILES_H_
#define PLANB_SERVER_STORE_STORE_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_schema.h"
#include "server/store/store_sql.h"

namespace planb::server {

// What the file holds: one record of 64 bytes with a checksum.
struct StoreMarkRecord {
  uint64_t store_id = 0;  // of the database that belongs to it
  // Of the last commit that was acknowledged, or of one shortly before: the
  // record is written after each commit, and not synced.
  uint64_t sequence = 0;
  // False if commits may be lost with the machine's power.
  bool synced = true;
  std::string boot_id;  // 16 bytes, of the machine when it was written

  friend bool operator==(const StoreMarkRecord&,
                         const StoreMarkRecord&) = default;
};

// The boot id of this machine, 16 bytes; zeros if it has none.
std::string CurrentBootId();

// Holds an exclusive lock on the file for as long as it lives.
// Thread-compatible.
class StoreMark {
 public:
  // Creates the file if it is absent.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE) if another object or process
  // holds it; FAILED_PRECONDITION (STORE_UNWRITABLE) if it cannot be created or
  // written; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<StoreMark> Open(const std::string& path);

  StoreMark(StoreMark&& other) noexcept;
  StoreMark& operator=(StoreMark&&) = delete;
  ~StoreMark();

  // nullopt if the file is empty, or all zeros, as it can be after a power
  // loss. Errors: DATA_LOSS (STORE_CORRUPT) if it holds anything else.
  absl::StatusOr<std::optional<StoreMarkRecord>> Read() const;

  // One system call. Errors: UNAVAILABLE (STORE_FAILED).
  absl::Status Write(const StoreMarkRecord& record);

 private:
  StoreMark(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

// When a commit is told to the disk.
enum class StoreSync {
  kFull,    // before it is acknowledged
  kNormal,  // now and then: the last commits may be lost with the power
  kOff,     // never: all may be lost with the power
};

// PATH-mark.
std::string StoreMarkPath(const std::string& path);

// Bytes of a file; 0 if it is absent.
uint64_t StoreFileBytes(const std::string& path);

// Before the database is opened, which would create it if it were gone and
// throw a log away that has none.
// Errors: DATA_LOSS (STORE_CORRUPT) if there is no database and should be.
absl::Status CheckStoreFiles(const std::string& path,
                             const std::optional<StoreMarkRecord>& mark);

// A connection for the store's use, which keeps the log. Creates the file if it
// is absent or empty.
// Errors: those of Sql.
absl::StatusOr<std::unique_ptr<Sql>> OpenStoreDatabase(const std::string& path,
                                                       StoreSync sync,
                                                       const std::string& vfs);

// Whether closing the last connection leaves the write-ahead log alone. If not,
// what can be read of it is moved into the database, and the log deleted: not
// what one wants of a damaged one.
void KeepStoreLog(Sql& sql, bool keep);

// Compares the database, just `created` or opened, with its mark. Logs what an
// operator should know but needs not act on.
// Errors: DATA_LOSS (STORE_CORRUPT) if acknowledged commits are missing.
absl::Status CheckStoreMark(const std::string& path,
                            const std::optional<StoreMarkRecord>& mark,
                            const StoreRow& store, bool created);

// Says to a DATA_LOSS what an operator can do; leaves other errors alone.
absl::Status WithWayOut(const absl::Status& status, const std::string& path);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_FILES_H_
