// SPDX-License-Identifier: Apache-2.0

#include "base/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace planb {
namespace {

using ::testing::HasSubstr;

TEST(CheckCpus, RefusesCoresThatNoThreadCanHave) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int usable = 0;
  while (!CPU_ISSET(usable, &before)) ++usable;
  EXPECT_TRUE(CheckCpus({}).ok());
  EXPECT_TRUE(CheckCpus({usable, usable}).ok());
  for (const int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE}) {
    EXPECT_THAT(std::string(CheckCpus({usable, cpu}).message()),
                HasSubstr("cannot run on core " + std::to_string(cpu)));
  }
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ParseCpuList, TakesNumbersAndRanges) {
  struct Case {
    const char* text;
    std::vector<int> cpus;
  };
  for (const Case& test : {
           Case{"", {}},
           Case{"0", {0}},
           Case{"3", {3}},
           Case{"0,2", {0, 2}},
           Case{"2-3", {2, 3}},
           Case{"7-7", {7}},
           Case{"0,2-3", {0, 2, 3}},
           Case{"0,2-4,9", {0, 2, 3, 4, 9}},
           Case{"5, 1 - 2", {5, 1, 2}},
           Case{"3,1,3", {3, 1, 3}},
           Case{"1022-1023", {1022, 1023}},
       }) {
    const auto cpus = ParseCpuList(test.text);
    ASSERT_TRUE(cpus.ok()) << cpus.status();
    EXPECT_EQ(*cpus, test.cpus) << test.text;
  }
}

TEST(ParseCpuList, NamesTheWrongItem) {
  struct Case {
    const char* text;
    const char* item;
    const char* expected;
  };
  constexpr char kNumber[] =
      "is no number of a core (0 to 1023) and no range of them such as 2-3";
  constexpr char kUpwards[] = "ends below its start";
  for (const Case& test : {
           Case{"x", "item \"x\"", kNumber},
           Case{"0,x", "item \"x\"", kNumber},
           Case{"0,1-x", "item \"1-x\"", kNumber},
           Case{"1,", "item \"\"", kNumber},
           Case{",1", "item \"\"", kNumber},
           Case{" ", "item \" \"", kNumber},
           Case{"-1", "item \"-1\"", kNumber},
           Case{"+1", "item \"+1\"", kNumber},
           Case{"1-", "item \"1-\"", kNumber},
           Case{"-", "item \"-\"", kNumber},
           Case{"1-2-3", "item \"1-2-3\"", kNumber},
           Case{"0x1", "item \"0x1\"", kNumber},
           Case{"1 2", "item \"1 2\"", kNumber},
           Case{"1024", "item \"1024\"", kNumber},
           Case{"0-99999", "item \"0-99999\"", kNumber},
           Case{"99999999999", "item \"99999999999\"", kNumber},
           Case{"0,2-1", "range \"2-1\"", kUpwards},
       }) {
    const absl::Status status = ParseCpuList(test.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << test.text;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(std::string("\"") + test.text + "\""));
    EXPECT_THAT(message, HasSubstr(test.item));
    EXPECT_THAT(message, HasSubstr(test.expected)) << test.text;
  }
}

// A tree of files below a temporary directory.
std::string Tree(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& files) {
  const std::string root = testing::TempDir() + "/" + name;
  for (const auto& [path, text] : files) {
    const std::filesystem::path file = root + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  return root;
}

TEST(UsableCpus, ObeysTheTightestQuotaRoundedUp) {
  const size_t all = UsableCpus("/nowhere");
  EXPECT_GE(all, 1U);
  const auto expect =
      [&](const std::string& name, size_t cpus,
          const std::vector<std::pair<std::string, std::string>>& files) {
        EXPECT_EQ(UsableCpus(Tree(name, files)), std::min(cpus, all)) << name;
      };
  const std::string v2 = "0::/kubepods/pod1/c\n";
  const std::string mount = "sys/fs/cgroup";
  expect("none", all, {{"proc/self/cgroup", v2}});
  expect("no_limit", all,
         {{"proc/self/cgroup", v2},
          {mount + "/kubepods/pod1/c/cpu.max", "max 100000\n"}});
  expect("half", 1,
         {{"proc/self/cgroup", v2},
          {mount + "/kubepods/pod1/c/cpu.max", "50000 100000\n"}});
  expect("one_and_a_half", 2,
         {{"proc/self/cgroup", v2},
          {mount + "/kubepods/pod1/c/cpu.max", "150000 100000\n"}});
  expect("above", 1,
         {{"proc/self/cgroup", v2},
          {mount + "/kubepods/pod1/c/cpu.max", "max 100000\n"},
          {mount + "/kubepods/cpu.max", "100000 100000\n"}});
  expect("container", 1,
         {{"proc/self/cgroup", "0::/\n"},
          {mount + "/cpu.max", "100000 100000\n"}});
  expect("host_path", 1,
         {{"proc/self/cgroup", v2}, {mount + "/cpu.max", "100000 100000\n"}});
  expect("version_1", 1,
         {{"proc/self/cgroup", "3:memory:/p\n4:cpu,cpuacct:/p\n"},
          {mount + "/cpu,cpuacct/p/cpu.cfs_quota_us", "80000\n"},
          {mount + "/cpu,cpuacct/p/cpu.cfs_period_us", "100000\n"}});
  expect("version_1_no_limit", all,
         {{"proc/self/cgroup", "4:cpu,cpuacct:/p\n"},
          {mount + "/cpu,cpuacct/p/cpu.cfs_quota_us", "-1\n"},
          {mount + "/cpu,cpuacct/p/cpu.cfs_period_us", "100000\n"}});
  expect("malformed", all,
         {{"proc/self/cgroup", "x\n0::\n" + v2},
          {mount + "/kubepods/pod1/c/cpu.max", "0 0\n"},
          {mount + "/cpu.max", "-5 x\n"}});
}

std::vector<int> Allowed() {
  cpu_set_t mask;
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(KeepOff, LeavesAtLeastOneCore) {
  // A thread of its own: the mask of this one stays.
  std::thread([] {
    const std::vector<int> all = Allowed();
    KeepOff({});
    KeepOff(all);
    KeepOff({-1, CPU_SETSIZE});
    EXPECT_EQ(Allowed(), all);
    KeepOff({all.front()});
    if (all.size() == 1) {
      EXPECT_EQ(Allowed(), all);
    } else {
      EXPECT_EQ(Allowed(), std::vector<int>(all.begin() + 1, all.end()));
    }
  }).join();
}

}  // namespace
}  // namespace planb
