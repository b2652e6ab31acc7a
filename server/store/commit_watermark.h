// SPDX-License-Identifier: Apache-2.0

// The mark: a small file beside the database, with the number of its last
// commit. SQLite treats a write-ahead log that was cut or damaged as one that
// ends early, and drops the later commits without an error; the mark reveals
// that.

#ifndef PLANB_SERVER_STORE_COMMIT_WATERMARK_H_
#define PLANB_SERVER_STORE_COMMIT_WATERMARK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace planb::server {

struct StoreMark {
  uint64_t store_id = 0;  // of the database
  // Of the last acknowledged commit, or of one shortly before: the mark is
  // written after each commit and not synced.
  uint64_t sequence = 0;
  // 0 if a power loss may lose commits.
  uint64_t synced = 1;
  uint64_t boot = 0;  // ThisBoot() at the time of writing

  friend bool operator==(const StoreMark&, const StoreMark&) = default;
};

// A number for this boot of the machine; 0 if the system does not tell.
uint64_t ThisBoot();

// Holds an exclusive lock on the file, which prevents a second server from
// opening the store. Thread-compatible.
class CommitWatermark {
 public:
  // The mark of the database `path`: PATH-mark. Creates the file if it is
  // absent. Errors: FAILED_PRECONDITION (STORE_IN_USE) if another object or
  // process has the lock; FAILED_PRECONDITION (STORE_UNWRITABLE) if the file
  // cannot be created or written; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<std::unique_ptr<CommitWatermark>> Open(
      const std::string& path);
  CommitWatermark(const CommitWatermark&) = delete;
  CommitWatermark& operator=(const CommitWatermark&) = delete;
  ~CommitWatermark();

  // nullopt if the file is empty or all zeros, which a power loss can cause, or
  // names no commit that may be lost. Errors: DATA_LOSS (STORE_CORRUPT) if it
  // does not hold a valid mark.
  absl::StatusOr<std::optional<StoreMark>> Read() const;

  // One system call. Errors: UNAVAILABLE (STORE_FAILED).
  absl::Status Write(const StoreMark& mark);

  // Checks the files before SQLite opens them: it would create a missing
  // database, delete a log without one, and take zeros for a new one. Errors:
  // DATA_LOSS (STORE_CORRUPT).
  absl::Status CheckFiles(const std::optional<StoreMark>& mark) const;

  // Compares the mark with a database. Logs a warning if the mark is missing or
  // unsynced commits were lost. Errors: DATA_LOSS (STORE_CORRUPT) if
  // acknowledged commits are missing.
  absl::Status Check(const std::optional<StoreMark>& mark, uint64_t store_id,
                     uint64_t sequence) const;

 private:
  CommitWatermark(const std::string& database, int file)
      : database_(database), path_(database + "-mark"), file_(file) {}

  const std::string database_;
  const std::string path_;
  const int file_;
};

// Adds the remedy to a DATA_LOSS; returns other statuses unchanged.
absl::Status WithRemedy(const absl::Status& status, const std::string& path);

// Bytes of a file; 0 if it is absent.
uint64_t StoreFileBytes(const std::string& path);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_COMMIT_WATERMARK_H_
