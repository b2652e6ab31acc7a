// SPDX-License-Identifier: Apache-2.0

// The limits of the wire format. Each message is read like the generated
// parsers read it, for every cut into two pieces.

#include "proto/wire/fields.h"

#include <google/protobuf/parse_context.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/utf8.h"
#include "proto/wire/bytes.h"
#include "proto/wire/testing/made_up_messages.h"
#include "proto/wire/testing/readings.h"

namespace planb::wire {
namespace {

struct Accepted {
  bool as_request;
  bool as_response;
};

// Checks one message. Returns whether it is valid as either kind.
Accepted Check(const std::string& message) {
  bool accepted[2] = {};
  for (int i = 0; i < 2; ++i) {
    const Kind& kind = kKinds[i];
    const std::string expected = kind.generated(message);
    accepted[i] = expected != kRefused;
    for (size_t cut = 0; cut <= message.size(); ++cut) {
      const CutMessage pieces(message, {cut});
      EXPECT_EQ(kind.by_hand(pieces.pieces()), expected)
          << kind.name << " cut at " << cut << ": "
          << absl::CHexEscape(message);
    }
    // The generated parser gives the same result from pieces.
    const CutMessage halves(message, {message.size() / 2});
    EXPECT_EQ(kind.streamed(halves.pieces()), expected);
  }
  return {accepted[0], accepted[1]};
}

// Expect that a message is valid as both kinds, or as neither.
void CheckAccepted(const std::string& message) {
  const Accepted accepted = Check(message);
  EXPECT_TRUE(accepted.as_request) << absl::CHexEscape(message);
  EXPECT_TRUE(accepted.as_response) << absl::CHexEscape(message);
}
void CheckRefused(const std::string& message) {
  const Accepted accepted = Check(message);
  EXPECT_FALSE(accepted.as_request) << absl::CHexEscape(message);
  EXPECT_FALSE(accepted.as_response) << absl::CHexEscape(message);
}

std::string Raw(std::initializer_list<int> bytes) {
  std::string message;
  for (const int byte : bytes) message += static_cast<char>(byte);
  return message;
}

const std::string kSound = VarintField(1, 300);

TEST(MessageReader, TagsUpToFiveBytes) {
  for (const uint32_t number : {1, 9, 2047}) {
    for (int overlong = 0; overlong < 8; ++overlong) {
      Check(Key(number, 0, overlong) + Varint(7));
    }
  }
  CheckAccepted(Key(1, 0, /*overlong=*/4) + Varint(7));
  CheckRefused(Key(1, 0, /*overlong=*/5) + Varint(7));
}

TEST(MessageReader, TagsBeyondThirtyTwoBits) {
  for (int last = 0; last < 256; ++last) {
    // Field 1, but for what the last byte adds.
    Check(Raw({0x88, 0x80, 0x80, 0x80, last, 0x07}));
    Check(Raw({0xff, 0xff, 0xff, 0xff, last, 0x07}));
    Check(Raw({0x80, 0x80, 0x80, 0x80, last, 0x07}));
  }
}

TEST(MessageReader, VarintsUpToTenBytes) {
  for (const uint32_t number : {1, 2, 5, 6, 7, 9}) {
    for (const uint64_t value :
         {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 32,
          (uint64_t{1} << 32) + 5, uint64_t{1} << 63, ~uint64_t{0}}) {
      for (int overlong = 0; overlong < 12; ++overlong) {
        Check(Key(number, 0) + Varint(value, overlong));
      }
    }
    for (int last = 0; last < 256; ++last) {
      std::string nine(9, '\xff');
      Check(Key(number, 0) + nine + Raw({last}));
      nine.assign(9, '\x80');
      Check(Key(number, 0) + nine + Raw({last}));
      Check(Key(number, 0) + nine + Raw({0x80, last}));
    }
  }
}

TEST(MessageReader, Lengths) {
  for (const uint32_t number : {2, 3, 4, 5, 8, 9}) {
    const std::string key = Key(number, 2);
    for (int overlong = 0; overlong < 8; ++overlong) {
      Check(key + Varint(0, overlong));
      Check(key + Varint(4, overlong) + "\x08\x01\x08\x01");
    }
    // Lengths beyond the end of the message, up to more than 64 bits.
    for (int bits = 0; bits < 64; ++bits) {
      Check(key + Varint(uint64_t{1} << bits) + "\x08");
      Check(key + Varint((uint64_t{1} << bits) - 1) + "\x08");
    }
    for (int last = 0; last < 256; ++last) {
      Check(key + Raw({0x82, 0x80, 0x80, 0x80, last}) + "\x08\x01");
    }
    Check(key + std::string(9, '\xff') + "\x01");
    Check(key + std::string(9, '\x80') + "\x01");
  }
  CheckAccepted(Key(9, 2) + Varint(0, /*overlong=*/4));
  CheckRefused(Key(9, 2) + Varint(0, /*overlong=*/5));
}

// The bytes themselves cannot be read; only their number matters. The generated
// parser's reader of lengths is the reference.
TEST(MessageReader, LengthsOfTwoGibibytes) {
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  void* const bytes = mmap(nullptr, kMost + 3, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  for (uint64_t length = kMost - 30; length <= kMost + 3; ++length) {
    const std::string size = Varint(length);
    const char* at = size.data();
    google::protobuf::internal::ReadSize(&at);
    const std::string key = Key(10, 2) + size;  // unknown: skipped
    const std::vector<absl::string_view> pieces = {
        key, {static_cast<const char*>(bytes), length}};
    EXPECT_EQ(kRequest.by_hand(pieces) != kRefused, at != nullptr) << length;
    EXPECT_EQ(kResponse.by_hand(pieces) != kRefused, at != nullptr) << length;
  }
  munmap(bytes, kMost + 3);
}

TEST(MessageReader, EveryTypeForEveryField) {
  for (uint32_t number = 0; number <= 15; ++number) {
    for (uint32_t type = 0; type < 8; ++type) {
      for (const size_t size : {0, 1, 3, 4, 5, 7, 8, 9}) {
        const std::string field = Key(number, type) + std::string(size, '\x01');
        Check(field);
        Check(kSound + field);
        Check(field + kSound);
      }
    }
  }
}

TEST(MessageReader, GroupsToTheLimit) {
  for (const uint32_t number : {1, 5, 9, 2048}) {
    for (const int depth : {1, 2, 98, 99, 100, 101, 102}) {
      Check(Groups(number, depth, kSound) + kSound);
      // In `error`, groups of a response may nest one level less.
      Check(BytesField(5, Groups(number, depth, kSound)));
      Check(BytesField(9, Groups(number, depth, kSound)));
    }
  }
  CheckAccepted(Groups(9, 100, kSound));
  CheckRefused(Groups(9, 101, kSound));
  EXPECT_TRUE(Check(BytesField(5, Groups(9, 99, ""))).as_response);
  EXPECT_FALSE(Check(BytesField(5, Groups(9, 100, ""))).as_response);
}

TEST(MessageReader, GroupsThatDoNotMatch) {
  const std::string begin9 = Key(9, 3), end9 = Key(9, 4);
  const std::string begin8 = Key(8, 3), end8 = Key(8, 4);
  for (const std::string& message :
       {begin9, end9, begin9 + end8, begin9 + begin8 + end9 + end8,
        begin9 + begin8 + end8, begin9 + end9 + end9, begin9 + kSound,
        kSound + end9, begin9 + Raw({0}) + end9, begin9 + Key(0, 0) + end9,
        begin9 + Key(0, 3) + Key(0, 4) + end9, Key(0, 3) + Key(0, 4),
        begin9 + Key(7, 2) + Varint(200) + end9, begin9 + Key(1, 6) + end9,
        // The group ends outside the submessage in which it starts.
        Key(5, 2) + Varint(1) + begin9 + end9, BytesField(5, end9)}) {
    Check(message);
    Check(message + kSound);
    EXPECT_FALSE(Check(message).as_response) << absl::CHexEscape(message);
  }
  CheckAccepted(begin9 + begin8 + kSound + end8 + begin9 + end9 + end9);
  // Ends by an overlong tag.
  CheckAccepted(begin9 + Key(9, 4, /*overlong=*/2));
}

TEST(MessageReader, MessagesCutAnywhere) {
  const std::string message =
      kSound + Groups(9, 2, VarintField(3, 1) + BytesField(4, "text")) +
      Key(10, 1) + "12345678" + Key(11, 5) + "1234" +
      BytesField(5, VarintField(1, 500) + BytesField(2, "REASON")) +
      BytesField(4, "default") + BytesField(2048, "unknown");
  EXPECT_TRUE(Check(message).as_request);
  EXPECT_TRUE(Check(message).as_response);
  for (size_t size = 0; size < message.size(); ++size) {
    Check(message.substr(0, size));
    // One byte is missing in the middle.
    Check(message.substr(0, size) + message.substr(size + 1));
  }
}

constexpr absl::string_view kMessage =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";

bool Within(const char* at, size_t size, Pieces pieces) {
  for (const absl::string_view piece : pieces) {
    if (!piece.empty() && at >= piece.data() &&
        at + size <= piece.data() + piece.size()) {
      return true;
    }
  }
  return false;
}

// ForEachRun delivers all bytes in order. It copies only elements that straddle
// pieces, at most one for each piece.
template <size_t kWidth>
void CheckRuns(const Bytes& bytes, absl::string_view expected, Pieces pieces) {
  std::string all;
  size_t copied = 0;
  bytes.ForEachRun<kWidth>([&](const char* elements, size_t count) {
    ASSERT_GT(count, 0u);
    all.append(elements, count * kWidth);
    if (!Within(elements, count * kWidth, pieces)) {
      EXPECT_EQ(count, 1u);
      ++copied;
    }
  });
  EXPECT_EQ(all, std::string(expected.data(), expected.size()));
  EXPECT_LT(copied, pieces.size());
}

// Checks all ranges of the cut message.
void CheckAll(absl::string_view message, const std::vector<size_t>& cuts) {
  const CutMessage cut(message, cuts);
  Pieces pieces = cut.pieces();
  for (size_t first = 0; !pieces.empty();
       first += pieces.front().size(), pieces.remove_prefix(1)) {
    for (size_t offset = 0; offset <= pieces.front().size(); ++offset) {
      const absl::string_view rest = message.substr(first + offset);
      for (size_t size = 0; size <= rest.size(); ++size) {
        const Bytes bytes(pieces, offset, size);
        ASSERT_EQ(bytes.size(), size);
        ASSERT_EQ(bytes.empty(), size == 0);
        const absl::string_view expected = rest.substr(0, size);
        std::string copy(size, '\0');
        bytes.CopyTo(copy.data());
        ASSERT_EQ(copy, expected);
        CheckRuns<1>(bytes, expected, pieces);
        if (size % 4 == 0) CheckRuns<4>(bytes, expected, pieces);
        if (size % 8 == 0) CheckRuns<8>(bytes, expected, pieces);
        if (size % 16 == 0) CheckRuns<16>(bytes, expected, pieces);
      }
    }
  }
}

TEST(Bytes, AnywhereInTwoPieces) {
  for (size_t cut = 0; cut <= 20; ++cut) {
    CheckAll(kMessage.substr(0, 20), {cut});
  }
}

TEST(Bytes, AnywhereInThreePieces) {
  for (size_t first = 0; first <= 18; ++first) {
    for (size_t second = first; second <= 18; ++second) {
      CheckAll(kMessage.substr(0, 18), {first, second});
    }
  }
}

// One element straddles up to sixteen pieces.
TEST(Bytes, AnywhereInPiecesOfOneByte) {
  std::vector<size_t> cuts;
  for (size_t i = 0; i <= kMessage.size(); ++i) {
    cuts.push_back(i);
    if (i % 3 == 0) cuts.push_back(i);
  }
  CheckAll(kMessage, cuts);
}

TEST(Bytes, OneRunWithinOnePiece) {
  const Bytes bytes({&kMessage, 1}, 3, 48);
  int runs = 0;
  bytes.ForEachRun<16>([&](const char* elements, size_t count) {
    ++runs;
    EXPECT_EQ(elements, kMessage.data() + 3);
    EXPECT_EQ(count, 3u);
  });
  EXPECT_EQ(runs, 1);
}

TEST(Bytes, Empty) {
  const Bytes none;
  EXPECT_TRUE(none.empty());
  none.ForEachRun<16>([](const char*, size_t) { FAIL(); });
  none.CopyTo(nullptr);
  const std::vector<absl::string_view> hollow(3);
  Bytes(hollow, 0, 0).ForEachRun<4>([](const char*, size_t) { FAIL(); });
}

// base/utf8_test.cc compares planb::IsUtf8 with protobuf.
TEST(IsUtf8, CharactersCutAnywhere) {
  for (const std::string text :
       {"a\xc3\xa4z", "\xe2\x82\xac", "\xf4\x8f\xbf\xbf", "\xed\xa0\x80",
        "\xf0\x9f\x92", "a\xc3\xa4\xf0\x9f\x92\xa1\xe2\x82\xac"}) {
    for (size_t first = 0; first <= text.size(); ++first) {
      for (size_t second = first; second <= text.size(); ++second) {
        const CutMessage cut(text, {first, second});
        EXPECT_EQ(IsUtf8(Bytes(cut.pieces(), 0, text.size())),
                  planb::IsUtf8(text));
      }
    }
  }
}

}  // namespace
}  // namespace planb::wire
