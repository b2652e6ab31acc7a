// The engines that can be compared, by name:
//
//   planb[:KERNEL]      the engine under lpm/ (avx512, avx2, scalar; the best)
//   paper[:OPTION...]   the PlanB paper's: avx512, avx2, scalar; 8, 16 or 32
//                       (addresses searched together, 32 if not said);
//                       distinct (one entry an address), merged
//   reference[:scalar]  planb-lpm's algorithm; it refuses routes longer than
//   reference:drop      /64, or leaves them out and is checked without them
//   dir24[:scalar]      DIR-24-8, IPv4 only
//   dpdk[:scalar]       rte_fib6, IPv6 only, where it is linked in

#ifndef PLANB_BENCHMARKS_ENGINE_ENGINE_H_
#define PLANB_BENCHMARKS_ENGINE_ENGINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmarks/rivals/baseline.h"

namespace planb {

struct Engine {
  std::string name;  // as it was asked for
  BaselineBuilder build;
  // Routes longer than this are left out of what it is given, and its answers
  // are expected to be those without them.
  int max_length = 128;
};

// Makes an engine of the part of its name after the first, as options.
// Errors: INVALID_ARGUMENT, naming the option.
using EngineFactory =
    absl::StatusOr<Engine> (*)(const std::vector<std::string>& options);

// Errors: INVALID_ARGUMENT for a name that means nothing here.
absl::StatusOr<Engine> MakeEngine(absl::string_view name);

// Adds a kind of engine, before main() and so before any other call. Returns
// true, to have something to assign.
bool RegisterEngine(const char* kind, EngineFactory factory);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_ENGINE_H_
