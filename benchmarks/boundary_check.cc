#include "benchmarks/boundary_check.h"

#include <endian.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/fib.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {

BoundaryCheck CheckBoundaries(const Fib& fib, const RouteSet& routes,
                              absl::Span<const Route> changes) {
  std::vector<Route> list;
  for (const auto& [prefix, hop] : routes) list.push_back({prefix, hop});
  const Reference reference(routes.family(), list);
  // Each prefix once.
  list.insert(list.end(), changes.begin(), changes.end());
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end(),
                         [](const Route& a, const Route& b) {
                           return a.prefix == b.prefix;
                         }),
             list.end());
  const std::vector<Address> probes = BoundaryProbes(list);
  std::string packed;
  for (const Address& probe : probes) packed += probe.ToPacked();
  const std::vector<NextHopId> expected = reference.Lookup(probes);

  BoundaryCheck check = {.addresses = probes.size()};
  std::vector<uint32_t> found(probes.size());
  for (const Kernel* kernel : AvailableKernels()) {
    fib.Lookup(packed.data(), probes.size(), found.data(), *kernel);
    for (size_t i = 0; i < probes.size(); ++i) {
      if (le32toh(found[i]) == expected[i]) continue;
      if (check.wrong++ > 0) continue;
      check.first_wrong = absl::StrCat(
          probes[i].ToString(), " -> ", le32toh(found[i]), " instead of ",
          expected[i], " by kernel ", KernelName(*kernel));
    }
  }
  return check;
}

}  // namespace planb
