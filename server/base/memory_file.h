// SPDX-License-Identifier: Apache-2.0

// A file in memory with content that changes atomically, for libraries that
// read their input only from files.

#ifndef PLANB_SERVER_BASE_MEMORY_FILE_H_
#define PLANB_SERVER_BASE_MEMORY_FILE_H_

#include <ctime>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/commit_reload.h"

namespace planb::server {

// Other threads of this process may read the path at any time. The content is
// replaced by one thread at a time. Nothing is written to a disk.
//
// A reader that has opened the path reads one content to its end. Modification
// times of two contents differ by at least a second, so a reader that opens the
// path twice can tell whether the content has changed.
class MemoryFile {
 public:
  // `name` is shown in lists of the process's open files.
  // Errors: those of memfd_create; UNAVAILABLE without /proc.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(
      absl::string_view name, absl::string_view text);
  ~MemoryFile();

  // Valid within this process, for the lifetime of this object.
  const std::string& path() const { return path_; }

  // Makes a new content ready to replace the old one. Errors: those of the
  // system.
  absl::StatusOr<CommitReload> Prepare(absl::string_view text);

 private:
  MemoryFile(absl::string_view name, int fd);

  const std::string name_;
  const int fd_;
  const std::string path_;
  time_t modified_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_MEMORY_FILE_H_
