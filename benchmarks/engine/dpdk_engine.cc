// SPDX-License-Identifier: Apache-2.0

// Adds the engines "dpdk" and "dpdk-lpm6" to the binary that this file is
// linked into.

#include <string>
#include <vector>

#include "benchmarks/engine/comparison.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

[[maybe_unused]] const bool registered =
    RegisterEngine("dpdk", [](const std::vector<std::string>& options) {
      return MakeRival(
          [](Family family, absl::Span<const Route> routes, RivalKernel kernel)
              -> absl::StatusOr<std::unique_ptr<const Baseline>> {
            return BuildDpdkFib(family, routes, kernel);
          },
          options);
    });

[[maybe_unused]] const bool registered_lpm6 =
    RegisterEngine("dpdk-lpm6", [](const std::vector<std::string>& options) {
      return MakeRival(BuildDpdkLpm6, options);
    });

}  // namespace
}  // namespace planb
