// SPDX-License-Identifier: Apache-2.0

// A file in memory whose content changes all at once, for libraries that take
// what they need only from files.

#ifndef PLANB_SERVER_SECURITY_MEMORY_FILE_H_
#define PLANB_SERVER_SECURITY_MEMORY_FILE_H_

#include <ctime>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// Other threads of this process may read the path at any time; Set is for one
// thread at a time. Nothing of it touches a disk.
//
// A reader that has opened the path reads one content to its end. Contents
// have modification times that differ by a second and more, so that a reader
// that opens the path twice can tell whether it got the same.
class MemoryFile {
 public:
  // `name` is for those who list this process's open files.
  // Errors: those of memfd_create; UNAVAILABLE if /proc is not there.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(
      absl::string_view name, absl::string_view text);
  ~MemoryFile();

  // Good within this process, as long as this lives.
  const std::string& path() const { return path_; }

  // Errors: those of the system; the content is then the old one.
  absl::Status Set(absl::string_view text);

 private:
  MemoryFile(absl::string_view name, int fd);

  const std::string name_;
  const int fd_;
  const std::string path_;
  time_t modified_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_MEMORY_FILE_H_
