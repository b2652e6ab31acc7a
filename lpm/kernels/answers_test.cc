// SPDX-License-Identifier: Apache-2.0

#include "lpm/kernels/answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

// Answers of which `misses` in 4 are kNoRoute, or nearly: one bit is set.
std::vector<NextHopId> Answers(size_t count, uint64_t misses) {
  Random random(count);
  std::vector<NextHopId> answers(count, kNoRoute);
  for (NextHopId& answer : answers) {
    if (!random.Chance(misses, 4)) answer = NextHopId{1} << random.Below(32);
  }
  return answers;
}

TEST(CountNoRoute, AnyCountAndAlignment) {
  for (size_t count = 0; count <= 200; ++count) {
    const std::vector<NextHopId> answers = Answers(count, count % 5);
    const auto expected = static_cast<size_t>(
        std::count(answers.begin(), answers.end(), kNoRoute));
    for (size_t shift = 0; shift < 64; ++shift) {
      // Zeros around, which must not count, and no byte more than needed.
      const size_t bytes = count * sizeof(NextHopId);
      const auto exact = std::make_unique<char[]>(shift + bytes);
      std::fill_n(exact.get(), shift, '\0');
      if (count > 0) std::memcpy(exact.get() + shift, answers.data(), bytes);
      ASSERT_EQ(CountNoRoute(exact.get() + shift, count), expected)
          << count << " at " << shift;
      std::vector<char> amid(64 + bytes + 64, '\0');
      if (count > 0) std::memcpy(&amid[shift], answers.data(), bytes);
      ASSERT_EQ(CountNoRoute(&amid[shift], count), expected);
    }
  }
  EXPECT_EQ(CountNoRoute(nullptr, 0), 0U);
}

TEST(CountNoRoute, Many) {
  for (const size_t count : {65'535, 65'536, 65'537, 300'000}) {
    const std::vector<NextHopId> answers = Answers(count, 3);
    EXPECT_EQ(CountNoRoute(answers.data(), count),
              static_cast<size_t>(
                  std::count(answers.begin(), answers.end(), kNoRoute)));
    const std::vector<NextHopId> none(count, kNoRoute);
    EXPECT_EQ(CountNoRoute(none.data(), count), count);
    const std::vector<NextHopId> undecided(count, kUndecided);
    EXPECT_EQ(CountNoRoute(undecided.data(), count), 0U);
  }
}

}  // namespace
}  // namespace planb
