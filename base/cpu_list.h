// SPDX-License-Identifier: Apache-2.0

#ifndef PLANB_BASE_CPU_LIST_H_
#define PLANB_BASE_CPU_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb {

// Parses a list of cores and ranges of cores, such as "0,2-3", and returns the
// cores in the order of the list. Empty text is an empty list. Does not check
// that this machine has the cores, nor that each is named once.
// Errors: INVALID_ARGUMENT, which quotes the wrong item and says what was
// expected.
absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text);

// How many cores this process can keep busy; at least 1. The scheduler's
// affinity mask limits them, and so does the CPU quota of its cgroup or of one
// above it (cpu.max of version 2, cpu.cfs_quota_us of version 1), rounded up.
// `root` is the directory of proc/ and sys/; tests give another one.
size_t UsableCpus(const std::string& root = "/");

// Errors: INVALID_ARGUMENT if no thread can run on one of `cpus`: this machine
// lacks it, or the process may not use it. Binds a thread of its own to each.
absl::Status CheckCpus(absl::Span<const int> cpus);

// Takes `cpus` from the affinity mask of this thread, and of the threads that
// it will start, unless no core would be left.
void KeepOff(absl::Span<const int> cpus);

}  // namespace planb

#endif  // PLANB_BASE_CPU_LIST_H_
