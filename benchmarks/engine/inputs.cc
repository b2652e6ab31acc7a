// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/inputs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
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

std::vector<Route> ToVector(const RouteMap& map) {
  std::vector<Route> routes;
  for (const auto& [prefix, hop] : map) routes.push_back({prefix, hop});
  return routes;
}

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

Prefix RandomPrefix(const Prefix& in, int length, Random& random) {
  const absl::uint128 host = in.last() - in.first();
  return Prefix::Truncate(
      Address::FromBits(in.family(), in.first() | (random.Next128() & host)),
      length);
}

// /128s in `in`.
std::vector<Route> Hosts(const Prefix& in) {
  Random random(1);
  RouteMap routes;
  while (routes.size() < kHosts) {
    const Prefix host = RandomPrefix(in, 128, random);
    routes.emplace(host,
                   static_cast<NextHopId>(1 + random.Below(kHostNextHops)));
  }
  return ToVector(routes);
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
  if (how != "long5" && how != "long50") {
    return absl::InvalidArgumentError(absl::StrCat("there is no +", how));
  }
  if (table.family != Family::kIpv6) {
    return absl::InvalidArgumentError(absl::StrCat("+", how, " is for IPv6"));
  }
  RouteMap routes;
  for (const Route& r : table.routes) routes.emplace(r.prefix, r.next_hop);
  absl::Status status = ReplaceByLong(how == "long5" ? 5 : 50, routes);
  if (!status.ok()) return status;
  table.routes = ToVector(routes);
  return absl::OkStatus();
}

// Chains of nested prefixes, each around an address of its own.
std::vector<Route> DeepRoutes(size_t count) {
  Random random(1);
  RouteMap routes;
  while (routes.size() < count) {
    const Address address =
        Address::V6(absl::uint128(1) << 125 | (random.Next128() >> 3));
    for (int length = 20; length <= 128 && routes.size() < count; ++length) {
      routes.emplace(Prefix::Truncate(address, length),
                     static_cast<NextHopId>(1 + length % 64));
    }
  }
  return ToVector(routes);
}

// The first /64s of one /48, a third of them left out, so that not all merges.
std::vector<Route> OneSiteRoutes(size_t count) {
  Random random(1);
  std::vector<Route> made;
  for (uint64_t i = 0; i < 65'536 && made.size() < count; ++i) {
    if (65'536 - i > count - made.size() && random.Chance(1, 12)) continue;
    made.push_back(
        {Prefix::Truncate(
             Address::V6(absl::MakeUint128(0x20010db800010000 | i, 0)), 64),
         static_cast<NextHopId>(1 + random.Below(kHostNextHops))});
  }
  return made;
}

absl::StatusOr<Table> MakeBase(absl::string_view name) {
  if (name == "real") return ReadTable(DataFile("rv6_20260730.txt"));
  if (name == "ipv4") return ReadTable(DataFile("rv4_20260730.txt.gz"));
  Table table;
  if (name == "hosts64" || name == "hosts48") {
    table.routes = Hosts(*Prefix::Parse(name == "hosts64" ? "2001:db8:0:1::/64"
                                                          : "2001:db8:1::/48"));
    return table;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, ':');
  const absl::string_view kind = parts.size() == 2 ? parts[0] : "";
  size_t count;
  int year = 2025;
  if (parts.size() <= 2 && absl::SimpleAtoi(parts.back(), &count)) {
    if (kind == "deep" || kind == "one48") {
      table.routes = kind == "deep" ? DeepRoutes(count) : OneSiteRoutes(count);
      return table;
    }
    const bool ipv4 = kind == "ipv4";
    if (kind.empty() || ipv4 ||
        (absl::SimpleAtoi(kind, &year) && year >= 2019 && year <= 2025)) {
      table.family = ipv4 ? Family::kIpv4 : Family::kIpv6;
      table.routes = SyntheticTable({.ipv6_routes = ipv4 ? 0 : count,
                                     .ipv4_routes = ipv4 ? count : 0,
                                     .year = year});
      return table;
    }
  }
  if (absl::StrContains(name, '/') || absl::StrContains(name, '.')) {
    return ReadTable(std::string(name));
  }
  return absl::InvalidArgumentError(absl::StrCat("no table \"", name, "\""));
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

absl::StatusOr<std::vector<Route>> MakeIpv6Routes(absl::string_view name) {
  auto table = MakeTable(name);
  if (!table.ok()) return table.status();
  if (table->family == Family::kIpv6 && !table->routes.empty()) {
    return std::move(table->routes);
  }
  return absl::InvalidArgumentError(absl::StrCat(name, " has no IPv6 route"));
}

absl::Status AssignNextHops(absl::string_view how, std::vector<Route>& routes) {
  if (how == "as-given") return absl::OkStatus();
  const bool wide = absl::ConsumePrefix(&how, "wide-");
  const bool sets = absl::ConsumePrefix(&how, "sets:");
  uint32_t count;
  if ((!sets && (wide || !absl::ConsumePrefix(&how, "random:"))) ||
      !absl::SimpleAtoi(how, &count) || count == 0) {
    return absl::InvalidArgumentError(
        "next hops are \"as-given\", \"random:N\", \"sets:N\" or "
        "\"wide-sets:N\" with N of 1 or more");
  }
  Random random(1);
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i].next_hop =
        static_cast<NextHopId>(1 + (sets ? i % count : random.Below(count)));
  }
  if (!sets) return absl::OkStatus();
  for (size_t i = routes.size(); i > 1; --i) {
    std::swap(routes[i - 1].next_hop, routes[random.Below(i)].next_hop);
  }
  if (wide) {
    for (Route& route : routes) route.next_hop = kUndecided - route.next_hop;
  }
  return absl::OkStatus();
}

Trace::Trace(Family family, size_t count)
    : family_(family),
      size_(count),
      width_(static_cast<size_t>(AddressBytes(family))),
      bytes_(count * width_) {}

Address Trace::address(size_t i) const {
  return *Address::FromPacked(absl::string_view(at(i), width_));
}

void Trace::Set(size_t i, const Address& address) {
  const std::string packed = address.ToPacked();
  std::memcpy(bytes_.data() + i * width_, packed.data(), width_);
}

absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed) {
  Trace trace(family, count);
  size_t i = 0;
  const absl::Status status =
      MakeTraffic(kind, family, routes, count, seed,
                  [&](const Address& address) { trace.Set(i++, address); });
  if (!status.ok()) return status;
  return trace;
}

namespace {

// How often a prefix is drawn that must not be there yet.
constexpr int kTries = 16;

// The length of prefixes that are new to a table; shorter ones hold them.
int NewLength(Family family) { return family == Family::kIpv4 ? 24 : 48; }

// Invariants: a prefix of known_ is in the table or in withdrawn_; present_
// has the routes of the table; hops_ are at least two, ascending.
class Churn {
 public:
  Churn(absl::Span<const Route> routes, uint64_t seed)
      : random_(seed), present_(routes.begin(), routes.end()) {
    for (const auto& [prefix, next_hop] : routes) {
      if (prefix.length() < NewLength(prefix.family())) {
        parents_.push_back(prefix);
      }
      known_.insert(prefix);
      hops_.push_back(next_hop);
    }
    std::sort(hops_.begin(), hops_.end());
    hops_.erase(std::unique(hops_.begin(), hops_.end()), hops_.end());
    for (NextHopId hop = 1; hops_.size() < 2; ++hop) {
      if (hops_.empty() || hops_[0] != hop) hops_.push_back(hop);
    }
    std::sort(hops_.begin(), hops_.end());
  }

  // Nothing if no change is possible.
  std::optional<Route> Next() {
    const uint64_t draw = random_.Below(4);
    std::optional<Route> change;
    if (draw == 0) change = Announce();
    if (draw == 1) change = Withdraw();
    if (!change) change = ChangeNextHop();
    return change ? change : Announce();
  }

 private:
  std::optional<Route> ChangeNextHop() {
    if (present_.empty()) return std::nullopt;
    Route& route = present_[random_.Below(present_.size())];
    // Any but the one it has.
    size_t k = random_.Below(hops_.size() - 1);
    if (hops_[k] >= route.next_hop) ++k;
    route.next_hop = hops_[k];
    return route;
  }

  std::optional<Route> Withdraw() {
    if (present_.empty()) return std::nullopt;
    std::swap(present_[random_.Below(present_.size())], present_.back());
    withdrawn_.push_back(present_.back().prefix);
    present_.pop_back();
    return Route{withdrawn_.back(), kNoRoute};
  }

  std::optional<Route> Announce() {
    std::optional<Prefix> prefix;
    if (withdrawn_.empty() || random_.Chance(1, 2)) prefix = NewPrefix();
    if (!prefix && withdrawn_.empty()) return std::nullopt;
    if (!prefix) {
      std::swap(withdrawn_[random_.Below(withdrawn_.size())],
                withdrawn_.back());
      prefix = withdrawn_.back();
      withdrawn_.pop_back();
    }
    present_.push_back({*prefix, hops_[random_.Below(hops_.size())]});
    return present_.back();
  }

  // Not known so far, now it is.
  std::optional<Prefix> NewPrefix() {
    for (int i = 0; i < kTries && !parents_.empty(); ++i) {
      const Prefix& in = parents_[random_.Below(parents_.size())];
      const absl::uint128 host = in.last() - in.first();
      const Prefix prefix = Prefix::Truncate(
          Address::FromBits(in.family(),
                            in.first() | (random_.Next128() & host)),
          NewLength(in.family()));
      if (known_.insert(prefix).second) return prefix;
    }
    return std::nullopt;
  }

  Random random_;
  std::vector<Route> present_;
  std::vector<Prefix> withdrawn_;
  std::vector<Prefix> parents_;  // of the table as it was at first
  absl::flat_hash_set<Prefix> known_;
  std::vector<NextHopId> hops_;
};

}  // namespace

absl::StatusOr<std::vector<Route>> MakeChurn(absl::Span<const Route> routes,
                                             size_t count, uint64_t seed) {
  Churn churn(routes, seed);
  std::vector<Route> changes;
  changes.reserve(count);
  while (changes.size() < count) {
    const std::optional<Route> change = churn.Next();
    if (!change) {
      return absl::FailedPreconditionError("no routes to change");
    }
    changes.push_back(*change);
  }
  return changes;
}

std::vector<Route> ThereAndBack(RouteSet routes,
                                absl::Span<const Route> changes) {
  std::vector<Route> all(changes.begin(), changes.end());
  std::vector<Route> undo;
  for (const Route& change : changes) {
    undo.push_back({change.prefix, routes.Find(change.prefix)});
    ApplyChange(change, routes);
  }
  all.insert(all.end(), undo.rbegin(), undo.rend());
  return all;
}

bool ApplyChange(const Route& change, RouteSet& routes) {
  return change.next_hop == kNoRoute
             ? routes.Withdraw(change.prefix)
             : routes.Announce(change.prefix, change.next_hop);
}

}  // namespace planb
