// SPDX-License-Identifier: Apache-2.0

// The files of a store: opening the database with the settings that the store
// counts on, and noticing when something that was committed is gone.

#ifndef PLANB_SERVER_STORE_STORE_FILES_H_
#define PLANB_SERVER_STORE_STORE_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_mark.h"
#include "server/store/store_rows.h"
#include "server/store/store_sql.h"

namespace planb::server {

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
