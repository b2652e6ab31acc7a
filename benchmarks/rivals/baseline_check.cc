// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/rivals/baseline_check.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

// Asks in batches of sizes that go round. Each batch is in arrays of its own,
// one byte off any alignment.
std::vector<NextHopId> LookupAll(const Baseline& baseline,
                                 absl::Span<const Address> probes) {
  constexpr size_t kSizes[] = {1, 7, 8, 16, 31, 32, 33, 64, 129, 1000, 4096};
  std::vector<NextHopId> found;
  found.reserve(probes.size());
  for (size_t i = 0; !probes.empty(); ++i) {
    const size_t size = std::min(kSizes[i % std::size(kSizes)], probes.size());
    std::string packed;
    for (const Address& probe : probes.first(size)) packed += probe.ToPacked();
    const auto in = std::make_unique<char[]>(packed.size() + 1);
    std::memcpy(&in[1], packed.data(), packed.size());
    const auto out = std::make_unique<char[]>(4 * size + 1);
    std::fill_n(out.get(), 4 * size + 1, '\x5a');
    baseline.Lookup(&in[1], size, &out[1]);
    for (size_t j = 0; j < size; ++j) {
      uint32_t wire;
      std::memcpy(&wire, &out[1 + 4 * j], sizeof(wire));
      found.push_back(le32toh(wire));
    }
    probes.remove_prefix(size);
  }
  return found;
}

// A crowd of at most `count` routes that nest deeply and touch each other:
// sorted, distinct.
std::vector<Route> CrowdedRoutes(const BaselineLimits& limits, size_t count,
                                 uint64_t seed) {
  Random random(seed);
  const int most = std::min(limits.max_length, AddressBits(limits.family));
  const absl::uint128 one = absl::uint128(1)
                            << (128 - AddressBits(limits.family));
  const absl::uint128 real_bits = ~(one - 1);
  absl::btree_map<Prefix, NextHopId> routes;
  std::vector<Prefix> made;
  for (size_t i = 0; i < count; ++i) {
    const int length =
        static_cast<int>(random.Below(static_cast<uint64_t>(most) + 1));
    absl::uint128 bits = random.Next128() & real_bits;
    if (!made.empty() && !random.Chance(1, 40)) {
      const Prefix& other = made[random.Below(made.size())];
      switch (random.Below(4)) {
        case 0:  // right behind it
          bits = other.last() + one;
          break;
        case 1:  // at its end
          bits = other.last();
          break;
        case 2:  // at its start
          bits = other.first();
          break;
        default:  // somewhere inside
          bits = other.first() | (bits & (other.last() - other.first()));
      }
    }
    const Prefix prefix =
        Prefix::Truncate(Address::FromBits(limits.family, bits), length);
    const auto next_hop =
        static_cast<NextHopId>(1 + random.Below(limits.next_hops));
    if (routes.emplace(prefix, next_hop).second) made.push_back(prefix);
  }
  std::vector<Route> sorted;
  for (const auto& [prefix, next_hop] : routes) {
    sorted.push_back({prefix, next_hop});
  }
  return sorted;
}

}  // namespace

void ExpectLikeReference(const BaselineBuilder& build, Family family,
                         absl::Span<const Route> routes) {
  const auto baseline = build(family, routes);
  ASSERT_TRUE(baseline.ok()) << baseline.status();
  EXPECT_GT((*baseline)->bytes(), 0U);
  const size_t inside = routes.size() < 1000 ? 4 : 1;
  std::vector<Address> probes = BoundaryProbes(routes);
  for (const Address& probe : InsideProbes(routes, inside, 1)) {
    probes.push_back(probe);
  }
  for (const Address& probe : UniformProbes(family, 500, 2)) {
    probes.push_back(probe);
  }
  const int bits = AddressBits(family);
  probes.push_back(Address::FromBits(family, 0));
  probes.push_back(
      Address::FromBits(family, absl::Uint128Max() << (128 - bits)));
  const std::vector<NextHopId> expected =
      ReferenceTable(routes).NextHops(probes);
  const std::vector<NextHopId> found = LookupAll(**baseline, probes);
  int wrong = 0;
  for (size_t i = 0; i < probes.size() && wrong < 5; ++i) {
    if (found[i] == expected[i]) continue;
    ++wrong;
    ADD_FAILURE() << probes[i].ToString() << " -> " << found[i]
                  << " instead of " << expected[i] << ", of " << routes.size()
                  << " routes";
  }
}

void ExpectExact(const BaselineBuilder& build, const BaselineLimits& limits) {
  const Family family = limits.family;
  const Address zero = Address::FromBits(family, 0);
  const Address last = Address::FromBits(
      family, absl::Uint128Max() << (128 - AddressBits(family)));
  const int most = std::min(limits.max_length, AddressBits(family));
  ExpectLikeReference(build, family, {});
  for (int length = 0; length <= most; ++length) {
    SCOPED_TRACE(length);
    const Route first = {Prefix::Truncate(zero, length), 1};
    const Route final = {Prefix::Truncate(last, length), limits.next_hops};
    ExpectLikeReference(build, family, {first});
    ExpectLikeReference(build, family, {final});
  }
  // A nest along each edge of the space.
  std::vector<Route> low, high;
  for (int length = 0; length <= most; ++length) {
    const NextHopId next_hop =
        1 + static_cast<NextHopId>(length) % limits.next_hops;
    low.push_back({Prefix::Truncate(zero, length), next_hop});
    high.push_back({Prefix::Truncate(last, length), next_hop});
  }
  ExpectLikeReference(build, family, low);
  ExpectLikeReference(build, family, high);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExpectLikeReference(build, family,
                        CrowdedRoutes(limits, 3 * seed * seed, seed));
  }
  SyntheticOptions options;
  options.ipv6_routes = family == Family::kIpv6 ? 30'000 : 0;
  options.ipv4_routes = family == Family::kIpv4 ? 30'000 : 0;
  options.next_hops = limits.next_hops;
  std::vector<Route> routes = SyntheticTable(options);
  std::erase_if(routes,
                [&](const Route& r) { return r.prefix.length() > most; });
  ExpectLikeReference(build, family, routes);
}

void ExpectExactOnRealTable(const BaselineBuilder& build,
                            const BaselineLimits& limits) {
  const std::string path = RealTablePath(limits.family);
  if (path.empty()) GTEST_SKIP() << "no real table in PLANB_DATA_DIR";
  auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  std::erase_if(*routes, [&](const Route& r) {
    return r.prefix.length() > limits.max_length;
  });
  ExpectLikeReference(build, limits.family, *routes);
}

}  // namespace planb
