// Files are read with read(2) alone: streams are sequential and the readers
// above have buffers of their own.

#include "lpm/io/byte_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

absl::Status FileError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// Invariant: `fd_` is open for reading.
class FileSource : public ByteSource {
 public:
  FileSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~FileSource() override { close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    if (!status_.ok()) return status_;
    for (;;) {
      const ssize_t count = read(fd_, out, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) return status_ = FileError(path_, errno);
    }
  }

 private:
  const std::string path_;
  const int fd_;
  absl::Status status_;
};

class Concatenated : public ByteSource {
 public:
  Concatenated(std::string head, size_t piece, std::unique_ptr<ByteSource> tail)
      : head_(std::move(head)), piece_(piece), tail_(std::move(tail)) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const size_t count = std::min({size, piece_, head_.size() - position_});
    if (count == 0 && tail_ != nullptr) return tail_->Read(out, size);
    std::memcpy(out, head_.data() + position_, count);
    position_ += count;
    return count;
  }

 private:
  const std::string head_;
  const size_t piece_;
  size_t position_ = 0;                     // in head_
  const std::unique_ptr<ByteSource> tail_;  // may be null
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, errno);
  return std::make_unique<FileSource>(path, fd);
}

std::unique_ptr<ByteSource> StringSource(std::string contents, size_t piece) {
  return std::make_unique<Concatenated>(std::move(contents), piece, nullptr);
}

std::unique_ptr<ByteSource> ConcatenatedSource(
    std::string head, std::unique_ptr<ByteSource> tail) {
  return std::make_unique<Concatenated>(std::move(head), SIZE_MAX,
                                        std::move(tail));
}

}  // namespace planb
