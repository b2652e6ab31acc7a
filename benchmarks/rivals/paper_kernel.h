// The search, written for each instruction set and for each batch size.

#ifndef PLANB_BENCHMARKS_RIVALS_PAPER_KERNEL_H_
#define PLANB_BENCHMARKS_RIVALS_PAPER_KERNEL_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/paper_tree.h"
#include "lpm/address.h"

namespace planb::paper {

// See Baseline::Lookup.
using LookupFunction = void (*)(const TreeView& tree, Family family,
                                const void* addresses, size_t count,
                                void* next_hops);

struct Kernel {
  const char* name;
  // True if this CPU, and the operating system, allow every instruction used.
  bool (*runs_here)();
  // By how many addresses are searched together.
  LookupFunction lookup8;
  LookupFunction lookup16;
  LookupFunction lookup32;
};

// The kernels this machine can run, best first; "scalar" is the last.
absl::Span<const Kernel* const> AvailableKernels();

// The one of this name ("auto" is the best), or nullptr.
const Kernel* FindKernel(absl::string_view name);

// For 8, 16 or 32 addresses together, or nullptr.
LookupFunction LookupOf(const Kernel& kernel, int lanes);

extern const Kernel kScalarKernel;
#if defined(__x86_64__)
extern const Kernel kAvx2Kernel;
extern const Kernel kAvx512Kernel;
#endif

}  // namespace planb::paper

#endif  // PLANB_BENCHMARKS_RIVALS_PAPER_KERNEL_H_
