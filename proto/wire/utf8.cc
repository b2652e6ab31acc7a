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
  // False if no text goes on with `octet`.
  bool Read(uint8_t octet) {
    if (missing_ == 0) return ReadFirst(octet);
    if (octet < lowest_ || octet > highest_) return false;
    --missing_;
    lowest_ = 0x80;
    highest_ = 0xbf;
    return true;
  }

  bool AtEndOfCharacter() const { return missing_ == 0; }

 private:
  // The bounds of the second octet are what keeps a form from being overlong,
  // a surrogate or too large.
  bool ReadFirst(uint8_t octet) {
    if (octet < 0x80) return true;
    if (octet < 0xc2 || octet > 0xf4) return false;
    missing_ = octet < 0xe0 ? 1 : octet < 0xf0 ? 2 : 3;
    lowest_ = octet == 0xe0 ? 0xa0 : octet == 0xf0 ? 0x90 : 0x80;
    highest_ = octet == 0xed ? 0x9f : octet == 0xf4 ? 0x8f : 0xbf;
    return true;
  }

  int missing_ = 0;                         // octets of this character
  uint8_t lowest_ = 0x80, highest_ = 0xbf;  // that the next of them may be
};

}  // namespace

bool IsUtf8(const Octets& octets) {
  Utf8Reader reader;
  bool valid = true;
  octets.ForEachRun<1>([&](const char* at, size_t count) {
    for (size_t i = 0; i < count && valid; ++i) {
      valid = reader.Read(static_cast<uint8_t>(at[i]));
    }
  });
  return valid && reader.AtEndOfCharacter();
}

}  // namespace planb::wire
