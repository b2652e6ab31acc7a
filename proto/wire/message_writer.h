// SPDX-License-Identifier: Apache-2.0

// Fields written into a caller's buffer, as the generated code writes them:
// varints as short as can be, and nothing for a value that is the default.

#ifndef PLANB_PROTO_WIRE_MESSAGE_WRITER_H_
#define PLANB_PROTO_WIRE_MESSAGE_WRITER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace planb::wire {

constexpr size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline char* WriteVarint(uint64_t value, char* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

// Of fields whose tag is one byte, as all of ours are.
// REQUIRES: field numbers below 16.

constexpr size_t VarintFieldSize(uint64_t value) {
  return value == 0 ? 0 : 1 + VarintSize(value);
}

inline char* WriteVarintField(uint32_t tag, uint64_t value, char* to) {
  if (value == 0) return to;
  *to++ = static_cast<char>(tag);
  return WriteVarint(value, to);
}

// What comes before the bytes of a field.
constexpr size_t PrefixSize(size_t bytes) {
  return bytes == 0 ? 0 : 1 + VarintSize(bytes);
}

inline char* WritePrefix(uint32_t tag, size_t bytes, char* to) {
  return WriteVarintField(tag, bytes, to);
}

inline char* WriteBytes(absl::string_view bytes, char* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_MESSAGE_WRITER_H_
