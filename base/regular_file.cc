// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

constexpr size_t kChunk = 64 << 10;

absl::Status LastError() {
  return absl::InvalidArgumentError(std::strerror(errno));
}

// The directory that holds `path`.
std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash == 0 ? 1 : slash);
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes) {
  // The open file is checked, not the path, which may get another file between
  // both. Without O_NONBLOCK, open() would block on a pipe.
  const int file =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return LastError();
  const absl::Cleanup closer = [file] { close(file); };
  struct stat status;
  if (fstat(file, &status) != 0) return LastError();
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError("is no regular file");
  }
  std::string text;
  // Reads up to one byte too many, to notice a larger file.
  while (text.size() <= max_bytes) {
    const size_t size = text.size();
    text.resize(std::min(size + kChunk, max_bytes + 1));
    const ssize_t got = read(file, &text[size], text.size() - size);
    if (got < 0 && errno != EINTR) return LastError();
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is larger than ", max_bytes, " bytes"));
}

// rename(2) is atomic. The file is synced before it, so that a crash cannot
// leave the new name with partial content, and the directory after it.
AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    descriptor_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) Failed("cannot write").IgnoreError();
    return;
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path_, error);
  if (!error) {
    path_ = target;
    if (!std::filesystem::is_regular_file(target, error)) {
      // A rename would replace a device.
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path_, " is no regular file"));
      return;
    }
  }
  temporary_ = absl::StrCat(path_, ".XXXXXX");
  descriptor_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    temporary_.clear();
    Failed("cannot create").IgnoreError();
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Failed("cannot write");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return status_;
}

absl::Status AtomicFile::Commit() {
  if (!status_.ok()) return status_;
  if (!temporary_.empty() && fsync(descriptor_) != 0) {
    return Failed("cannot sync");
  }
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0) return Failed("cannot close");
  if (temporary_.empty()) return status_;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Failed("cannot rename to");
  }
  temporary_.clear();
  const int directory =
      open(DirectoryOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return Failed("cannot open the directory of");
  const int synced = fsync(directory);
  if (synced != 0) Failed("cannot sync the directory of").IgnoreError();
  close(directory);
  return status_;
}

absl::Status AtomicFile::Failed(absl::string_view what) {
  status_ = absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path_));
  return status_;
}

}  // namespace planb
