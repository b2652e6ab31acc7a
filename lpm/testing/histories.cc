// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/histories.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lpm/testing/hard_prefixes.h"

namespace planb {

std::string ChangesText(absl::Span<const Change> changes) {
  std::string text;
  for (const Change& change : changes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ");
    if (change.next_hop == kNoRoute) {
      absl::StrAppend(&text, "withdraw ", change.prefix.ToString());
    } else {
      absl::StrAppend(&text, change.prefix.ToString(), " -> ", change.next_hop);
    }
  }
  return text;
}

LiveTable::LiveTable(Family family, absl::Span<const Route> routes)
    : routes_(family, routes), compiler_(family) {
  for (const Route& route : routes) model_[route.prefix] = route.next_hop;
  fib_ = compiler_.Compile(routes_).value();
}

std::shared_ptr<const Fib> LiveTable::Apply(
    absl::Span<const Change> changes, absl::Span<const Prefix> also_named) {
  std::vector<Prefix> named;
  named.reserve(changes.size() + also_named.size());
  for (const Change& change : changes) {
    named.push_back(change.prefix);
    if (change.next_hop == kNoRoute) {
      routes_.Withdraw(change.prefix);
      model_.erase(change.prefix);
    } else {
      routes_.Announce(change.prefix, change.next_hop);
      model_[change.prefix] = change.next_hop;
    }
  }
  named.insert(named.end(), also_named.begin(), also_named.end());
  fib_ = compiler_.Update(routes_, named).value();
  return fib_;
}

std::shared_ptr<const Fib> LiveTable::Recompile() {
  fib_ = compiler_.Compile(routes_).value();
  return fib_;
}

std::vector<Route> LiveTable::ModelRoutes() const {
  std::vector<Route> routes;
  routes.reserve(model_.size());
  for (const auto& [prefix, next_hop] : model_) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

History::History(const HistoryOptions& options)
    : options_(options),
      random_(options.seed),
      pool_(HardPrefixes(options.family, options.prefixes, random_.Next())) {}

const Prefix& History::AnyPrefix() {
  if (random_.Chance(1, 3)) {
    last_ = (last_ + random_.Below(3) + pool_.size() - 1) % pool_.size();
  } else {
    last_ = random_.Below(pool_.size());
  }
  return pool_[last_];
}

NextHopId History::AnyNextHop() {
  const NextHopId next_hop =
      options_.first_next_hop +
      static_cast<NextHopId>(random_.Below(options_.next_hops));
  return IsNextHop(next_hop) ? next_hop : 1;
}

Change History::AnyChange() {
  const Prefix& prefix = AnyPrefix();
  return {prefix, random_.Chance(withdrawals_, 10) ? kNoRoute : AnyNextHop()};
}

std::vector<Change> History::Few() {
  std::vector<Change> changes(1 + random_.Below(options_.changes));
  for (Change& change : changes) change = AnyChange();
  return changes;
}

// Few prefixes, each coming and going.
std::vector<Change> History::Flaps() {
  const std::vector<Change> once = Few();
  std::vector<Change> changes;
  for (uint64_t round = 1 + random_.Below(3); round > 0; --round) {
    for (const Change& change : once) {
      changes.push_back({change.prefix, kNoRoute});
      changes.push_back({change.prefix, AnyNextHop()});
    }
  }
  if (random_.Chance(1, 2)) {
    changes.insert(changes.end(), once.begin(), once.end());
  }
  return changes;
}

std::vector<Change> History::Burst() {
  std::vector<Change> changes(1 + random_.Below(1000));
  for (Change& change : changes) change = AnyChange();
  return changes;
}

// All announced, with one next hop or several, or all withdrawn.
std::vector<Change> History::Everything() {
  std::vector<Change> changes;
  const NextHopId one = AnyNextHop();
  const uint64_t how = random_.Below(3);
  for (const Prefix& prefix : pool_) {
    changes.push_back({prefix, how == 0   ? kNoRoute
                               : how == 1 ? one
                                          : AnyNextHop()});
  }
  return changes;
}

// All that one prefix covers.
std::vector<Change> History::Below() {
  const Prefix top = AnyPrefix();
  std::vector<Change> changes;
  const NextHopId one = random_.Chance(1, 2) ? kNoRoute : AnyNextHop();
  for (const Prefix& prefix : pool_) {
    if (top.Covers(prefix)) changes.push_back({prefix, one});
  }
  return changes;
}

// Gives up some prefixes for ones that the history has not seen.
std::vector<Change> History::OtherPrefixes() {
  const std::vector<Prefix> fresh = HardPrefixes(
      options_.family, 1 + random_.Below(options_.prefixes), random_.Next());
  std::vector<Change> changes;
  for (const Prefix& prefix : fresh) {
    if (random_.Chance(1, 2)) continue;
    Prefix& place = pool_[random_.Below(pool_.size())];
    changes.push_back({place, kNoRoute});
    changes.push_back({prefix, AnyNextHop()});
    place = prefix;
  }
  if (changes.empty()) return Few();
  std::sort(pool_.begin(), pool_.end());
  return changes;
}

std::vector<Change> History::NextBatch() {
  if (random_.Chance(1, 50)) withdrawals_ = 1 + random_.Below(9);
  const uint64_t kind = random_.Below(1000);
  if (kind < 600) return Few();
  if (kind < 850) return {AnyChange()};
  if (kind < 950) return Flaps();
  if (kind < 975) return Below();
  if (kind < 985) return Everything();
  if (kind < 993) return OtherPrefixes();
  return Burst();
}

std::vector<Prefix> History::AlsoNamed() {
  std::vector<Prefix> named;
  if (!random_.Chance(1, 8)) return named;
  for (uint64_t n = random_.Below(5); n > 0; --n) named.push_back(AnyPrefix());
  return named;
}

}  // namespace planb
