// SPDX-License-Identifier: Apache-2.0

// Adds the engine "dpdk" to the binary that this file is linked into.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/engine/comparison.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

absl::StatusOr<Engine> MakeDpdk(const std::vector<std::string>& options) {
  DpdkKernel kernel = DpdkKernel::kBest;
  for (const std::string& option : options) {
    if (option != "scalar") {
      return absl::InvalidArgumentError(
          absl::StrCat("no option \"", option, "\""));
    }
    kernel = DpdkKernel::kScalar;
  }
  Engine engine;
  engine.build = [kernel](Family family, absl::Span<const Route> routes) {
    return BuildDpdkFib6(family, routes, kernel);
  };
  return engine;
}

[[maybe_unused]] const bool registered = RegisterEngine("dpdk", MakeDpdk);

}  // namespace
}  // namespace planb
