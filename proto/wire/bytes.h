// SPDX-License-Identifier: Apache-2.0

// A bytes field in the pieces in which its message was received.
//
// gRPC delivers a message as several slices, cut where HTTP/2 frames and reads
// of the socket ended. Joining them would copy every address. This class refers
// to the pieces instead; only an element that straddles pieces is copied.

#ifndef PLANB_PROTO_WIRE_BYTES_H_
#define PLANB_PROTO_WIRE_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb::wire {

// A message: the concatenation of its pieces, which may be empty.
using Pieces = absl::Span<const absl::string_view>;

// A range of bytes of a message. A value; valid as long as the pieces are.
class Bytes {
 public:
  Bytes() = default;
  // `size` bytes from `offset` of pieces.front() on.
  // REQUIRES: the pieces have as many.
  Bytes(Pieces pieces, size_t offset, size_t size)
      : pieces_(pieces), offset_(offset), size_(size) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The constructor's arguments.
  Pieces pieces() const { return pieces_; }
  size_t offset() const { return offset_; }

  // `size` bytes of these, from byte `from` on. O(pieces).
  // REQUIRES: these have as many.
  Bytes Part(size_t from, size_t size) const {
    if (size == 0) return {};
    Pieces pieces = pieces_;
    for (from += offset_; from >= pieces.front().size();) {
      from -= pieces.front().size();
      pieces.remove_prefix(1);
    }
    return Bytes(pieces, from, size);
  }

  // Calls `run(const char* elements, size_t count)` for all elements, of kWidth
  // bytes each, in order: once for each run of elements within a piece, and
  // once for each element that straddles pieces, from a copy. O(pieces).
  // REQUIRES: size() is a multiple of kWidth.
  template <size_t kWidth, typename Run>
  void ForEachRun(Run run) const;

  // Copies all bytes to `to`. REQUIRES: `to` has room for size() bytes.
  void CopyTo(char* to) const {
    ForEachRun<1>([&to](const char* bytes, size_t count) {
      std::memcpy(to, bytes, count);
      to += count;
    });
  }

 private:
  Pieces pieces_;
  size_t offset_ = 0;
  size_t size_ = 0;
};

template <size_t kWidth, typename Run>
void Bytes::ForEachRun(Run run) const {
  char straddling[kWidth];
  size_t carried = 0;  // bytes in `straddling`
  size_t left = size_;
  size_t offset = offset_;
  for (size_t i = 0; left > 0; ++i, offset = 0) {
    const char* at = pieces_[i].data() + offset;
    size_t here = std::min(pieces_[i].size() - offset, left);
    if (here == 0) continue;
    left -= here;
    if (carried > 0) {
      const size_t taken = std::min(here, kWidth - carried);
      std::memcpy(straddling + carried, at, taken);
      carried += taken;
      at += taken;
      here -= taken;
      if (carried < kWidth) continue;
      run(static_cast<const char*>(straddling), size_t{1});
      carried = 0;
    }
    if (const size_t count = here / kWidth; count > 0) run(at, count);
    carried = here % kWidth;
    if (carried > 0) std::memcpy(straddling, at + here - carried, carried);
  }
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_BYTES_H_
