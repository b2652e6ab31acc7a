#include "benchmarks/serving/visibility/server_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace planb::visibility {
namespace {

constexpr size_t kBlock = 64 << 20;
constexpr size_t kSlack = 8 << 20;

// Touches and gives back a block of memory.
void Touch() {
  void* const block = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBlock);
  ASSERT_EQ(munmap(block, kBlock), 0);
}

TEST(ServerMemoryTest, PeaksCountFromTheReset) {
  const auto before = MemoryOf(getpid());
  ASSERT_TRUE(before.ok());
  EXPECT_GT(before->resident, 1U << 20);
  Touch();
  const auto touched = MemoryOf(getpid());
  EXPECT_GT(touched->peak, before->resident + kBlock - kSlack);
  EXPECT_LT(touched->resident, before->resident + kSlack);
  ASSERT_TRUE(ResetPeak(getpid()).ok());
  EXPECT_LT(MemoryOf(getpid())->peak, before->resident + kSlack);
}

TEST(ServerMemoryTest, NoProcessIsAnError) {
  EXPECT_FALSE(MemoryOf(-1).ok());
  EXPECT_FALSE(ResetPeak(-1).ok());
}

}  // namespace
}  // namespace planb::visibility
