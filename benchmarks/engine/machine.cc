// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/machine.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

constexpr uint64_t kChain = 400'000;  // additions

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// `kChain` additions, each of the last one's result. The compiler may neither
// merge them nor know the sum.
void RunChain() {
  uint64_t sum = 0;
  uint64_t step = 3;
  asm volatile("" : "+r"(step));
  for (uint64_t i = 0; i < kChain; i += 16) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) {
      sum += step;
      asm volatile("" : "+r"(sum));
    }
  }
}

}  // namespace

uint64_t Ticks() {
  unsigned processor;
  return __rdtscp(&processor);
}

double TicksPerNanosecond() {
  static const double rate = [] {
    const uint64_t time = Nanoseconds();
    const uint64_t ticks = Ticks();
    uint64_t now;
    while ((now = Nanoseconds()) < time + 20'000'000) {
    }
    return static_cast<double>(Ticks() - ticks) /
           static_cast<double>(now - time);
  }();
  return rate;
}

double CyclesPerTick() {
  const uint64_t begin = Ticks();
  RunChain();
  return static_cast<double>(kChain) / static_cast<double>(Ticks() - begin);
}

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

void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

absl::StatusOr<ProcessMemory> MemoryOf(pid_t process) {
  std::ifstream in(absl::StrCat("/proc/", process, "/status"));
  ProcessMemory memory;
  std::string word;
  while (in >> word) {
    uint64_t kilobytes = 0;
    if (word == "VmRSS:" && in >> kilobytes) memory.resident = kilobytes << 10;
    if (word == "VmHWM:" && in >> kilobytes) memory.peak = kilobytes << 10;
  }
  if (memory.resident == 0) {
    return absl::NotFoundError(absl::StrCat("there is no process ", process));
  }
  return memory;
}

absl::Status ResetPeak(pid_t process) {
  const auto memory = MemoryOf(process);
  if (!memory.ok()) return memory.status();
  std::ofstream out(absl::StrCat("/proc/", process, "/clear_refs"));
  out << 5 << std::flush;  // proc(5): the peak of the resident set
  if (out) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot reset the peak of process ", process));
}

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  // Integers: 0.99 * 100 need not be 99.
  const auto rank = [&](size_t hundredths) {
    return values[(values.size() * hundredths + 99) / 100 - 1];
  };
  return {.median = rank(50), .p99 = rank(99), .max = values.back()};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace planb
