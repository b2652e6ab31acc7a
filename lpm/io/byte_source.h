// Where octets come from: a file, a string, a decompressor over another one.

#ifndef PLANB_LPM_IO_BYTE_SOURCE_H_
#define PLANB_LPM_IO_BYTE_SOURCE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

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

}  // namespace planb

#endif  // PLANB_LPM_IO_BYTE_SOURCE_H_
