// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/random_tables.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/random.h"

namespace planb {

namespace {

// Ones in the first `length` of 128 bits.
absl::uint128 Mask(int length) {
  return length == 0 ? absl::uint128(0) : absl::Uint128Max() << (128 - length);
}

}  // namespace

std::vector<Route> RandomRoutes(const RandomRoutesOptions& options) {
  Random random(options.seed);
  const int bits = AddressBits(options.family);
  const int max_length = options.max_length < 0 ? bits : options.max_length;
  const auto lengths =
      static_cast<uint64_t>(max_length - options.min_length + 1);
  absl::btree_map<Prefix, NextHopId> routes;
  std::vector<Prefix> walk;
  for (size_t tries = 0; tries < 4 * options.count; ++tries) {
    if (routes.size() >= options.count) break;
    const int length =
        options.min_length + static_cast<int>(random.Below(lengths));
    absl::uint128 address = random.Next128();
    if (!walk.empty() && !random.Chance(1, 50)) {
      const Prefix& other = walk[random.Below(walk.size())];
      if (random.Chance(1, 4)) {  // right after it: may wrap around
        address = other.last() + (absl::uint128(1) << (128 - bits));
      } else {  // beside it or inside it
        const int shared = std::min(other.length(), length) -
                           static_cast<int>(random.Below(4));
        const absl::uint128 mask = Mask(std::max(0, shared));
        address = (other.first() & mask) | (address & ~mask);
        // Often the first or the last place inside.
        if (random.Chance(1, 3)) address &= Mask(other.length());
        if (random.Chance(1, 3)) address |= ~Mask(std::max(0, shared));
      }
    }
    const Prefix prefix = Prefix::Truncate(
        Address::FromBits(options.family, address & Mask(bits)), length);
    const auto next_hop =
        static_cast<NextHopId>(1 + random.Below(options.next_hops));
    if (routes.emplace(prefix, next_hop).second) walk.push_back(prefix);
  }
  std::vector<Route> sorted;
  sorted.reserve(routes.size());
  for (const auto& [prefix, next_hop] : routes) {
    sorted.push_back({prefix, next_hop});
  }
  return sorted;
}

namespace {

void SortOut(std::vector<Prefix>& prefixes) {
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
}

void Append(std::vector<Prefix>& to, const std::vector<Prefix>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Address RandomAddress(Family family, Random& random) {
  const int bits = AddressBits(family);
  absl::uint128 address = random.Next128();
  // Most real prefixes are in 2000::/3; some ends of the space are special.
  if (family == Family::kIpv6 && random.Chance(3, 4)) {
    address = (address >> 3) | (absl::uint128(1) << 125);
  } else if (random.Chance(1, 4)) {
    address = random.Chance(1, 2) ? absl::uint128(0) : absl::Uint128Max();
  }
  return Prefix::Truncate(
             Address::FromBits(family, address >> (128 - bits) << (128 - bits)),
             bits)
      .address();
}

// Where slots, tables, partitions and stages may begin or end.
int RandomEdge(Family family, Random& random) {
  constexpr int kIpv6[] = {0,  3,  8,  12, 16, 20, 24, 28, 32,  36, 40,
                           44, 48, 52, 56, 60, 64, 80, 96, 112, 120};
  constexpr int kIpv4[] = {0, 4, 8, 12, 15, 16, 18, 20, 22, 24, 26, 28};
  return family == Family::kIpv6 ? kIpv6[random.Below(std::size(kIpv6))]
                                 : kIpv4[random.Below(std::size(kIpv4))];
}

}  // namespace

std::vector<Prefix> PrefixesBelow(const Prefix& top, size_t count,
                                  uint64_t seed) {
  const absl::uint128 host = top.last() - top.first();
  std::vector<Prefix> prefixes;
  for (const Route& route : RandomRoutes({.family = top.family(),
                            .count = count,
                            .min_length = top.length(),
                            .seed = seed})) {
    prefixes.push_back(Prefix::Truncate(
        Address::FromBits(top.family(),
                          top.first() | (route.prefix.first() & host)),
        route.prefix.length()));
  }
  SortOut(prefixes);
  return prefixes;
}

std::vector<Prefix> Chain(const Address& address, int first, int last) {
  std::vector<Prefix> prefixes;
  for (int length = first; length <= last; ++length) {
    prefixes.push_back(Prefix::Truncate(address, length));
  }
  return prefixes;
}

std::vector<Prefix> Siblings(const Address& address, int first, int last) {
  std::vector<Prefix> prefixes;
  for (int length = std::max(1, first); length <= last; ++length) {
    const absl::uint128 bit = absl::uint128(1) << (128 - length);
    prefixes.push_back(Prefix::Truncate(
        Address::FromBits(address.family(), address.bits() ^ bit), length));
  }
  return prefixes;
}

std::vector<Prefix> Row(const Prefix& first, size_t count) {
  std::vector<Prefix> prefixes;
  Prefix prefix = first;
  while (prefixes.size() < count) {
    prefixes.push_back(prefix);
    if (prefix.length() == 0) break;
    const absl::uint128 next =
        prefix.first() + (absl::uint128(1) << (128 - prefix.length()));
    if (next == 0) break;  // past the last one
    prefix = Prefix::Truncate(Address::FromBits(first.family(), next),
                              first.length());
  }
  return prefixes;
}

std::vector<Prefix> HardPrefixes(Family family, size_t count, uint64_t seed) {
  Random random(seed);
  const int bits = AddressBits(family);
  std::vector<Prefix> prefixes;
  Address home = RandomAddress(family, random);
  for (const int length : {0, 3, 8}) {
    if (random.Chance(2, 3)) prefixes.push_back(Prefix::Truncate(home, length));
  }
  while (prefixes.size() < count) {
    if (random.Chance(1, 5)) home = RandomAddress(family, random);
    const size_t some = 1 + random.Below(1 + count / 2);
    const int edge = RandomEdge(family, random);
    const Prefix top = Prefix::Truncate(home, edge);
    const int below =
        edge + static_cast<int>(random.Below(
                   static_cast<uint64_t>(std::min(20, bits - edge) + 1)));
    switch (random.Below(6)) {
      case 0:
      case 1:
        Append(prefixes, PrefixesBelow(top, some, random.Next()));
        break;
      case 2:
        Append(prefixes, Chain(home, edge, below));
        break;
      case 3:
        Append(prefixes, Siblings(home, edge, below));
        break;
      case 4:
        Append(prefixes, Row(Prefix::Truncate(home, std::max(1, below)), some));
        break;
      case 5:  // hosts of one subnet
        for (size_t i = 0; i < some; ++i) {
          const absl::uint128 host = top.last() - top.first();
          const absl::uint128 mask = random.Chance(1, 2) ? 0xffff : host;
          prefixes.push_back(Prefix::Truncate(
              Address::FromBits(
                  family, home.bits() ^ (random.Next128() & mask & host &
                                         (absl::Uint128Max() << (128 - bits)))),
              bits));
        }
        break;
    }
  }
  SortOut(prefixes);
  return prefixes;
}

std::vector<Route> HardRoutes(Family family, size_t count, uint64_t seed,
                              uint32_t next_hops) {
  std::vector<Route> routes;
  for (const Prefix& prefix : HardPrefixes(family, count, seed)) {
    const auto i = static_cast<uint32_t>(routes.size());
    routes.push_back({prefix, 1 + i % next_hops});
  }
  return routes;
}

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
