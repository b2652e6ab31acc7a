// SPDX-License-Identifier: Apache-2.0

// A small file beside a store's database. It says how far the database has to
// reach, since SQLite takes a write-ahead log that was cut or changed for one
// that ends early, and loses what came after without a word. Holding it open
// also keeps a second server away.

#ifndef PLANB_SERVER_STORE_STORE_MARK_H_
#define PLANB_SERVER_STORE_STORE_MARK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_MARK_H_
