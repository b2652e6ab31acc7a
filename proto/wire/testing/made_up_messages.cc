// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/testing/made_up_messages.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace planb::wire {
namespace {

// Lengths near the widths of elements and near limits of varints.
constexpr size_t kLengths[] = {0, 1, 3, 4, 15, 16, 17, 32, 127, 128, 160};
constexpr uint32_t kNumbers[] = {10, 15, 16, 2047, 2048, (1u << 29) - 1};
constexpr absl::string_view kTexts[] = {
    "",         "default",      "vrf-7",
    "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x92\xa1 x",
    "\x7f",     "\xef\xbf\xbf"};

template <typename T, size_t kSize>
T Choose(const T (&from)[kSize], Random& random) {
  return from[Below(random, kSize)];
}

std::string RandomBytes(size_t size, Random& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

int RandomOverlong(Random& random) {
  return OneIn(random, 16) ? static_cast<int>(Below(random, 4)) : 0;
}

std::string RandomVarint(Random& random) {
  return Varint(random() >> Below(random, 64), RandomOverlong(random));
}

std::string RandomFields(int depth, Random& random);

std::string RandomDelimited(int depth, Random& random) {
  switch (Below(random, 8)) {
    case 0:
    case 1:
      return depth > 0 ? RandomFields(depth - 1, random) : "";
    case 2:
      return RandomBytes(Choose(kLengths, random), random);
    case 3:
      return std::string(Choose(kLengths, random), 'a');
    default:
      return std::string(Choose(kTexts, random));
  }
}

std::string RandomField(int depth, Random& random) {
  // Field 5 is a varint in a request and a submessage in a response.
  const uint32_t number = OneIn(random, 8)
                              ? Choose(kNumbers, random)
                              : static_cast<uint32_t>(Below(random, 9) + 1);
  const int overlong = RandomOverlong(random);
  switch (Below(random, 8)) {
    case 0:
      return Key(number, 1, overlong) + RandomBytes(8, random);
    case 1:
      return Key(number, 5, overlong) + RandomBytes(4, random);
    case 2:
      if (depth == 0) return "";
      return absl::StrCat(Key(number, 3, overlong),
                          RandomFields(depth - 1, random), Key(number, 4));
    case 3:
    case 4:
      return Key(number, 0, overlong) + RandomVarint(random);
    default: {
      const std::string bytes = RandomDelimited(depth, random);
      return absl::StrCat(Key(number, 2, overlong),
                          Varint(bytes.size(), RandomOverlong(random)), bytes);
    }
  }
}

std::string RandomFields(int depth, Random& random) {
  std::string fields;
  for (uint64_t n = Below(random, 5); n > 0; --n) {
    fields += RandomField(depth, random);
  }
  return fields;
}

// A byte with a meaning on the wire.
char RandomTelling(Random& random) {
  constexpr uint8_t kTelling[] = {0x00, 0x01, 0x04, 0x0c, 0x7f,
                                  0x80, 0x81, 0xff, 0xc0, 0xed};
  if (OneIn(random, 2)) return static_cast<char>(Below(random, 80));
  return static_cast<char>(Choose(kTelling, random));
}

}  // namespace

std::string Varint(uint64_t value, int overlong) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  bytes += static_cast<char>(value);
  for (; overlong > 0; --overlong) {
    bytes.back() = static_cast<char>(bytes.back() | 0x80);
    bytes += '\0';
  }
  return bytes;
}

std::string Key(uint32_t number, uint32_t wire_type, int overlong) {
  return Varint(uint64_t{number} << 3 | wire_type, overlong);
}

std::string VarintField(uint32_t number, uint64_t value) {
  return Key(number, 0) + Varint(value);
}

std::string BytesField(uint32_t number, absl::string_view bytes) {
  return absl::StrCat(Key(number, 2), Varint(bytes.size()), bytes);
}

std::string Groups(uint32_t number, int depth, absl::string_view fields) {
  std::string begin, end;
  for (; depth > 0; --depth) {
    begin += Key(number, 3);
    end += Key(number, 4);
  }
  return absl::StrCat(begin, fields, end);
}

std::string RandomMessage(Random& random) {
  return RandomFields(/*depth=*/4, random) + RandomFields(/*depth=*/4, random) +
         RandomFields(/*depth=*/1, random);
}

std::string Mutation(std::string message, Random& random) {
  for (uint64_t n = Below(random, 3) + 1; n > 0; --n) {
    const size_t at = Below(random, message.size() + 1);
    const size_t count = Below(random, message.size() - at + 1);
    switch (Below(random, 6)) {
      case 0:
        message.insert(at, 1, RandomTelling(random));
        break;
      case 1:
        message.erase(at, Below(random, 3));
        break;
      case 2:
        message.insert(Below(random, message.size() + 1),
                       message.substr(at, count));
        break;
      case 3:
        message.resize(at);
        break;
      case 4:
        if (at < message.size()) {
          message[at] =
              static_cast<char>(message[at] ^ (1 << Below(random, 8)));
        }
        break;
      case 5:
        if (at < message.size()) message[at] = RandomTelling(random);
        break;
    }
  }
  return message;
}

}  // namespace planb::wire
