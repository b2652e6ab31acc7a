// SPDX-License-Identifier: Apache-2.0

// The fields of a message, read from pieces in place and written into a
// caller's buffer.
//
// MessageReader accepts and refuses what the C++ parser does that protoc 3.21
// generates. A tag is a varint of at most 5 bytes, of which 32 bits count. A
// value has at most 10 bytes, of which 64 bits count. A length has at most 5
// bytes and is below 2^31. Overlong encodings are accepted. Groups nest up to
// 100 deep. The parser's limit on a whole message, 2 GiB, is not checked here:
// the transport has a lower one.

#ifndef PLANB_PROTO_WIRE_FIELDS_H_
#define PLANB_PROTO_WIRE_FIELDS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "proto/wire/bytes.h"

namespace planb::wire {

// What follows a field's number in its tag.
enum class WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr uint32_t Tag(uint32_t number, WireType type) {
  return number << 3 | static_cast<uint32_t>(type);
}

// Reads the fields of a message in order. A method that returns false has found
// the message malformed; no other method may be called after that. Never
// allocates. Thread-compatible.
class MessageReader {
 public:
  // The generated parser's limit on nested groups and submessages.
  static constexpr int kDeepest = 100;

  // Reads a whole message, or a submessage in which groups may nest `deepest`
  // deep. Valid as long as the pieces are.
  // REQUIRES: 0 <= deepest <= kDeepest.
  explicit MessageReader(Pieces message);
  MessageReader(const Bytes& message, int deepest);

  // True after the last field.
  bool AtEnd() const { return at_ == end_ && beyond_ == 0; }
  // The bytes after the last one that was read.
  size_t left() const { return static_cast<size_t>(end_ - at_) + beyond_; }

  bool ReadTag(uint32_t& tag) {
    if (at_ < end_ && *at_ >= 0) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): it is not negative.
      tag = static_cast<uint32_t>(*at_++);
      return true;
    }
    return ReadLongTag(tag);
  }
  bool ReadVarint(uint64_t& value) {
    if (at_ < end_ && *at_ >= 0) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): it is not negative.
      value = static_cast<uint64_t>(*at_++);
      return true;
    }
    return ReadLongVarint(/*longest=*/10, value);
  }
  // Reads a length and refers to that many bytes. O(pieces).
  bool ReadBytes(Bytes& bytes);
  // Skips the value that follows `tag`, of any type. False for the end of a
  // group, since its start was not read. O(pieces + fields in the group).
  bool SkipField(uint32_t tag);

 private:
  bool ReadLongTag(uint32_t& tag);
  bool ReadLongVarint(int longest, uint64_t& value);
  bool ReadLength(size_t& length);
  bool SkipGroup(uint32_t number);
  // Skips the value of a field that is not a group.
  bool SkipValue(uint32_t tag);
  bool Skip(size_t count);
  // Moves to the next piece that has bytes. REQUIRES: at_ == end_, beyond_ > 0.
  void NextPiece();

  Pieces pieces_;  // the current one and those after it
  const signed char* at_ = nullptr;
  const signed char* end_ = nullptr;  // of the piece, or of the message in it
  size_t beyond_ = 0;                 // bytes of the message in later pieces
  const int deepest_;
};

// True if `text` is UTF-8. A proto3 parser refuses a message with a `string`
// that is not, even if the field occurs again. O(bytes + pieces).
bool IsUtf8(const Bytes& text);

// Writes fields as the generated code does: varints are as short as possible,
// and a default value takes no bytes.

constexpr size_t VarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline char* WriteVarint(uint64_t value, char* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

// REQUIRES of all below: the field number is below 16, so the tag is one byte.

constexpr size_t VarintFieldSize(uint64_t value) {
  return value == 0 ? 0 : 1 + VarintSize(value);
}

inline char* WriteVarintField(uint32_t tag, uint64_t value, char* to) {
  if (value == 0) return to;
  *to++ = static_cast<char>(tag);
  return WriteVarint(value, to);
}

// The prefix of a bytes field is its tag and its size.
constexpr size_t PrefixSize(size_t size) { return VarintFieldSize(size); }

inline char* WritePrefix(uint32_t tag, size_t size, char* to) {
  return WriteVarintField(tag, size, to);
}

inline char* WriteBytes(absl::string_view bytes, char* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_FIELDS_H_
