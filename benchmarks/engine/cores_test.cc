#include "benchmarks/engine/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <thread>

namespace planb {
namespace {

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

TEST(CpuSeconds, GrowWithWorkAndNotWithSleep) {
  const double begin = CpuSeconds(pthread_self());
  while (CpuSeconds(pthread_self()) < begin + 0.02) {
  }
  const double worked = CpuSeconds(pthread_self());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(CpuSeconds(pthread_self()), worked + 0.04);
}

TEST(DescribeCore, NamesIt) {
  EXPECT_EQ(DescribeCore(0).find("cpu 0: "), 0U);
  EXPECT_NE(DescribeCore(99'999).find("core ?"), std::string::npos);
}

}  // namespace
}  // namespace planb
