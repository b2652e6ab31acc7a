// SPDX-License-Identifier: Apache-2.0

// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above
// U+10FFFF.

#ifndef PLANB_BASE_UTF8_H_
#define PLANB_BASE_UTF8_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb {

// U+FFFD, which stands for bytes that are no character.
inline constexpr absl::string_view kReplacementCharacter = "\xef\xbf\xbd";

// Checks text byte by byte, so that the text may come in pieces.
// Thread-compatible.
class Utf8Checker {
 public:
  // Takes the next byte. False if no text continues with it; the checker must
  // not be used after that.
  bool Take(uint8_t byte) {
    if (missing_ == 0) return TakeFirst(byte);
    if (byte < lowest_ || byte > highest_) return false;
    --missing_;
    lowest_ = 0x80;
    highest_ = 0xbf;
    return true;
  }

  // True if the bytes so far are whole characters.
  bool AtEndOfCharacter() const { return missing_ == 0; }

 private:
  // The bounds of the second byte exclude overlong forms, surrogates and
  // numbers above U+10FFFF.
  bool TakeFirst(uint8_t byte) {
    if (byte < 0x80) return true;
    if (byte < 0xc2 || byte > 0xf4) return false;
    missing_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    lowest_ = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    highest_ = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
  }

  int missing_ = 0;        // bytes of this character
  uint8_t lowest_ = 0x80;  // bounds of the next of them
  uint8_t highest_ = 0xbf;
};

// The size of the character at the start of `text`, 1 to 4 bytes; 0 if `text`
// does not start with a whole character. REQUIRES: `text` is not empty.
inline size_t Utf8Length(absl::string_view text) {
  Utf8Checker checker;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!checker.Take(static_cast<uint8_t>(text[i]))) return 0;
    if (checker.AtEndOfCharacter()) return i + 1;
  }
  return 0;
}

// `text`, with U+FFFD for each byte that is not part of a character. protobuf
// cannot send or print other strings.
inline std::string ToUtf8(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = Utf8Length(text);
    absl::StrAppend(&out,
                    bytes == 0 ? kReplacementCharacter : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

inline bool IsUtf8(absl::string_view text) {
  Utf8Checker checker;
  for (const char c : text) {
    if (!checker.Take(static_cast<uint8_t>(c))) return false;
  }
  return checker.AtEndOfCharacter();
}

// The size of the character at the start of `text`; 0 if it is none, or one
// that a terminal obeys: a control character of ASCII or Latin-1, a separator
// of lines or paragraphs, an embedding or override of the direction of text.
// REQUIRES: `text` is not empty.
inline size_t PrintableLength(absl::string_view text) {
  const size_t bytes = Utf8Length(text);
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (bytes == 1) return at(0) < 0x20 || at(0) == 0x7f ? 0 : 1;
  if (bytes == 2) return at(0) == 0xc2 && at(1) < 0xa0 ? 0 : 2;
  if (bytes == 3 && at(0) == 0xe2) {
    const bool obeyed = (at(1) == 0x80 && at(2) >= 0xa8 && at(2) <= 0xae) ||
                        (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9);
    return obeyed ? 0 : 3;
  }
  return bytes;
}

// The first byte of `text` where PrintableLength is 0; npos if there is none.
inline size_t FirstUnprintable(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = PrintableLength(text.substr(i));
    if (bytes == 0) return i;
    i += bytes;
  }
  return absl::string_view::npos;
}

// `text` for a terminal: bytes that are not part of a printable character are
// escaped as in C, such as "\n" and "\x1b".
inline std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = PrintableLength(text);
    if (bytes == 0) {
      // A whole character, so that its last bytes are not taken for another.
      const size_t size = std::max<size_t>(Utf8Length(text), 1);
      out += absl::CHexEscape(text.substr(0, size));
      text.remove_prefix(size);
    } else {
      absl::StrAppend(&out, text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
  }
  return out;
}

}  // namespace planb

#endif  // PLANB_BASE_UTF8_H_
