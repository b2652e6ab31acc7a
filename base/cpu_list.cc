// SPDX-License-Identifier: Apache-2.0

#include "base/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace planb {
namespace {

// cpu_set_t, with which threads are bound to cores, has no room for more.
constexpr int kLastCpu = CPU_SETSIZE - 1;

bool ParseCpu(absl::string_view text, int& cpu) {
  text = absl::StripAsciiWhitespace(text);
  // SimpleAtoi allows a sign.
  return !text.empty() && absl::ascii_isdigit(static_cast<uint8_t>(text[0])) &&
         absl::SimpleAtoi(text, &cpu) && cpu <= kLastCpu;
}

// The numbers at the beginning of a file. Empty if it cannot be read.
std::vector<int64_t> ReadNumbers(const std::string& path) {
  std::ifstream file(path);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; file >> number;) numbers.push_back(number);
  return numbers;
}

// The cores that one cgroup's quota comes to; kNoQuota if it has none.
constexpr size_t kNoQuota = std::numeric_limits<size_t>::max();
size_t Quota(const std::string& cgroup) {
  // "QUOTA PERIOD", or "max PERIOD".
  std::vector<int64_t> numbers = ReadNumbers(cgroup + "/cpu.max");
  if (numbers.empty()) {
    // A quota of -1 is none.
    numbers = ReadNumbers(cgroup + "/cpu.cfs_quota_us");
    for (int64_t period : ReadNumbers(cgroup + "/cpu.cfs_period_us")) {
      numbers.push_back(period);
    }
  }
  if (numbers.size() != 2 || numbers[0] <= 0 || numbers[1] <= 0) {
    return kNoQuota;
  }
  return static_cast<size_t>((numbers[0] + numbers[1] - 1) / numbers[1]);
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text) {
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends =
        absl::StrSplit(item, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!ParseCpu(ends.front(), first) || !ParseCpu(ends.back(), last)) {
      return absl::InvalidArgumentError(
          absl::StrCat("list of cores \"", text, "\": item \"", item,
                       "\" is no number of a core (0 to ", kLastCpu,
                       ") and no range of them such as 2-3"));
    }
    if (last < first) {
      return absl::InvalidArgumentError(
          absl::StrCat("list of cores \"", text, "\": range \"", item,
                       "\" ends below its start"));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

size_t UsableCpus(const std::string& root) {
  cpu_set_t mask;
  size_t cpus = 1;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    cpus = static_cast<size_t>(CPU_COUNT(&mask));
  }
  std::ifstream file(root + "/proc/self/cgroup");
  // Lines such as "0::/kubepods/pod1" and "4:cpu,cpuacct:/kubepods/pod1".
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string mount = absl::StrCat(root, "/sys/fs/cgroup/", fields[1]);
    // In a container the path may not exist; its own cgroup is then the mount.
    for (std::string path = fields[2]; !path.empty(); path.resize(
             path.rfind('/') == std::string::npos ? 0 : path.rfind('/'))) {
      cpus = std::min(cpus, Quota(mount + path));
    }
    cpus = std::min(cpus, Quota(mount));
  }
  return std::max<size_t>(cpus, 1);
}

absl::Status CheckCpus(absl::Span<const int> cpus) {
  absl::Status status;
  std::thread([&] {
    for (const int cpu : cpus) {
      cpu_set_t mask;
      CPU_ZERO(&mask);
      if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &mask);
      if (sched_setaffinity(0, sizeof(mask), &mask) == 0) continue;
      status.Update(
          absl::InvalidArgumentError(absl::StrCat("cannot run on core ", cpu)));
    }
  }).join();
  return status;
}

void KeepOff(absl::Span<const int> cpus) {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_CLR(cpu, &mask);
  }
  if (CPU_COUNT(&mask) > 0) sched_setaffinity(0, sizeof(mask), &mask);
}

}  // namespace planb
