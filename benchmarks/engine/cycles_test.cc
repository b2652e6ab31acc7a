#include "benchmarks/engine/cycles.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace planb
