#include "benchmarks/engine/cores.h"

#include <sched.h>
#include <time.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace planb {
namespace {

// The first word of a file below the core's folder, or "?".
std::string Word(int cpu, const std::string& file) {
  std::ifstream in(absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/", file));
  std::string word;
  return in >> word ? word : "?";
}

}  // namespace

absl::Status PinThread(pthread_t thread, int cpu) {
  if (cpu < 0) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(static_cast<size_t>(cpu), &set);
  const int error = pthread_setaffinity_np(thread, sizeof(set), &set);
  if (error == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot use core ", cpu, ": ", std::strerror(error)));
}

double CpuSeconds(pthread_t thread) {
  clockid_t clock;
  timespec time = {};
  if (pthread_getcpuclockid(thread, &clock) != 0) return 0;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string DescribeCore(int cpu) {
  if (cpu < 0) return "any core";
  std::string text = absl::StrCat(
      "cpu ", cpu, ": package ", Word(cpu, "topology/physical_package_id"),
      ", core ", Word(cpu, "topology/core_id"), "; cpus of this core ",
      Word(cpu, "topology/thread_siblings_list"));
  for (int i = 0; i < 8; ++i) {
    const std::string cache = absl::StrCat("cache/index", i, "/");
    const std::string level = Word(cpu, cache + "level");
    if (level == "?") break;
    if (Word(cpu, cache + "type") == "Instruction") continue;
    absl::StrAppend(&text, ", of its L", level, " (", Word(cpu, cache + "size"),
                    ") ", Word(cpu, cache + "shared_cpu_list"));
  }
  return text;
}

}  // namespace planb
