// How bytes come in: a source of them, a window on a source that the format
// readers look through, and a cursor over bytes that are at hand.

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

// A stream of octets, read once from front to back. Thread-compatible.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Writes at most `size` octets to `out` and returns how many; 0 only at the
  // end. After the end or an error, every further call says the same again.
  // Errors: DATA_LOSS where the stream breaks off (a compressed stream that is
  // cut or corrupt; all octets before that place have been returned first);
  // UNAVAILABLE if the file cannot be read; RESOURCE_EXHAUSTED if a
  // decompressor gets no memory.
  // REQUIRES: size > 0.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;
};

// Opens the file at `path`, which may be a pipe or a device.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE, naming the file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// The octets of `contents`, returned in pieces of at most `piece` octets: as a
// slow pipe would.
// REQUIRES: piece > 0.
std::unique_ptr<ByteSource> StringSource(std::string contents,
                                         size_t piece = SIZE_MAX);

// The octets of `head`, then those of `tail`.
std::unique_ptr<ByteSource> ConcatenatedSource(
    std::string head, std::unique_ptr<ByteSource> tail);

// Memory: the largest Peek so far plus a fixed chunk, and no more than twice
// what the source really gave: a wild length in a short file costs nothing.
// Thread-compatible.
class ByteReader {
 public:
  explicit ByteReader(std::unique_ptr<ByteSource> source);

  // The next octets: at least `count`, or else all that are left, and then
  // status() says why there are no more. May be longer than asked. Valid until
  // the next call of Peek or Skip.
  absl::string_view Peek(size_t count);

  // Consumes `count` octets.
  // REQUIRES: the last Peek returned as many, not consumed since.
  void Consume(size_t count);

  // Consumes `count` octets, peeked at or not; returns false if fewer were
  // left. Constant memory.
  bool Skip(uint64_t count);

  // OK until the source fails, and at a clean end; then its error: DATA_LOSS
  // if it breaks off, others as in ByteSource::Read.
  const absl::Status& status() const { return status_; }

  // Octets consumed so far: the uncompressed offset of what comes next.
  uint64_t offset() const { return offset_; }

 private:
  // Reads one chunk more; returns false at the end.
  bool Fill();

  const std::unique_ptr<ByteSource> source_;
  std::string buffer_;  // buffer_[begin_..end_) is read, not consumed
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
  absl::Status status_;
  uint64_t offset_ = 0;
};

// Invariant: left() only ever shrinks, from the front. A read that fails takes
// nothing. Thread-compatible.
class OctetCursor {
 public:
  explicit OctetCursor(absl::string_view octets) : left_(octets) {}

  // Reads one number in network order; returns false if too few octets are
  // left.
  template <std::unsigned_integral T>
  [[nodiscard]] bool Read(T* value) {
    absl::string_view octets;
    if (!Read(sizeof(T), &octets)) return false;
    T result = 0;
    for (const char octet : octets) {
      // Through 64 bits: a shift of a narrow type would promote to int.
      result = static_cast<T>(uint64_t{result} << 8 |
                              static_cast<unsigned char>(octet));
    }
    *value = result;
    return true;
  }

  // Likewise, the least significant octet first.
  template <std::unsigned_integral T>
  [[nodiscard]] bool ReadLittle(T* value) {
    absl::string_view octets;
    if (!Read(sizeof(T), &octets)) return false;
    uint64_t result = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      result = result << 8 | static_cast<unsigned char>(octets[i]);
    }
    *value = static_cast<T>(result);
    return true;
  }

  // Reads `count` octets, likewise.
  [[nodiscard]] bool Read(size_t count, absl::string_view* octets) {
    if (count > left_.size()) return false;
    *octets = left_.substr(0, count);
    left_.remove_prefix(count);
    return true;
  }

  absl::string_view left() const { return left_; }
  bool empty() const { return left_.empty(); }

 private:
  absl::string_view left_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_BYTE_SOURCE_H_
