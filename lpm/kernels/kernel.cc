// SPDX-License-Identifier: Apache-2.0

#include "lpm/kernels/kernel.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/kernels/kernel_table.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

const std::vector<const Kernel*>& RunnableKernels() {
  static const auto* const kernels = [] {
    auto* found = new std::vector<const Kernel*>;
    for (const Kernel* kernel : {
#if defined(__x86_64__)
           &kAvx512Kernel, &kAvx2Kernel,
#elif defined(__aarch64__)
           &kNeonKernel,
#endif
               &kScalarKernel
         }) {
      if (kernel->runs_here()) found->push_back(kernel);
    }
    return found;
  }();
  return *kernels;
}

}  // namespace

absl::string_view KernelName(const Kernel& kernel) { return kernel.name; }

absl::Span<const Kernel* const> AvailableKernels() { return RunnableKernels(); }

absl::StatusOr<const Kernel*> SelectKernel(absl::string_view name) {
  const std::vector<const Kernel*>& kernels = RunnableKernels();
  if (name == "auto") return kernels.front();
  for (const Kernel* kernel : kernels) {
    if (name == kernel->name) return kernel;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no search kernel \"", name, "\" on this machine; there are: auto, ",
      absl::StrJoin(kernels, ", ", [](std::string* out, const Kernel* kernel) {
        absl::StrAppend(out, kernel->name);
      })));
}

size_t CountNoRoute(const void* next_hops, size_t count) {
  static_assert(kNoRoute == 0, "or the order of bytes matters");
  // So many at a time are counted in 32 bits, as wide as what is compared: the
  // compiler then makes it one compare and one subtraction a vector.
  constexpr size_t kBlock = size_t{1} << 16;
  const auto* const bytes = static_cast<const unsigned char*>(next_hops);
  size_t total = 0;
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t end = std::min(count, done + kBlock);
    uint32_t found = 0;
    for (size_t i = done; i < end; ++i) {
      NextHopId next_hop;
      std::memcpy(&next_hop, bytes + i * sizeof(next_hop), sizeof(next_hop));
      found += next_hop == kNoRoute ? 1 : 0;
    }
    total += found;
  }
  return total;
}

}  // namespace planb
