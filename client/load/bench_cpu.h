// The processor's part in a measurement: time used, and where threads run.

#ifndef PLANB_CLIENT_LOAD_BENCH_CPU_H_
#define PLANB_CLIENT_LOAD_BENCH_CPU_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace planb::client {

// User and system time that all threads of a process, the ended ones too, have
// used so far; 0 is this process. To the nanosecond, unlike /proc/PID/stat,
// which counts in hundredths of seconds.
// Errors: NOT_FOUND if there is no such process.
absl::StatusOr<absl::Duration> CpuTimeOf(pid_t process);

// Parses a list of processors such as "0,2-3". Empty text is an empty list.
// Errors: INVALID_ARGUMENT, naming the part that is wrong.
absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text);

// Keeps the calling thread, and those it starts from now on, on `cpus`.
// Errors: INVALID_ARGUMENT if the machine has none of them for us.
absl::Status RunOn(const std::vector<int>& cpus);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_CPU_H_
