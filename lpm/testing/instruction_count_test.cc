// SPDX-License-Identifier: Apache-2.0

// Counts what can be counted by hand.

#include "lpm/testing/instruction_count.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace planb {
namespace {

class InstructionCountTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto nothing = CountInstructions([] {});
    if (!nothing.ok()) GTEST_SKIP() << nothing.status().message();
  }
};

#if defined(__x86_64__)

// The same function with and without what is to be counted: the difference
// leaves out what the compiler puts around it.
TEST_F(InstructionCountTest, StraightCode) {
  const uint64_t none = *CountInstructions([] { __asm__ volatile(""); });
  EXPECT_LE(none, 8U) << "a frame at most";
  EXPECT_EQ(*CountInstructions([] { __asm__ volatile("nop"); }), none + 1);
  EXPECT_EQ(*CountInstructions(
                [] { __asm__ volatile(".rept 1000\n\tnop\n\t.endr"); }),
            none + 1000);
}

TEST_F(InstructionCountTest, Loop) {
  for (const uint64_t turns : {1, 2, 3, 1000}) {
    const auto region = [turns] {
      uint64_t left = turns;
      __asm__ volatile("1: dec %0\n\tnop\n\tjnz 1b" : "+r"(left) : : "cc");
    };
    const auto twice = [turns] {
      uint64_t left = 2 * turns;
      __asm__ volatile("1: dec %0\n\tnop\n\tjnz 1b" : "+r"(left) : : "cc");
    };
    // The one has an addition more than the other.
    EXPECT_NEAR(static_cast<double>(*CountInstructions(twice)),
                static_cast<double>(*CountInstructions(region) + 3 * turns), 1)
        << turns;
  }
}

TEST_F(InstructionCountTest, RepeatedInstructionIsOne) {
  std::vector<char> from(3000, 'x'), to(3000), filled(3000);
  const auto move = [&](size_t bytes) {
    void* destination = to.data();
    const void* source = from.data();
    __asm__ volatile("rep movsb"
                     : "+D"(destination), "+S"(source), "+c"(bytes)
                     :
                     : "memory");
    return static_cast<char*>(destination) == to.data() + to.size();
  };
  const auto fill = [&](size_t words) {
    void* destination = filled.data();
    __asm__ volatile("rep stosq"
                     : "+D"(destination), "+c"(words)
                     : "a"(uint64_t{0x7878787878787878})
                     : "memory");
  };
  bool all = false;
  const uint64_t one = *CountInstructions([&] { all = move(1); });
  EXPECT_FALSE(all);
  EXPECT_EQ(*CountInstructions([&] { all = move(3000); }), one);
  EXPECT_TRUE(all) << "registers are as if it had been done in steps";
  EXPECT_EQ(to, from);
  EXPECT_EQ(*CountInstructions([&] { fill(1); }),
            *CountInstructions([&] { fill(375); }));
  EXPECT_EQ(filled, from);
}

TEST_F(InstructionCountTest, SameEveryTime) {
  std::string text;
  const auto region = [&text] {
    text.assign(100, 'a');
    for (char& c : text) c = static_cast<char>(c + (text.size() & 7));
  };
  region();
  const uint64_t first = *CountInstructions(region);
  EXPECT_GE(first, 100U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*CountInstructions(region), first);
}

#endif  // defined(__x86_64__)

// Else every test above may be skipped for no reason.
TEST(InstructionCount, CountsOrSaysWhyNot) {
  const auto count = CountInstructions([] {});
  if (!count.ok()) {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(count.status().message(), "");
  }
}

}  // namespace
}  // namespace planb
