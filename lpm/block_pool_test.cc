// The pool of lines up to the end of what entries have names for. (Of octets
// here, as 2 GiB of lines would show no more.)

#include "lpm/block_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace planb {
namespace {

constexpr uint32_t kBlock = 256;
constexpr size_t kBlocks = kMaxPayload / kBlock;

void ExpectAllNamed(BlockPool<char>& pool) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(pool.Allocate(kBlock), i * kBlock);
  }
  EXPECT_DEATH(pool.Allocate(kBlock), "outgrows its format");
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

}  // namespace
}  // namespace planb
