// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/utf8.h"

#include <cstddef>
#include <cstdint>

namespace planb::wire {
namespace {

// A character as far as it has been read, which may be in another piece than
// its rest.
class Utf8Reader {
 public:
  // False if no text goes on with `byte`.
  bool Read(uint8_t byte) {
    if (missing_ == 0) return ReadFirst(byte);
    if (byte < lowest_ || byte > highest_) return false;
    --missing_;
    lowest_ = 0x80;
    highest_ = 0xbf;
    return true;
  }

  bool AtEndOfCharacter() const { return missing_ == 0; }

 private:
  // The bounds of the second byte are what keeps a form from being overlong,
  // a surrogate or too large.
  bool ReadFirst(uint8_t byte) {
    if (byte < 0x80) return true;
    if (byte < 0xc2 || byte > 0xf4) return false;
    missing_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    lowest_ = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    highest_ = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
  }

  int missing_ = 0;                         // bytes of this character
  uint8_t lowest_ = 0x80, highest_ = 0xbf;  // that the next of them may be
};

}  // namespace

bool IsUtf8(const Bytes& bytes) {
  Utf8Reader reader;
  bool valid = true;
  bytes.ForEachRun<1>([&](const char* at, size_t count) {
    for (size_t i = 0; i < count && valid; ++i) {
      valid = reader.Read(static_cast<uint8_t>(at[i]));
    }
  });
  return valid && reader.AtEndOfCharacter();
}

}  // namespace planb::wire
