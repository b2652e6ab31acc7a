// A window on a byte source that the format readers look through: peek at what
// comes next, then consume it.

#ifndef PLANB_LPM_IO_BYTE_READER_H_
#define PLANB_LPM_IO_BYTE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_source.h"

namespace planb {

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

}  // namespace planb

#endif  // PLANB_LPM_IO_BYTE_READER_H_
