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

// Of fields whose tag is one octet, as all of ours are.
// REQUIRES: field numbers below 16.

constexpr size_t VarintFieldSize(uint64_t value) {
  return value == 0 ? 0 : 1 + VarintSize(value);
}

inline char* WriteVarintField(uint32_t tag, uint64_t value, char* to) {
  if (value == 0) return to;
  *to++ = static_cast<char>(tag);
  return WriteVarint(value, to);
}

// What comes before the octets of a field.
constexpr size_t PrefixSize(size_t octets) {
  return octets == 0 ? 0 : 1 + VarintSize(octets);
}

inline char* WritePrefix(uint32_t tag, size_t octets, char* to) {
  return WriteVarintField(tag, octets, to);
}

inline char* WriteOctets(absl::string_view octets, char* to) {
  if (!octets.empty()) std::memcpy(to, octets.data(), octets.size());
  return to + octets.size();
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_MESSAGE_WRITER_H_
