// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/fields.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/utf8.h"

namespace planb::wire {
namespace {

// The generated parser's largest length, just below 2^31.
constexpr uint64_t kLongest = std::numeric_limits<int32_t>::max() - 16;

size_t TotalSize(Pieces pieces) {
  size_t size = 0;
  for (const absl::string_view piece : pieces) size += piece.size();
  return size;
}

}  // namespace

MessageReader::MessageReader(Pieces message)
    : MessageReader(Bytes(message, 0, TotalSize(message)), kDeepest) {}

MessageReader::MessageReader(const Bytes& message, int deepest)
    : pieces_(message.pieces()), deepest_(deepest) {
  if (message.empty()) return;
  const absl::string_view piece = pieces_.front();
  const size_t here = std::min(piece.size() - message.offset(), message.size());
  at_ = reinterpret_cast<const signed char*>(piece.data()) + message.offset();
  end_ = at_ + here;
  beyond_ = message.size() - here;
}

void MessageReader::NextPiece() {
  do {
    pieces_.remove_prefix(1);
  } while (pieces_.front().empty());
  const absl::string_view piece = pieces_.front();
  const size_t here = std::min(piece.size(), beyond_);
  at_ = reinterpret_cast<const signed char*>(piece.data());
  end_ = at_ + here;
  beyond_ -= here;
}

bool MessageReader::ReadLongVarint(int longest, uint64_t& value) {
  value = 0;
  for (int i = 0; i < longest; ++i) {
    if (at_ == end_) {
      if (beyond_ == 0) return false;
      NextPiece();
    }
    const auto byte = static_cast<uint8_t>(*at_++);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool MessageReader::ReadLongTag(uint32_t& tag) {
  uint64_t value;
  if (!ReadLongVarint(/*longest=*/5, value)) return false;
  tag = static_cast<uint32_t>(value);
  return true;
}

bool MessageReader::ReadLength(size_t& length) {
  uint64_t value;
  if (!ReadLongVarint(/*longest=*/5, value)) return false;
  if (value > kLongest || value > left()) return false;
  length = value;
  return true;
}

bool MessageReader::Skip(size_t count) {
  if (count > left()) return false;
  while (count > static_cast<size_t>(end_ - at_)) {
    count -= static_cast<size_t>(end_ - at_);
    at_ = end_;
    NextPiece();
  }
  at_ += count;
  return true;
}

bool MessageReader::ReadBytes(Bytes& bytes) {
  size_t length;
  if (!ReadLength(length)) return false;
  if (length == 0) {
    bytes = Bytes();
    return true;
  }
  const char* const at = reinterpret_cast<const char*>(at_);
  const size_t offset = static_cast<size_t>(at - pieces_.front().data());
  bytes = Bytes(pieces_, offset, length);
  return Skip(length);
}

bool MessageReader::SkipField(uint32_t tag) {
  const auto type = static_cast<WireType>(tag & 7);
  return type == WireType::kStartGroup ? SkipGroup(tag >> 3) : SkipValue(tag);
}

bool MessageReader::SkipValue(uint32_t tag) {
  if (tag >> 3 == 0) return false;
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint: {
      uint64_t value;
      return ReadVarint(value);
    }
    case WireType::kFixed64:
      return Skip(8);
    case WireType::kLengthDelimited: {
      size_t length;
      return ReadLength(length) && Skip(length);
    }
    case WireType::kFixed32:
      return Skip(4);
    default:
      return false;
  }
}

// Not recursive: the only state is the numbers of the open groups.
bool MessageReader::SkipGroup(uint32_t number) {
  std::array<uint32_t, kDeepest> open;
  int depth = 0;
  uint32_t tag = Tag(number, WireType::kStartGroup);
  while (true) {
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::kStartGroup:
        if (tag >> 3 == 0 || depth == deepest_) return false;
        open[static_cast<size_t>(depth++)] = tag >> 3;
        break;
      case WireType::kEndGroup:
        if (open[static_cast<size_t>(--depth)] != tag >> 3) return false;
        if (depth == 0) return true;
        break;
      default:
        if (!SkipValue(tag)) return false;
    }
    if (!ReadTag(tag)) return false;
  }
}

bool IsUtf8(const Bytes& text) {
  Utf8Checker checker;
  bool valid = true;
  text.ForEachRun<1>([&](const char* at, size_t count) {
    for (size_t i = 0; i < count && valid; ++i) {
      valid = checker.Take(static_cast<uint8_t>(at[i]));
    }
  });
  return valid && checker.AtEndOfCharacter();
}

}  // namespace planb::wire
