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
      return MakeRival(BuildDpdkFib6, options);
    });

[[maybe_unused]] const bool registered_lpm6 =
    RegisterEngine("dpdk-lpm6", [](const std::vector<std::string>& options) {
      return MakeRival(BuildDpdkLpm6, options);
    });

}  // namespace
}  // namespace planb
