// What a server process holds, as Linux counts it.

#ifndef PLANB_BENCHMARKS_SERVING_VISIBILITY_SERVER_MEMORY_H_
#define PLANB_BENCHMARKS_SERVING_VISIBILITY_SERVER_MEMORY_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace planb::visibility {

struct Memory {
  uint64_t resident = 0;  // octets now
  uint64_t peak = 0;      // the most since ResetPeak, or since its beginning
};

// Errors: NOT_FOUND if there is no such process.
absl::StatusOr<Memory> MemoryOf(pid_t process);

// Peaks count anew. Errors: as above; PERMISSION_DENIED if it is another's.
absl::Status ResetPeak(pid_t process);

}  // namespace planb::visibility

#endif  // PLANB_BENCHMARKS_SERVING_VISIBILITY_SERVER_MEMORY_H_
