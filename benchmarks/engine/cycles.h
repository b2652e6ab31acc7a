// Processor cycles, where no performance counter can be had: a clock that runs
// at a fixed rate, and now and then a measurement of how many cycles its tick
// lasts.

#ifndef PLANB_BENCHMARKS_ENGINE_CYCLES_H_
#define PLANB_BENCHMARKS_ENGINE_CYCLES_H_

#include <cstdint>

namespace planb {

// Ticks of a fixed rate: the time-stamp counter on x86-64, else nanoseconds.
uint64_t Ticks();

// Ticks in a nanosecond, measured once, over 20 ms.
double TicksPerNanosecond();

// How many cycles the core runs through in a tick, right now: times a chain of
// additions, each of which must wait a cycle for the one before. Some 0.1 ms.
// Less than it was a moment ago means that the core was shared or slowed down.
double CyclesPerTick();

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CYCLES_H_
