// SPDX-License-Identifier: Apache-2.0

// The definition of a kernel: a name, the CPU features it needs, and the
// search. Used by the engine alone.

#ifndef PLANB_LPM_KERNELS_KERNEL_TABLE_H_
#define PLANB_LPM_KERNELS_KERNEL_TABLE_H_

#include <cstddef>

#include "lpm/address.h"
#include "lpm/kernels/kernel.h"
#include "lpm/kernels/layout.h"

namespace planb {

struct Kernel {
  const char* name;
  // True if this CPU, and the operating system, allow every instruction used.
  bool (*runs_here)();
  // See Fib::Lookup.
  void (*lookup)(const FibView& fib, Family family, const void* addresses,
                 size_t count, void* next_hops);
  // See Fib::LookupWithLengths.
  void (*lookup_with_lengths)(const FibView& fib, Family family,
                              const void* addresses, size_t count,
                              void* next_hops, void* lengths);
  // See Fib::LookupUpper.
  void (*lookup_upper)(const FibView& fib, const void* upper_halves,
                       size_t count, void* next_hops);
};

extern const Kernel kScalarKernel;
#if defined(__x86_64__)
extern const Kernel kAvx2Kernel;
extern const Kernel kAvx512Kernel;
#elif defined(__aarch64__)
extern const Kernel kNeonKernel;
#endif

}  // namespace planb

#endif  // PLANB_LPM_KERNELS_KERNEL_TABLE_H_
