// SPDX-License-Identifier: Apache-2.0

#include "server/observe/process_metrics.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/testing/scrape_text.h"

namespace planb::server {
namespace {

TEST(ProcessMetrics, ResidentMemoryGrowsWithTouchedPages) {
  const ProcessMetrics metrics;
  const double before = ValueOf(metrics, "process_resident_memory_bytes");
  EXPECT_GT(before, 1e6);
  constexpr size_t kBytes = 64 << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const double after = ValueOf(metrics, "process_resident_memory_bytes");
  EXPECT_GT(after - before, 0.9 * kBytes);
  munmap(memory, kBytes);
}

TEST(ProcessMetrics, StartTimeIsRecentAndConstant) {
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  const ProcessMetrics metrics;
  const double start = ValueOf(metrics, "process_start_time_seconds");
  EXPECT_LE(start, before + 1);  // ticks are hundredths of a second
  EXPECT_GT(start, before - 3600);
  EXPECT_EQ(ValueOf(metrics, "process_start_time_seconds"), start);
}

TEST(ProcessMetrics, CountsOpenFiles) {
  const ProcessMetrics metrics;
  const double before = ValueOf(metrics, "process_open_fds");
  const int one = dup(0);
  const int two = dup(0);
  ASSERT_GE(two, 0);
  EXPECT_EQ(ValueOf(metrics, "process_open_fds"), before + 2);
  close(one);
  close(two);
  EXPECT_EQ(ValueOf(metrics, "process_open_fds"), before);

  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ValueOf(metrics, "process_max_fds"),
            static_cast<double>(limit.rlim_cur));
}

TEST(ProcessMetrics, CountsCpuTimeOfTheProcess) {
  const ProcessMetrics metrics;
  const double before = ValueOf(metrics, "process_cpu_seconds_total");
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec +
                               usage.ru_stime.tv_usec) *
               1e-6;
  };
  const double start = used();
  while (used() < start + 0.1) continue;
  EXPECT_GT(ValueOf(metrics, "process_cpu_seconds_total"), before + 0.05);
}

TEST(ProcessMetrics, ExportsTheBuild) {
  const BuildInfo build = GetBuildInfo();
  EXPECT_FALSE(build.version.empty());
  EXPECT_FALSE(build.compiler.empty());
  EXPECT_TRUE(HasLine(ScrapeText(ProcessMetrics()),
                      absl::StrCat("planb_build_info{version=\"", build.version,
                                   "\",compiler=\"", build.compiler, "\"} 1")));
}

}  // namespace
}  // namespace planb::server
