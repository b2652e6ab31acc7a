// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/tables.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lpm/io/route_file.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

constexpr size_t kHosts = 100'000;
constexpr uint32_t kHostNextHops = 64;

// Routes under construction: sorted and distinct all the while.
using RouteMap = absl::btree_map<Prefix, NextHopId>;

std::string DataFile(absl::string_view name) {
  const char* const directory = std::getenv("PLANB_DATA_DIR");
  return absl::StrCat(directory == nullptr ? "../shared/data" : directory, "/",
                      name);
}

absl::StatusOr<Table> ReadTable(const std::string& path) {
  RouteCollector collector;
  const auto report = ReadRouteFile(path, {}, collector);
  if (!report.ok()) return report.status();
  Table table;
  for (const Route& route : collector.TakeRoutes()) {
    if (table.routes.empty() || route.prefix.family() == table.family) {
      table.family = route.prefix.family();
    } else if (table.family == Family::kIpv4) {  // IPv6 comes after IPv4
      table.family = Family::kIpv6;
      table.routes.clear();
    }
    table.routes.push_back(route);
  }
  return table;
}

// The prefix that the hosts of that name share, or an error.
absl::StatusOr<Prefix> HostsPrefix(absl::string_view name) {
  if (name == "hosts64") return Prefix::Parse("2001:db8:0:1::/64");
  if (name == "hosts48") return Prefix::Parse("2001:db8:1::/48");
  if (name == "hosts-spread") return Prefix::Parse("2000::/3");
  return absl::InvalidArgumentError(absl::StrCat("no table \"", name, "\""));
}

Prefix RandomPrefix(const Prefix& in, int length, Random& random) {
  const absl::uint128 host = in.last() - in.first();
  return Prefix::Truncate(
      Address::FromBits(in.family(), in.first() | (random.Next128() & host)),
      length);
}

void AddHosts(const Prefix& in, RouteMap& routes) {
  Random random(1);
  const size_t goal = routes.size() + kHosts;
  while (routes.size() < goal) {
    const Prefix host = RandomPrefix(in, 128, random);
    routes.emplace(host,
                   static_cast<NextHopId>(1 + random.Below(kHostNextHops)));
  }
}

// Each route has `percent` chances of a hundred to be replaced. The new one is
// in a route that stays and takes the next hop of the one that goes.
absl::Status ReplaceByLong(uint64_t percent, RouteMap& routes) {
  Random random(1);
  std::vector<Prefix> stay;
  std::vector<NextHopId> gone;
  for (auto it = routes.begin(); it != routes.end();) {
    if (random.Chance(percent, 100)) {
      gone.push_back(it->second);
      it = routes.erase(it);
    } else {
      if (it->first.length() <= 64) stay.push_back(it->first);
      ++it;
    }
  }
  if (stay.empty()) {
    return absl::InvalidArgumentError("no routes to put longer ones in");
  }
  while (!gone.empty()) {
    const Prefix& in = stay[random.Below(stay.size())];
    const int length = static_cast<int>(65 + random.Below(64));
    if (routes.emplace(RandomPrefix(in, length, random), gone.back()).second) {
      gone.pop_back();
    }
  }
  return absl::OkStatus();
}

absl::Status Modify(absl::string_view how, Table& table) {
  if (table.family != Family::kIpv6) {
    return absl::InvalidArgumentError(absl::StrCat("+", how, " is for IPv6"));
  }
  RouteMap routes;
  for (const Route& r : table.routes) routes.emplace(r.prefix, r.next_hop);
  if (how == "max64") {
    absl::erase_if(routes,
                   [](const auto& route) { return route.first.length() > 64; });
  } else if (how == "long5" || how == "long50") {
    absl::Status status = ReplaceByLong(how == "long5" ? 5 : 50, routes);
    if (!status.ok()) return status;
  } else {
    const auto hosts = HostsPrefix(how);
    if (!hosts.ok()) return hosts.status();
    AddHosts(*hosts, routes);
  }
  table.routes.clear();
  for (const auto& [prefix, hop] : routes)
    table.routes.push_back({prefix, hop});
  return absl::OkStatus();
}

absl::StatusOr<Table> MakeBase(absl::string_view name) {
  if (name == "real") return ReadTable(DataFile("rv6_20260730.txt"));
  if (name == "ipv4") return ReadTable(DataFile("rv4_20260730.txt.gz"));
  Table table;
  const absl::string_view number = absl::StripPrefix(name, "ipv4:");
  const bool ipv4 = number.size() < name.size();
  size_t count;
  if (absl::SimpleAtoi(number, &count)) {
    table.family = ipv4 ? Family::kIpv4 : Family::kIpv6;
    table.routes = SyntheticTable(
        {.ipv6_routes = ipv4 ? 0 : count, .ipv4_routes = ipv4 ? count : 0});
    return table;
  }
  if (absl::StrContains(name, '/') || absl::StrContains(name, '.')) {
    return ReadTable(std::string(name));
  }
  const absl::Status status = Modify(name, table);
  if (!status.ok()) return status;
  return table;
}

}  // namespace

absl::StatusOr<Table> MakeTable(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '+');
  auto table = MakeBase(parts.front());
  if (!table.ok()) return table.status();
  for (size_t i = 1; i < parts.size(); ++i) {
    const absl::Status status = Modify(parts[i], *table);
    if (!status.ok()) return status;
  }
  table->name = std::string(name);
  return table;
}

absl::Status AssignNextHops(absl::string_view how, std::vector<Route>& routes) {
  if (how == "as-given") return absl::OkStatus();
  uint32_t count;
  if (!absl::ConsumePrefix(&how, "random:") || !absl::SimpleAtoi(how, &count) ||
      count == 0) {
    return absl::InvalidArgumentError(
        "next hops are \"as-given\" or \"random:N\" with N of 1 or more");
  }
  Random random(1);
  for (Route& route : routes) {
    route.next_hop = static_cast<NextHopId>(1 + random.Below(count));
  }
  return absl::OkStatus();
}

}  // namespace planb
