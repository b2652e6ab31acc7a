// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "proto/wire/testing/made_up_messages.h"

namespace planb::wire {
namespace {

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

// ForEachRun gives out all bytes, in order; and in place, but for elements
// that straddle pieces: at most one for each piece.
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

// All that lie within `message` as cut.
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

// So that one element straddles up to sixteen.
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

TEST(Bytes, NoneAtAll) {
  const Bytes none;
  EXPECT_TRUE(none.empty());
  none.ForEachRun<16>([](const char*, size_t) { FAIL(); });
  none.CopyTo(nullptr);
  const std::vector<absl::string_view> hollow(3);
  Bytes(hollow, 0, 0).ForEachRun<4>([](const char*, size_t) { FAIL(); });
}

}  // namespace
}  // namespace planb::wire
