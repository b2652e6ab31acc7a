// SPDX-License-Identifier: Apache-2.0

// The search kernels: one search, written for each instruction set. And a count
// of answers that are none.

#ifndef PLANB_LPM_KERNELS_KERNEL_H_
#define PLANB_LPM_KERNELS_KERNEL_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb {

// One implementation of the batched search. Defined in kernel_table.h; users
// of the engine only name kernels and pass them on.
struct Kernel;

// "avx512", "avx2", "neon" or "scalar".
absl::string_view KernelName(const Kernel& kernel);

// The kernels this machine can run, best first; never empty ("scalar" runs
// everywhere). Constant for the life of the process. Thread-safe.
absl::Span<const Kernel* const> AvailableKernels();

// The best kernel for `name` "auto", else the one named.
// Errors: INVALID_ARGUMENT if no such kernel exists or this machine lacks an
// instruction set it needs; the message lists those that would do.
absl::StatusOr<const Kernel*> SelectKernel(absl::string_view name);

// How many of the `count` next hops (4 bytes each, in any order of bytes, not
// necessarily aligned) are kNoRoute. Reads just these; O(count), by vectors.
// Thread-safe.
size_t CountNoRoute(const void* next_hops, size_t count);

}  // namespace planb

#endif  // PLANB_LPM_KERNELS_KERNEL_H_
