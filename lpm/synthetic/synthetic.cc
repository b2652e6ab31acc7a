// How the table comes to look like the Internet's. Networks hold allocations
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
#include <compare>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/bits.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic_world.h"

namespace planb {
namespace {

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
    Shuffle(runs);
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

  void Shuffle(std::vector<Run>& runs) {
    for (size_t n = runs.size(); n > 1; --n) {
      std::swap(runs[n - 1], runs[random_.Below(n)]);
    }
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

std::vector<Route> SyntheticTable(const SyntheticOptions& options) {
  Random seeds(options.seed);
  const uint64_t seed_v4 = seeds.Next();
  std::vector<Route> routes =
      Generator(kSyntheticIpv4, seed_v4, options.next_hops)
          .Make(options.ipv4_routes);
  const std::vector<Route> ipv6 =
      Generator(kSyntheticIpv6, seeds.Next(), options.next_hops)
          .Make(options.ipv6_routes);
  routes.insert(routes.end(), ipv6.begin(), ipv6.end());
  return routes;
}

}  // namespace planb
