// SPDX-License-Identifier: Apache-2.0

// Has what measuring programs share: a clock and the core's true rate, the core
// of a thread, the memory of a process, and percentiles. Cycles come without a
// performance counter: from a clock of a fixed rate and a measurement, now and
// then, of how many cycles its tick lasts.

#ifndef PLANB_BENCHMARKS_ENGINE_MACHINE_H_
#define PLANB_BENCHMARKS_ENGINE_MACHINE_H_

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace planb {

// Returns ticks of a fixed rate: the time-stamp counter.
uint64_t Ticks();

// Returns the ticks in a nanosecond, measured once, over 20 ms.
double TicksPerNanosecond();

// Returns how many cycles the core runs through in a tick right now. It times a
// chain of additions, each of which must wait a cycle for the one before, which
// takes some 0.1 ms. A falling figure means that the core was shared or slowed
// down.
double CyclesPerTick();

// Binds `thread` to core `cpu`; -1 leaves it where it is.
// Errors: INVALID_ARGUMENT if there is no such core for this process.
absl::Status PinThread(pthread_t thread, int cpu);

// Has the kernel kill this process when its parent ends, for any reason.
void DieWithParent();

struct ProcessMemory {
  uint64_t resident = 0;  // bytes now
  uint64_t peak = 0;      // the most since ResetPeak, or since its beginning
};

// Errors: NOT_FOUND if there is no such process.
absl::StatusOr<ProcessMemory> MemoryOf(pid_t process);

// Starts a new measurement of the peak. Errors: as above; PERMISSION_DENIED for
// a process of another user.
absl::Status ResetPeak(pid_t process);

struct Percentiles {
  double median = 0, p99 = 0, max = 0;
};

// Returns percentiles by nearest rank: each is one of `values`, the least that
// so many of them do not exceed. With fewer than 100 values p99 is therefore
// the most. All 0 for no values. O(n log n).
Percentiles PercentilesOf(std::vector<double> values);

// Returns the middle one (of two, their mean). REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_MACHINE_H_
