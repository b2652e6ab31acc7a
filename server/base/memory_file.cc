// SPDX-License-Identifier: Apache-2.0

// The path names a descriptor. Each content is an unnamed file, which replaces
// the one behind the descriptor when it is complete.

#include "server/base/memory_file.h"

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
  const auto replace = file->Prepare(text);
  if (!replace.ok()) return replace.status();
  (*replace)();
  return file;
}

absl::StatusOr<CommitReload> MemoryFile::Prepare(absl::string_view text) {
  const int fd = memfd_create(name_.c_str(), MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const std::shared_ptr<const int> owned(new int(fd), [](const int* it) {
    close(*it);
    delete it;
  });
  const absl::Status written = WriteAll(fd, text);
  if (!written.ok()) return written;
  // Both descriptors are this process's own, so the system refuses neither
  // call.
  return [this, owned] {
    modified_ = std::max(std::time(nullptr), modified_ + 1);
    const timespec times[2] = {{.tv_sec = modified_}, {.tv_sec = modified_}};
    futimens(*owned, times);
    dup3(*owned, fd_, O_CLOEXEC);
  };
}

}  // namespace planb::server
