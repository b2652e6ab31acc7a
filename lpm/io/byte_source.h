// SPDX-License-Identifier: Apache-2.0

// Where bytes come from: files, plain or compressed; a window on a source, for
// the readers of formats; and a cursor over bytes in memory.

#ifndef PLANB_LPM_IO_BYTE_SOURCE_H_
#define PLANB_LPM_IO_BYTE_SOURCE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb {

// A stream of bytes, read once from front to back. Thread-compatible.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Writes at most `size` bytes to `out` and returns how many; 0 only at the
  // end. After the end or an error, every further call returns the same.
  // Errors: DATA_LOSS if a compressed stream is cut or corrupt, after all bytes
  // before that place; UNAVAILABLE if the file cannot be read;
  // RESOURCE_EXHAUSTED if a decompressor gets no memory, asks for too much, or
  // returns too much for what it read.
  // REQUIRES: size > 0.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;
};

// Opens the file at `path`, which may be a pipe or a device.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE, naming the file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// The standard input from where it stands: what the program before this one
// has read of a file does not come again. It may be a socket, too, which
// "/dev/stdin" cannot open. It stays open.
// Errors: UNAVAILABLE if it is closed.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenStandardInput();

// The bytes of `contents`, in pieces of at most `piece` bytes, as from a slow
// pipe. REQUIRES: piece > 0.
std::unique_ptr<ByteSource> StringSource(std::string contents,
                                         size_t piece = SIZE_MAX);

// A window on a source, which it owns: peek at the next bytes, then consume
// them.
//
// Memory: the largest Peek so far plus a fixed chunk, but at most twice the
// bytes that the source returned, so a huge length in a short file costs
// nothing. Thread-compatible.
class ByteReader {
 public:
  explicit ByteReader(std::unique_ptr<ByteSource> source);

  // The next bytes: at least `count`, or all the rest, and then status() has
  // the reason. May return more than `count`. Valid until the next Peek or
  // Skip.
  absl::string_view Peek(size_t count);

  // Consumes `count` bytes.
  // REQUIRES: the last Peek returned as many, and they are not consumed yet.
  void Consume(size_t count);

  // Consumes `count` bytes, peeked at or not; returns false if there are fewer.
  // Constant memory.
  bool Skip(uint64_t count);

  // OK, also at the end, until the source fails; then the error of
  // ByteSource::Read.
  const absl::Status& status() const { return status_; }

  // Bytes consumed so far: the uncompressed offset of what comes next.
  uint64_t offset() const { return offset_; }

 private:
  // Reads another chunk; returns false at the end.
  bool Fill();

  const std::unique_ptr<ByteSource> source_;
  std::string buffer_;  // buffer_[begin_..end_) is read, not consumed
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
  absl::Status status_;
  uint64_t offset_ = 0;
};

// Reads numbers and bytes from the front of a view. A failed read consumes
// nothing. Thread-compatible.
class ByteCursor {
 public:
  explicit ByteCursor(absl::string_view bytes) : left_(bytes) {}

  // Reads a number in network order; returns false if too few bytes are left.
  template <std::unsigned_integral T>
  [[nodiscard]] bool Read(T* value) {
    absl::string_view bytes;
    if (!Read(sizeof(T), &bytes)) return false;
    T result = 0;
    for (const char byte : bytes) {
      // Through 64 bits: a shift of a narrow type would promote to int.
      result = static_cast<T>(uint64_t{result} << 8 |
                              static_cast<unsigned char>(byte));
    }
    *value = result;
    return true;
  }

  // Reads a number, least significant byte first; returns as above.
  template <std::unsigned_integral T>
  [[nodiscard]] bool ReadLittle(T* value) {
    absl::string_view bytes;
    if (!Read(sizeof(T), &bytes)) return false;
    uint64_t result = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      result = result << 8 | static_cast<unsigned char>(bytes[i]);
    }
    *value = static_cast<T>(result);
    return true;
  }

  // Reads `count` bytes; returns as above.
  [[nodiscard]] bool Read(size_t count, absl::string_view* bytes) {
    if (count > left_.size()) return false;
    *bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return true;
  }

  absl::string_view left() const { return left_; }
  bool empty() const { return left_.empty(); }

 private:
  absl::string_view left_;
};

// Returns the uncompressed bytes of `source`. If it does not start as gzip,
// bzip2, xz or zstd data do, these are its own bytes. Concatenated members, as
// from `cat a.gz b.gz`, are read as one stream. Zeros after the last member are
// padding, other bytes DATA_LOSS. What was compressed twice is uncompressed
// twice.
// Memory: about 100 KiB for gzip, 4 MiB for bzip2; for xz and zstd what the
// data ask for, up to 128 MiB: more is RESOURCE_EXHAUSTED when they are read.
// Bytes: at most 64 MiB and 1000 for each byte of `source` read so far; beyond
// that Read returns RESOURCE_EXHAUSTED. So what a small file costs is bounded.
// Errors: those of source->Read for its first bytes.
absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(
    std::unique_ptr<ByteSource> source);

}  // namespace planb

#endif  // PLANB_LPM_IO_BYTE_SOURCE_H_
