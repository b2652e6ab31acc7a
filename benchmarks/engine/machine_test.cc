// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace planb {
namespace {

TEST(Cycles, ClockAdvances) {
  const uint64_t begin = Ticks();
  EXPECT_GT(CyclesPerTick(), 0);
  EXPECT_GT(Ticks(), begin);
}

// Wide bounds: from a processor at a tenth of its rate to one at ten times.
TEST(Cycles, RatesArePlausible) {
  EXPECT_GT(TicksPerNanosecond(), 0.1);
  EXPECT_LT(TicksPerNanosecond(), 10);
  double best = 0;
  for (int i = 0; i < 20; ++i) best = std::max(best, CyclesPerTick());
  EXPECT_GT(best * TicksPerNanosecond(), 0.3);  // GHz
  EXPECT_LT(best * TicksPerNanosecond(), 8);
}

TEST(PinThread, MovesToTheCore) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::thread([cpu] {
      ASSERT_TRUE(PinThread(pthread_self(), static_cast<int>(cpu)).ok());
      EXPECT_EQ(sched_getcpu(), static_cast<int>(cpu));
    }).join();
  }
}

TEST(PinThread, RefusesCoresThatAreNot) {
  EXPECT_TRUE(PinThread(pthread_self(), -1).ok());
  EXPECT_FALSE(PinThread(pthread_self(), CPU_SETSIZE - 1).ok());
  EXPECT_FALSE(PinThread(pthread_self(), 1 << 20).ok());
}

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

TEST(ProcessMemory, PeaksCountFromTheReset) {
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

TEST(ProcessMemory, NoProcessIsAnError) {
  EXPECT_FALSE(MemoryOf(-1).ok());
  EXPECT_FALSE(ResetPeak(-1).ok());
}

// 1, 2, ..., count, largest first.
std::vector<double> Descending(int count) {
  std::vector<double> values;
  for (int i = count; i > 0; --i) values.push_back(i);
  return values;
}

TEST(Percentiles, AreRanks) {
  const Percentiles many = PercentilesOf(Descending(10'000));
  EXPECT_EQ(many.median, 5000);
  EXPECT_EQ(many.p99, 9900);
  EXPECT_EQ(many.max, 10'000);
  const Percentiles few = PercentilesOf(Descending(11));
  EXPECT_EQ(few.median, 6);
  EXPECT_EQ(few.p99, 11);
  EXPECT_EQ(PercentilesOf({3}).median, 3);
  EXPECT_EQ(PercentilesOf({}).max, 0);
}

TEST(Percentiles, OneOutlierIsTheMaximumOnly) {
  std::vector<double> values(100, 1);
  values[17] = 500;
  EXPECT_EQ(PercentilesOf(values).p99, 1);
  EXPECT_EQ(PercentilesOf(values).max, 500);
}

TEST(Median, OfOddAndEven) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace planb
