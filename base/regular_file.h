// SPDX-License-Identifier: Apache-2.0

// Files that are read as a whole, and replaced as a whole.

#ifndef PLANB_BASE_REGULAR_FILE_H_
#define PLANB_BASE_REGULAR_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb {

// Reads a whole regular file of at most `max_bytes`. Never blocks, as opening a
// pipe would. Errors: INVALID_ARGUMENT, without the name of the file.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes);

// Writes a file atomically: its name refers to the previous content until the
// new content is complete and on the disk. Only the owner can read the file.
// Thread-compatible.
class AtomicFile {
 public:
  // Opens a new file in the directory of `path`, or of the file that the link
  // `path` refers to. An existing file must be a regular file. "-" is the
  // standard output, which is not atomic.
  explicit AtomicFile(std::string path);
  // Without Commit: removes the new file.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // The first error, with the path and the system's message. Nothing is written
  // after an error.
  const absl::Status& status() const { return status_; }

  // Both return status().
  absl::Status Append(absl::string_view bytes);
  // Syncs the file and renames it. Call once, last.
  absl::Status Commit();

 private:
  // Sets status_: `what` failed with errno.
  absl::Status Failed(absl::string_view what);

  std::string path_;
  // Of the file being written; empty if there is none, or it has no name.
  std::string temporary_;
  int descriptor_ = -1;
  absl::Status status_;
};

}  // namespace planb

#endif  // PLANB_BASE_REGULAR_FILE_H_
