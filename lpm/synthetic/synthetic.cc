// SPDX-License-Identifier: Apache-2.0

// How the table comes to resemble the Internet's. Networks hold allocations
// (IPv6: /20../32), placed near each other inside the blocks that registries
// hand out. The more specifics lie in sites: some /32s (IPv4: /16s), announced
// as a whole or not. They come in runs of consecutive prefixes of one length;
// half as many runs are twice as long, so a few sites are very crowded.
//
// Compared with the IPv6 table of 2026-07-30 at its size: 37k occupied /32s
// (real: 37k), the fullest 4.1k prefixes (4.2k), 58% nested in another prefix
// (57%), 0.54 intervals a prefix after merging neighbours (0.58). IPv4 nests
// deeper than the real table and comes less in runs.

#include "lpm/synthetic/synthetic.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

// What differs between the families. The spans are of constants.
struct SyntheticWorld {
  struct Share {
    int length;
    uint64_t weight;
  };
  struct Block {
    uint64_t first;  // the top 64 bits of its left-aligned first address
    int length;
    uint64_t weight;  // how much of the table lies here
  };

  Family family;
  // Ascending by length, but the most popular last: it absorbs the rounding.
  absl::Span<const Share> mix;
  absl::Span<const Block> blocks;
  absl::Span<const Block> reserved;  // never announced
  // Up to this length a prefix is an allocation, beyond it a more specific,
  // which belongs to a site: a prefix of exactly this length.
  int site_length;
  // A run of more specifics has at most 2^this prefixes.
  int run_doublings;
  // One in so many runs starts a new site.
  uint64_t runs_per_site;
};

using Share = SyntheticWorld::Share;
using Block = SyntheticWorld::Block;

// Parts per million. The five most popular lengths have the shares of the
// paper's Table 1 (August 2025); the others share the rest as in the table of
// 2026-07-30.
constexpr Share kMixV6[] = {
    {20, 60},     {21, 12},    {22, 24},     {23, 24},    {24, 160},
    {25, 48},     {26, 68},    {27, 72},     {28, 640},   {29, 21990},
    {30, 2990},   {31, 1420},  {32, 110000}, {33, 22980}, {34, 21820},
    {35, 7580},   {36, 38900}, {37, 5060},   {38, 11210}, {39, 7330},
    {40, 101100}, {41, 7030},  {42, 12150},  {43, 5790},  {44, 96900},
    {45, 18190},  {46, 23460}, {47, 36280},  {49, 120},   {50, 12},
    {52, 120},    {56, 360},   {64, 810},    {80, 4},     {112, 4},
    {118, 8},     {123, 16},   {124, 4},     {125, 8},    {128, 16},
    {48, 445500},
};

constexpr Block kBlocksV6[] = {
    {0x2001'0000'0000'0000, 16, 11}, {0x2400'0000'0000'0000, 12, 31},
    {0x2600'0000'0000'0000, 12, 14}, {0x2620'0000'0000'0000, 16, 1},
    {0x2800'0000'0000'0000, 12, 20}, {0x2a00'0000'0000'0000, 12, 18},
    {0x2a10'0000'0000'0000, 12, 3},  {0x2c00'0000'0000'0000, 12, 2},
};

// Special purposes (RFC 2928) and documentation (RFC 3849).
constexpr Block kReservedV6[] = {
    {0x2001'0000'0000'0000, 23, 0},
    {0x2001'0db8'0000'0000, 32, 0},
};

// Parts per million, as in the table of 2026-07-30.
constexpr Share kMixV4[] = {
    {8, 14},      {9, 13},     {10, 35},    {11, 88},    {12, 271},
    {13, 531},    {14, 1081},  {15, 1955},  {16, 12517}, {17, 7701},
    {18, 12268},  {19, 23537}, {20, 43161}, {21, 49674}, {22, 104802},
    {23, 104222}, {25, 326},   {26, 492},   {27, 894},   {28, 51},
    {29, 79},     {30, 10},    {31, 5},     {32, 137},   {24, 636136},
};

constexpr Block kBlocksV4[] = {{0, 0, 1}};

// This network, private use, shared, loopback, link local, multicast and up.
constexpr Block kReservedV4[] = {
    {0x0000'0000'0000'0000, 8, 0},  {0x0a00'0000'0000'0000, 8, 0},
    {0x6440'0000'0000'0000, 10, 0}, {0x7f00'0000'0000'0000, 8, 0},
    {0xa9fe'0000'0000'0000, 16, 0}, {0xac10'0000'0000'0000, 12, 0},
    {0xc0a8'0000'0000'0000, 16, 0}, {0xe000'0000'0000'0000, 3, 0},
};

constexpr SyntheticWorld kSyntheticIpv6 = {
    .family = Family::kIpv6,
    .mix = kMixV6,
    .blocks = kBlocksV6,
    .reserved = kReservedV6,
    .site_length = 32,
    .run_doublings = 12,
    .runs_per_site = 3,
};
constexpr SyntheticWorld kSyntheticIpv4 = {
    .family = Family::kIpv4,
    .mix = kMixV4,
    .blocks = kBlocksV4,
    .reserved = kReservedV4,
    .site_length = 16,
    .run_doublings = 7,
    .runs_per_site = 6,
};

// A candidate that collides is drawn again: this often near others, this often
// anywhere, then with a longer length (which tables of sane size never see).
constexpr int kTriesNear = 16;
constexpr int kTriesAnywhere = 1000;

Prefix At(Family family, absl::uint128 bits, int length) {
  if (family == Family::kIpv4) bits &= absl::Uint128Max() << 96;
  return Prefix::Truncate(Address::FromBits(family, bits), length);
}

Prefix ToPrefix(Family family, const SyntheticWorld::Block& block) {
  return At(family, absl::MakeUint128(block.first, 0), block.length);
}

// Makes the routes of one family.
class Generator {
 public:
  Generator(const SyntheticWorld& world, uint64_t seed, uint32_t next_hops)
      : world_(world), random_(seed), next_hops_(std::max(next_hops, 1U)) {}

  std::vector<Route> Make(size_t count) {
    std::vector<Run> runs;
    uint64_t total = 0;
    for (const auto& share : world_.mix) total += share.weight;
    uint64_t sum = 0;
    size_t done = 0;
    for (const auto& share : world_.mix) {
      // Each length is within one of its exact share, the sum is exact.
      sum += share.weight;
      const size_t upto =
          static_cast<size_t>(absl::uint128(count) * sum / total);
      size_t left = upto - std::exchange(done, upto);
      if (share.length > world_.site_length) {
        for (; left > 0; left -= runs.back().count) {
          runs.push_back({share.length, RunSize(share.length, left)});
        }
      } else {
        for (; left > 0; --left) AddAllocation(share.length);
      }
    }
    allocations_ = routes_.size();
    random_.Shuffle(runs);
    for (auto begin = runs.begin(); begin != runs.end();) {
      auto end = begin + 1;
      while (end != runs.end() && !random_.Chance(1, world_.runs_per_site)) {
        ++end;
      }
      // Shorter ones first: they look for free space, the others fill it.
      std::sort(begin, end);
      StartSite();
      for (; begin != end; ++begin) AddRun(*begin);
    }
    std::sort(routes_.begin(), routes_.end());
    return std::move(routes_);
  }

 private:
  // Prefixes of one length that follow each other.
  struct Run {
    int length;
    size_t count;

    friend auto operator<=>(const Run&, const Run&) = default;
  };

  // Twice as many with probability 1/2 each time, but not more than a good
  // part of a site.
  size_t RunSize(int length, size_t at_most) {
    const int doublings =
        std::min({absl::countl_zero(random_.Next()), world_.run_doublings,
                  std::max(0, length - world_.site_length - 1)});
    return std::min(at_most, size_t{1} << doublings);
  }

  NextHopId AnyNextHop() {
    return static_cast<NextHopId>(1 + random_.Below(next_hops_));
  }

  // A random prefix in a random block.
  Prefix Anywhere(int length) {
    uint64_t total = 0;
    for (const auto& block : world_.blocks) total += block.weight;
    uint64_t pick = random_.Below(total);
    auto block = world_.blocks.begin();
    while (pick >= block->weight) pick -= (block++)->weight;
    return Inside(ToPrefix(world_.family, *block), length);
  }

  // A random prefix of `length` inside `parent`.
  Prefix Inside(const Prefix& parent, int length) {
    const absl::uint128 host = parent.last() - parent.first();
    return At(world_.family, parent.first() | (random_.Next128() & host),
              length);
  }

  // The prefix `steps` (>= 1) after `prefix`; around the end, at worst.
  Prefix After(const Prefix& prefix, uint64_t steps) {
    const absl::uint128 size = prefix.last() - prefix.first() + 1;
    return At(world_.family, prefix.first() + size * steps, prefix.length());
  }

  // Adds `prefix` unless it is there already or may not be announced.
  bool Add(const Prefix& prefix, NextHopId next_hop) {
    const auto covers = [&](const SyntheticWorld::Block& block) {
      return ToPrefix(world_.family, block).Covers(prefix);
    };
    const auto inside = [&](const SyntheticWorld::Block& block) {
      return prefix.Covers(ToPrefix(world_.family, block));
    };
    if (absl::c_none_of(world_.blocks, covers) ||
        absl::c_any_of(world_.reserved, covers) ||
        absl::c_any_of(world_.reserved, inside)) {
      return false;
    }
    if (!taken_.insert({prefix.first(), prefix.length()}).second) return false;
    routes_.push_back({prefix, next_hop});
    return true;
  }

  // True if a prefix of `shortest` bits or more covers `prefix`.
  bool Covered(const Prefix& prefix, int shortest) const {
    for (int n = prefix.length(); n >= shortest; --n) {
      const Prefix parent = Prefix::Truncate(prefix.address(), n);
      if (taken_.contains({parent.first(), n})) return true;
    }
    return false;
  }

  void AddAnywhere(int length) {
    // Drawn before the prefix: the order of draws must not be the compiler's.
    const NextHopId next_hop = AnyNextHop();
    for (int tries = 0; !Add(Anywhere(length), next_hop); ++tries) {
      const bool can_grow = length < AddressBits(world_.family);
      if (tries % kTriesAnywhere == kTriesAnywhere - 1 && can_grow) ++length;
    }
  }

  // Registries hand out neighbours in turn, and holders announce parts.
  void AddAllocation(int length) {
    for (int tries = 0; tries < kTriesNear; ++tries) {
      if (routes_.empty() || random_.Chance(1, 4)) break;
      const Route& near = routes_[random_.Below(routes_.size())];
      const bool part = near.prefix.length() < length && random_.Chance(1, 4);
      const Prefix prefix =
          part ? Inside(near.prefix, length)
               : After(At(world_.family, near.prefix.last(), length),
                       1 + random_.Below(8));
      const NextHopId next_hop =
          random_.Chance(1, 2) ? near.next_hop : AnyNextHop();
      if (Add(prefix, next_hop)) return;
    }
    AddAnywhere(length);
  }

  // Some sites are part of an announced allocation, the others of a neighbour
  // that is not announced as a whole.
  void StartSite() {
    site_routes_ = routes_.size();
    site_ = Anywhere(world_.site_length);
    site_next_hop_ = AnyNextHop();
    if (allocations_ == 0) return;
    const bool part = random_.Chance(2, 5);
    for (int tries = 0; tries < kTriesNear; ++tries) {
      const Route& near = routes_[random_.Below(allocations_)];
      if (random_.Chance(7, 8)) site_next_hop_ = near.next_hop;
      const Prefix last =
          At(world_.family, near.prefix.last(), world_.site_length);
      site_ = part ? Inside(near.prefix, world_.site_length) : After(last, 1);
      if (part || !Covered(site_, 0)) return;
    }
  }

  // Announces `run` in the site. One next hop serves most of a site; here and
  // there a run has its own, or a prefix has.
  void AddRun(const Run& run) {
    const NextHopId next_hop =
        random_.Chance(1, 8) ? AnyNextHop() : site_next_hop_;
    Prefix prefix = RunStart(run.length);
    for (size_t i = 0; i < run.count; ++i) {
      int tries = 0;
      while (!site_.Covers(prefix) ||
             !Add(prefix, random_.Chance(1, 24) ? AnyNextHop() : next_hop)) {
        if (++tries == kTriesNear) break;
        prefix = tries % 4 != 0 ? After(prefix, 1) : RunStart(run.length);
      }
      if (tries == kTriesNear) AddAnywhere(run.length);
      prefix = After(prefix, random_.Chance(7, 8) ? 1 : 2);
    }
  }

  // Inside another prefix of the site, or where there is none.
  Prefix RunStart(int length) {
    if (random_.Chance(1, 6) && site_routes_ < routes_.size()) {
      const size_t others = routes_.size() - site_routes_;
      const Prefix& other =
          routes_[site_routes_ + random_.Below(others)].prefix;
      if (other.length() < length) return Inside(other, length);
    }
    Prefix prefix;
    for (int tries = 0; tries < kTriesNear; ++tries) {
      prefix = Inside(site_, length);
      if (!Covered(prefix, world_.site_length + 1)) break;
    }
    return prefix;
  }

  const SyntheticWorld& world_;
  Random random_;
  const uint32_t next_hops_;
  std::vector<Route> routes_;
  absl::flat_hash_set<std::pair<absl::uint128, int>> taken_;
  size_t allocations_ = 0;  // the first so many routes

  Prefix site_;
  NextHopId site_next_hop_ = kNoRoute;
  size_t site_routes_ = 0;  // index of the site's first route
};

}  // namespace

namespace {

// The five most popular lengths of a year, in parts per million: the paper's
// Table 1, of the collector rrc00.
struct YearMix {
  int year;
  std::array<Share, 5> top;
};
constexpr YearMix kYears[] = {
    {2019,
     {{{48, 465200}, {32, 171300}, {44, 61300}, {40, 54000}, {36, 39700}}}},
    {2020,
     {{{48, 478700}, {32, 155200}, {44, 61400}, {40, 53100}, {36, 41500}}}},
    {2021,
     {{{48, 418200}, {32, 145900}, {44, 87300}, {40, 66600}, {64, 48100}}}},
    {2022,
     {{{48, 472800}, {32, 133100}, {44, 83200}, {40, 77300}, {36, 37600}}}},
    {2023,
     {{{48, 463900}, {32, 118300}, {44, 90900}, {40, 78900}, {36, 36500}}}},
    {2024,
     {{{48, 452700}, {32, 111900}, {44, 94000}, {40, 90100}, {36, 36400}}}},
};

// The mix of a year: its five lengths, and the others of kMixV6 in the rest.
std::vector<Share> MixOf(int year) {
  std::vector<Share> mix(std::begin(kMixV6), std::end(kMixV6));
  for (const YearMix& of : kYears) {
    if (of.year != year) continue;
    const auto in_top = [&of](const Share& share) {
      return absl::c_any_of(of.top, [&share](const Share& top) {
        return top.length == share.length;
      });
    };
    uint64_t named = 0;
    uint64_t others = 0;
    for (const Share& share : of.top) named += share.weight;
    for (const Share& share : mix) others += in_top(share) ? 0 : share.weight;
    for (Share& share : mix) {
      if (!in_top(share)) {
        share.weight = share.weight * (1'000'000 - named) / others;
        continue;
      }
      for (const Share& top : of.top) {
        if (top.length == share.length) share.weight = top.weight;
      }
    }
  }
  return mix;
}

}  // namespace

std::vector<Route> SyntheticTable(const SyntheticOptions& options) {
  const std::vector<Share> mix = MixOf(options.year);
  SyntheticWorld ipv6_world = kSyntheticIpv6;
  ipv6_world.mix = mix;
  Random seeds(options.seed);
  const uint64_t seed_v4 = seeds.Next();
  std::vector<Route> routes =
      Generator(kSyntheticIpv4, seed_v4, options.next_hops)
          .Make(options.ipv4_routes);
  const std::vector<Route> ipv6 =
      Generator(ipv6_world, seeds.Next(), options.next_hops)
          .Make(options.ipv6_routes);
  routes.insert(routes.end(), ipv6.begin(), ipv6.end());
  return routes;
}

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
