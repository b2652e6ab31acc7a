// Addresses that hit a table.

#include <algorithm>

#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {

std::vector<Address> SyntheticTrace(absl::Span<const Route> routes,
                                    Family family, size_t count,
                                    uint64_t seed) {
  const auto middle = std::partition_point(
      routes.begin(), routes.end(),
      [](const Route& r) { return r.prefix.family() == Family::kIpv4; });
  const size_t ipv4 = static_cast<size_t>(middle - routes.begin());
  routes = family == Family::kIpv4 ? routes.first(ipv4) : routes.subspan(ipv4);
  const Prefix everything =
      family == Family::kIpv4
          ? Prefix()
          : Prefix::Truncate(Address::V6(absl::uint128(1) << 125), 3);
  Random random(seed);
  std::vector<Address> trace;
  trace.reserve(count);
  while (trace.size() < count) {
    const bool anywhere = routes.empty() || random.Chance(1, 16);
    const Prefix& from =
        anywhere ? everything : routes[random.Below(routes.size())].prefix;
    const absl::uint128 host = random.Next128() & (from.last() - from.first());
    trace.push_back(Address::FromBits(family, from.first() | host));
  }
  return trace;
}

}  // namespace planb
