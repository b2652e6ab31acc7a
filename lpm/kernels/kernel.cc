// SPDX-License-Identifier: Apache-2.0

#include "lpm/kernels/kernel.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/kernels/kernel_table.h"

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

}  // namespace planb
