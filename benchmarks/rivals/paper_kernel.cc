#include "benchmarks/rivals/paper_kernel.h"

#include <vector>

namespace planb::paper {
namespace {

const std::vector<const Kernel*>& RunnableKernels() {
  static const auto* const kernels = [] {
    auto* found = new std::vector<const Kernel*>;
    for (const Kernel* kernel : {
#if defined(__x86_64__)
           &kAvx512Kernel, &kAvx2Kernel,
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

absl::Span<const Kernel* const> AvailableKernels() { return RunnableKernels(); }

const Kernel* FindKernel(absl::string_view name) {
  for (const Kernel* kernel : RunnableKernels()) {
    if (name == "auto" || name == kernel->name) return kernel;
  }
  return nullptr;
}

LookupFunction LookupOf(const Kernel& kernel, int lanes) {
  switch (lanes) {
    case 8:
      return kernel.lookup8;
    case 16:
      return kernel.lookup16;
    case 32:
      return kernel.lookup32;
    default:
      return nullptr;
  }
}

}  // namespace planb::paper
