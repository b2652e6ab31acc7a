// Writes a file so that its name leads to all of it or to what was there
// before: under another name first, and renamed once it is on the disk. Or, for
// a pipe to take, writes to the standard output.

#ifndef PLANB_CLIENT_ATOMIC_FILE_H_
#define PLANB_CLIENT_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace planb::client {

// The file can be read by its owner only. Thread-compatible.
class AtomicFile {
 public:
  // Opens a new file beside `path`, or beside what that links to. What is there
  // must be a regular file, if anything. "-" is the standard output, of which
  // nothing can be taken back.
  explicit AtomicFile(std::string path);
  // Without Commit: leaves nothing behind.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // The first thing that went wrong, with the path and the system's words;
  // nothing more is written then.
  const absl::Status& status() const { return status_; }

  // Both return status().
  absl::Status Append(absl::string_view octets);
  // Brings everything to the disk, and the file to its name. Call once, last.
  absl::Status Commit();

 private:
  // Notes that `what` failed, as errno says.
  absl::Status Failed(absl::string_view what);

  std::string path_;
  // Of the file being written; empty if there is none, or it has no name.
  std::string temporary_;
  int descriptor_ = -1;
  absl::Status status_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_ATOMIC_FILE_H_
