// Processor time is counted, and threads stay where they are put.

#include "client/load/bench_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CpuTimeOf, CountsWorkAndNotSleep) {
  const absl::Duration before = *CpuTimeOf(0);
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Duration slept = *CpuTimeOf(getpid()) - before;
  EXPECT_LT(slept, absl::Milliseconds(150));
  std::thread([&] {
    while (*CpuTimeOf(0) < before + slept + absl::Milliseconds(50)) continue;
  }).join();
  // The thread has ended; what it used stays.
  EXPECT_GE(*CpuTimeOf(0) - before, absl::Milliseconds(50));
}

TEST(CpuTimeOf, OtherProcesses) {
  const pid_t child = fork();
  if (child == 0) {
    while (*CpuTimeOf(0) < absl::Milliseconds(50)) continue;
    pause();
  }
  const absl::Time patience = absl::Now() + absl::Minutes(1);
  while (*CpuTimeOf(child) < absl::Milliseconds(50)) {
    ASSERT_LT(absl::Now(), patience);
    absl::SleepFor(absl::Milliseconds(1));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(CpuTimeOf(child).status().code(), absl::StatusCode::kNotFound);
}

TEST(ParseCpuList, ListsAndRanges) {
  EXPECT_THAT(*ParseCpuList(""), IsEmpty());
  EXPECT_THAT(*ParseCpuList("3"), ElementsAre(3));
  EXPECT_THAT(*ParseCpuList("0,2-4,9"), ElementsAre(0, 2, 3, 4, 9));
  for (const char* wrong : {"x", "1,", "-1", "2-1", "1-", "1-2-3", "99999"}) {
    EXPECT_FALSE(ParseCpuList(wrong).ok()) << wrong;
  }
  EXPECT_THAT(std::string(ParseCpuList("0,1-x").status().message()),
              HasSubstr("\"1-x\""));
}

TEST(RunOn, PinsTheThreadAndItsChildren) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) ++cpu;
  std::thread([cpu] {
    ASSERT_TRUE(RunOn({cpu}).ok());
    EXPECT_EQ(sched_getcpu(), cpu);
    std::thread([cpu] { EXPECT_EQ(sched_getcpu(), cpu); }).join();
  }).join();
  EXPECT_FALSE(RunOn({CPU_SETSIZE - 1}).ok());
}

}  // namespace
}  // namespace planb::client
