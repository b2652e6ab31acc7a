// SPDX-License-Identifier: Apache-2.0

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

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

namespace {

constexpr size_t kChunk = 32 << 10;

}  // namespace

ByteReader::ByteReader(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), buffer_(kChunk, '\0') {}

absl::string_view ByteReader::Peek(size_t count) {
  while (end_ - begin_ < count && Fill()) {
  }
  return absl::string_view(buffer_.data() + begin_, end_ - begin_);
}

void ByteReader::Consume(size_t count) {
  ABSL_RAW_CHECK(count <= end_ - begin_, "consumed more than was peeked at");
  begin_ += count;
  offset_ += count;
}

bool ByteReader::Skip(uint64_t count) {
  while (count > 0) {
    const size_t step =
        static_cast<size_t>(std::min<uint64_t>(count, Peek(1).size()));
    if (step == 0) return false;
    Consume(step);
    count -= step;
  }
  return true;
}

bool ByteReader::Fill() {
  if (ended_) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    // Full: slide the rest to the front, or double if it fills most.
    const size_t left = end_ - begin_;
    if (left > buffer_.size() / 2) buffer_.resize(2 * buffer_.size());
    std::memmove(buffer_.data(), buffer_.data() + begin_, left);
    begin_ = 0;
    end_ = left;
  }
  absl::StatusOr<size_t> count =
      source_->Read(buffer_.data() + end_, buffer_.size() - end_);
  if (!count.ok()) status_ = count.status();
  ended_ = !count.ok() || *count == 0;
  if (ended_) return false;
  end_ += *count;
  return true;
}

}  // namespace planb
