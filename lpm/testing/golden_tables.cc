// Synthetic tables, and one with long prefixes strewn into it.

#include "lpm/testing/golden_tables.h"

#include <cstdint>

#include "absl/numeric/int128.h"
#include "lpm/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

GoldenTable Synthetic(absl::string_view name, Family family, size_t routes,
                      uint32_t next_hops) {
  SyntheticOptions options;
  options.ipv4_routes = family == Family::kIpv4 ? routes : 0;
  options.ipv6_routes = family == Family::kIpv6 ? routes : 0;
  options.seed = 1;
  options.next_hops = next_hops;
  return {name, family, SyntheticTable(options)};
}

GoldenTable LongPrefixes() {
  GoldenTable table = Synthetic("ipv6_long", Family::kIpv6, 10'000, 64);
  RouteSet routes(Family::kIpv6, table.routes);
  Random random(3);
  while (routes.size() < 20'000) {
    const Prefix& top = table.routes[random.Below(table.routes.size())].prefix;
    const absl::uint128 inside = random.Next128() & (top.last() - top.first());
    const int length = 49 + static_cast<int>(random.Below(80));
    routes.Announce(Prefix::Truncate(Address::V6(top.first() | inside), length),
                    static_cast<NextHopId>(1 + random.Below(64)));
  }
  table.routes.clear();
  for (const auto& [prefix, next_hop] : routes) {
    table.routes.push_back({prefix, 1'000'000 + 7 * next_hop});
  }
  return table;
}

}  // namespace

std::vector<GoldenTable> GoldenTables() {
  std::vector<GoldenTable> tables;
  tables.push_back(Synthetic("ipv6_20k", Family::kIpv6, 20'000, 64));
  tables.push_back(Synthetic("ipv6_100k", Family::kIpv6, 100'000, 64));
  tables.push_back(LongPrefixes());
  tables.push_back(Synthetic("ipv4_100k", Family::kIpv4, 100'000, 1000));
  return tables;
}

std::vector<Address> GoldenTrace(const GoldenTable& table, size_t count) {
  return SyntheticTrace(table.routes, table.family, count, 2);
}

}  // namespace planb
