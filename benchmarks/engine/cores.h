// Which core a thread runs on, and what cores share.

#ifndef PLANB_BENCHMARKS_ENGINE_CORES_H_
#define PLANB_BENCHMARKS_ENGINE_CORES_H_

#include <pthread.h>

#include <string>

#include "absl/status/status.h"

namespace planb {

// Binds `thread` to core `cpu`; -1 leaves it where it is.
// Errors: INVALID_ARGUMENT if there is no such core for this process.
absl::Status PinThread(pthread_t thread, int cpu);

// Seconds that `thread` has run so far. Less than the time that went by: it
// slept, or something else ran on its core.
double CpuSeconds(pthread_t thread);

// One line on core `cpu` as Linux tells it: its package and core numbers, and
// with which cores it shares a core (hyperthreads) and each cache. A virtual
// machine may be told a fairy tale: compare with a measurement.
std::string DescribeCore(int cpu);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CORES_H_
