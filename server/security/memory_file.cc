// SPDX-License-Identifier: Apache-2.0

// The path names a descriptor. Each content is an unnamed file, which replaces
// the one behind the descriptor when it is complete.

#include "server/security/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

absl::Status WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "memory file: write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

MemoryFile::MemoryFile(absl::string_view name, int fd)
    : name_(name), fd_(fd), path_(absl::StrCat("/proc/self/fd/", fd)) {}

MemoryFile::~MemoryFile() { close(fd_); }

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(
    absl::string_view name, absl::string_view text) {
  const int fd = memfd_create(std::string(name).c_str(), MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  std::unique_ptr<MemoryFile> file(new MemoryFile(name, fd));
  if (access(file->path_.c_str(), R_OK) != 0) {
    return absl::UnavailableError(
        absl::StrCat(file->path_, " cannot be read: is /proc mounted?"));
  }
  const absl::Status set = file->Set(text);
  if (!set.ok()) return set;
  return file;
}

absl::Status MemoryFile::Set(absl::string_view text) {
  const int fd = memfd_create(name_.c_str(), MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  absl::Status status = WriteAll(fd, text);
  const time_t modified = std::max(std::time(nullptr), modified_ + 1);
  const timespec times[2] = {{.tv_sec = modified}, {.tv_sec = modified}};
  if (status.ok() && futimens(fd, times) != 0) {
    status = absl::ErrnoToStatus(errno, "memory file: futimens");
  }
  if (status.ok() && dup3(fd, fd_, O_CLOEXEC) < 0) {
    status = absl::ErrnoToStatus(errno, "memory file: dup3");
  }
  close(fd);
  if (status.ok()) modified_ = modified;
  return status;
}

}  // namespace planb::server
