// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

constexpr size_t kChunk = 64 << 10;

absl::Status LastError() {
  return absl::InvalidArgumentError(std::strerror(errno));
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

}  // namespace planb
