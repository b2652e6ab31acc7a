// SPDX-License-Identifier: Apache-2.0

// The pool of lines up to the end of what entries have names for. (Of bytes
// here, as 2 GiB of lines would show no more.)

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lpm/fib/fib_memory.h"

namespace planb {
namespace {

constexpr uint32_t kBlock = 256;
constexpr size_t kBlocks = kMaxPayload / kBlock;

void ExpectAllNamed(BlockPool<char>& pool) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(pool.Allocate(kBlock), i * kBlock);
  }
  EXPECT_FALSE(pool.overflow());
  pool.Allocate(kBlock);
  EXPECT_TRUE(pool.overflow());
}

// Growing by half must not stop it two thirds of the way.
TEST(BlockPool, GrowsToTheLastName) {
  BlockPool<char> pool(16, kBlock);
  ExpectAllNamed(pool);
}

// Room for changes may be more than there are names.
TEST(BlockPool, UsesNoMemoryBeyondTheLastName) {
  BlockPool<char> pool(16, kBlock);
  constexpr size_t kSize = kMaxPayload + 100 * kBlock;
  const auto memory = std::make_unique_for_overwrite<char[]>(kSize);
  pool.MoveTo(memory.get(), kSize);
  ExpectAllNamed(pool);
}

// A reader may read the memory that the pool was given to work on.
TEST(BlockPool, ABlockPastTheLimitIsNotInMemoryThatWasGiven) {
  BlockPool<char> pool(16, kBlock, 4 * kBlock);
  for (int i = 0; i < 4; ++i) pool.Allocate(kBlock);
  std::vector<char> memory(4 * kBlock, 'x');
  for (uint32_t i = 0; i < 4; ++i) {
    std::fill_n(pool.at(i * kBlock), kBlock, 'x');
  }
  pool.MoveTo(memory.data(), memory.size());
  std::fill_n(pool.at(pool.Allocate(kBlock)), kBlock, 'y');
  EXPECT_TRUE(pool.overflow());
  EXPECT_EQ(memory, std::vector<char>(4 * kBlock, 'x'));
}

}  // namespace
}  // namespace planb
