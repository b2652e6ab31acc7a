#include "benchmarks/engine/cycles.h"

#include <chrono>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

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
#if defined(__x86_64__)
  unsigned processor;
  return __rdtscp(&processor);
#else
  return Nanoseconds();
#endif
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

}  // namespace planb
