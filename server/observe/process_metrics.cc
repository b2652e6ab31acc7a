// SPDX-License-Identifier: Apache-2.0

#include "server/observe/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/base/metric_families.h"
#include "version.h"

namespace planb::server {
namespace {

#ifdef __clang__
constexpr absl::string_view kCompiler = "clang " __clang_version__;
#else
constexpr absl::string_view kCompiler = "gcc " __VERSION__;
#endif

double Seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return MetricValue(time.tv_sec) + MetricValue(time.tv_nsec) * 1e-9;
}

// The number in the field at `index`; 0 if there is none.
double Field(absl::string_view text, size_t index) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  double number = 0;
  if (index >= fields.size() || !absl::SimpleAtod(fields[index], &number)) {
    return 0;
  }
  return number;
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// When the process started, seconds since the Unix epoch.
double StartTime() {
  const std::string stat = ReadFile("/proc/self/stat");
  // The second field is a name in parentheses, which may have spaces and more
  // parentheses. The 22nd is the start, in ticks since the machine was booted.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const double ticks =
      Field(absl::string_view(stat).substr(name_end + 1), 22 - 3);
  const double since_boot = ticks / MetricValue(sysconf(_SC_CLK_TCK));
  return Seconds(CLOCK_REALTIME) - (Seconds(CLOCK_BOOTTIME) - since_boot);
}

double ResidentBytes() {
  return Field(ReadFile("/proc/self/statm"), 1) *
         MetricValue(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  uint64_t files = 0;
  while (readdir(directory) != nullptr) ++files;
  closedir(directory);
  constexpr uint64_t kNotCounted = 3;  // ".", "..", and the directory
  return MetricValue(files - std::min(files, kNotCounted));
}

double MaxFiles() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY
             ? std::numeric_limits<double>::infinity()
             : MetricValue(limit.rlim_cur);
}

}  // namespace

BuildInfo GetBuildInfo() { return {kVersion, kCompiler}; }

ProcessMetrics::ProcessMetrics() : start_time_(StartTime()) {}

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  const BuildInfo build = GetBuildInfo();
  return {
      CounterFamily("process_cpu_seconds_total",
                    "User and system CPU time, in seconds.",
                    {CounterOf(Seconds(CLOCK_PROCESS_CPUTIME_ID))}),
      GaugeFamily("process_resident_memory_bytes",
                  "Bytes of memory that are resident.",
                  {GaugeOf(ResidentBytes())}),
      GaugeFamily("process_start_time_seconds",
                  "When the process started, in seconds since the Unix epoch.",
                  {GaugeOf(start_time_)}),
      GaugeFamily("process_open_fds", "Open file descriptors.",
                  {GaugeOf(OpenFiles())}),
      GaugeFamily("process_max_fds",
                  "File descriptors that may be open at once.",
                  {GaugeOf(MaxFiles())}),
      GaugeFamily("planb_build_info",
                  "The server's version and the compiler that built it; "
                  "always 1.",
                  {GaugeOf(1, {{"version", std::string(build.version)},
                               {"compiler", std::string(build.compiler)}})}),
  };
}

}  // namespace planb::server
