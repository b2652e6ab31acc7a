// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/churn.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

// How often a prefix is drawn that must not be there yet.
constexpr int kTries = 16;

bool IsOfKind(ChurnKind kind, const Prefix& prefix, bool covers) {
  const bool v4 = prefix.family() == Family::kIpv4;
  switch (kind) {
    case ChurnKind::kMixed:
      return true;
    case ChurnKind::kCovering:
      return covers && prefix.length() >= (v4 ? 12 : 20) &&
             prefix.length() <= (v4 ? 20 : 32);
    case ChurnKind::kLong:
      return prefix.length() > (v4 ? 24 : 48);
  }
  return false;
}

// Whether new prefixes are made inside this one.
bool IsParent(ChurnKind kind, const Prefix& prefix) {
  const int usual = prefix.family() == Family::kIpv4 ? 24 : 48;
  return kind == ChurnKind::kMixed  ? prefix.length() < usual
         : kind == ChurnKind::kLong ? prefix.length() <= usual
                                    : false;
}

// Invariants: a prefix of known_ is in the table or in withdrawn_; present_
// has those of the kind that are in the table, with their next hops; hops_ are
// at least two, ascending.
class Churn {
 public:
  Churn(ChurnKind kind, absl::Span<const Route> routes, uint64_t seed)
      : kind_(kind), random_(seed) {
    for (size_t i = 0; i < routes.size(); ++i) {
      const Prefix& prefix = routes[i].prefix;
      const bool covers =
          i + 1 < routes.size() && prefix.Covers(routes[i + 1].prefix);
      if (IsOfKind(kind, prefix, covers)) present_.push_back(routes[i]);
      if (IsParent(kind, prefix)) parents_.push_back(prefix);
      known_.insert(prefix);
      hops_.push_back(routes[i].next_hop);
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

  int NewLength(Family family) {
    if (kind_ == ChurnKind::kMixed) return family == Family::kIpv4 ? 24 : 48;
    if (family == Family::kIpv4) return static_cast<int>(25 + random_.Below(8));
    return static_cast<int>(random_.Chance(1, 2) ? 49 + random_.Below(16)
                                                 : 65 + random_.Below(64));
  }

  const ChurnKind kind_;
  Random random_;
  std::vector<Route> present_;
  std::vector<Prefix> withdrawn_;
  std::vector<Prefix> parents_;  // of the table as it was at first
  absl::flat_hash_set<Prefix> known_;
  std::vector<NextHopId> hops_;
};

}  // namespace

absl::string_view ChurnKindName(ChurnKind kind) {
  switch (kind) {
    case ChurnKind::kMixed:
      return "mixed";
    case ChurnKind::kCovering:
      return "covering";
    case ChurnKind::kLong:
      return "long";
  }
  return "?";
}

absl::StatusOr<std::vector<Route>> MakeChurn(ChurnKind kind,
                                             absl::Span<const Route> routes,
                                             size_t count, uint64_t seed) {
  Churn churn(kind, routes, seed);
  std::vector<Route> changes;
  changes.reserve(count);
  while (changes.size() < count) {
    const std::optional<Route> change = churn.Next();
    if (!change) {
      return absl::FailedPreconditionError(
          absl::StrCat("no routes for changes of kind \"", ChurnKindName(kind),
                       "\" in this table"));
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
