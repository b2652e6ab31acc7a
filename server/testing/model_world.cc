// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_world.h"

#include <algorithm>
#include <set>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

// Chains to the full length, siblings side by side, one prefix that ends where
// another begins, and both ends of the address space.
constexpr const char* kPrefixes[] = {
    "0.0.0.0/0",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.1.0/24",
    "10.1.1.0/25",
    "10.1.1.1/32",
    "10.1.1.192/26",
    "10.1.2.0/24",
    "10.2.0.0/15",
    "10.128.0.0/9",
    "10.255.255.255/32",
    "11.0.0.0/8",
    "172.16.0.0/12",
    "255.255.255.254/31",
    "255.255.255.255/32",
    "::/0",
    "::/128",
    "2001:db8::/32",
    "2001:db8::/48",
    "2001:db8::/64",
    "2001:db8::/127",
    "2001:db8::1/128",
    "2001:db8:0:1::/64",
    "2001:db8:0:1:8000::/65",
    "2001:db8:0:1:8000::/66",
    "2001:db8:0:1:ffff:ffff:ffff:0/112",
    "2001:db8:1::/48",
    "2001:db8:8000::/33",
    "2001:db8:ffff::/48",
    "2001:db8:ffff:ffff::/64",
    "2001:db9::/32",
    "2001:db9:0:8000::/49",
    "2600::/12",
    "2600:1::/32",
    "fc00::/7",
    "fe80::/10",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"};

constexpr NextHopId kNextHops = 12;    // 1..12
constexpr NextHopId kFirstGroup = 21;  // 21..24
constexpr NextHopId kGroups = 4;

NextHopId RandomNextHop(Random& random) {
  return static_cast<NextHopId>(Chance(random, 15)
                                    ? kFirstGroup + Below(random, kGroups)
                                    : 1 + Below(random, kNextHops));
}

NextHop RandomObject(NextHopId id, Random& random) {
  NextHop next_hop;
  next_hop.id = id;
  if (Chance(random, 50)) {
    next_hop.gateway = Address::V4(static_cast<uint32_t>(Below(random, 3)));
  }
  next_hop.interface = absl::StrCat("eth", Below(random, 2));
  next_hop.weight = static_cast<uint32_t>(1 + Below(random, 2));
  return next_hop;
}

NextHopGroup RandomGroup(NextHopId id, Random& random) {
  NextHopGroup group;
  group.id = id;
  for (NextHopId member = 1; member <= kNextHops; ++member) {
    // Now and then a group as a member, which is refused if it is one.
    if (Chance(random, 20)) group.members.push_back({member, 1});
  }
  if (Chance(random, 5)) group.members.push_back({kFirstGroup, 2});
  if (group.members.empty()) group.members.push_back({1, 1});
  return group;
}

// Each id once, in a random order.
std::vector<NextHopId> RandomIds(NextHopId first, NextHopId count,
                                 Random& random) {
  std::vector<NextHopId> ids(count);
  for (NextHopId i = 0; i < count; ++i) ids[i] = first + i;
  std::shuffle(ids.begin(), ids.end(), random);
  return ids;
}

}  // namespace

const std::vector<Prefix>& WorldPrefixes() {
  static const auto& prefixes = *new std::vector<Prefix>([] {
    std::vector<Prefix> all;
    for (const char* text : kPrefixes) {
      const auto prefix = Prefix::Parse(text);
      ABSL_RAW_CHECK(prefix.ok(), text);
      all.push_back(*prefix);
    }
    std::sort(all.begin(), all.end());
    return all;
  }());
  return prefixes;
}

const std::vector<Address>& WorldProbes() {
  static const auto& probes = *new std::vector<Address>([] {
    std::vector<Address> all;
    for (Family family : {Family::kIpv6, Family::kIpv4}) {
      const absl::uint128 step =
          family == Family::kIpv6 ? absl::uint128(1) : absl::uint128(1) << 96;
      std::set<Address> some;
      for (const Prefix& prefix : WorldPrefixes()) {
        if (prefix.family() != family) continue;
        // As unsigned numbers, those past an end are at the other.
        const absl::uint128 last =
            family == Family::kIpv6 ? prefix.last() : prefix.last() >> 96 << 96;
        for (absl::uint128 bits :
             {prefix.first() - step, prefix.first(), last, last + step}) {
          some.insert(Address::FromBits(family, bits));
        }
      }
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }());
  return probes;
}

UpdateBatch RandomChanges(Random& random) {
  using Op = RouteChange::Op;
  UpdateBatch batch;
  std::vector<Prefix> prefixes = WorldPrefixes();
  std::shuffle(prefixes.begin(), prefixes.end(), random);
  const uint64_t count = Chance(random, 10) ? 15 : 1 + Below(random, 4);
  for (uint64_t i = 0; i < count; ++i) {
    static constexpr Op kOps[] = {Op::kUpsert, Op::kUpsert,      Op::kUpsert,
                                  Op::kInsert, Op::kReplace,     Op::kDelete,
                                  Op::kDelete, Op::kDeleteStrict};
    // Many strict ones together are always refused.
    const Op op = count > 4 ? (Chance(random, 50) ? Op::kUpsert : Op::kDelete)
                            : kOps[Below(random, std::size(kOps))];
    const bool deletes = op == Op::kDelete || op == Op::kDeleteStrict;
    batch.changes.push_back(
        {op, prefixes[i], deletes ? kNoRoute : RandomNextHop(random)});
  }
  if (Chance(random, 10)) {
    const auto id = static_cast<NextHopId>(1 + Below(random, kNextHops));
    batch.next_hops.push_back(RandomObject(id, random));
  }
  if (Chance(random, 5)) {
    const auto id =
        static_cast<NextHopId>(kFirstGroup + Below(random, kGroups));
    batch.groups.push_back(RandomGroup(id, random));
  }
  batch.require_next_hops = Chance(random, 10);
  return batch;
}

UpdateBatch RandomReplacement(Random& random) {
  UpdateBatch batch;
  batch.replacement.emplace();
  for (const Prefix& prefix : WorldPrefixes()) {
    if (Chance(random, 50)) {
      batch.replacement->push_back({prefix, RandomNextHop(random)});
    }
  }
  return batch;
}

UpdateBatch RandomObjects(Random& random) {
  UpdateBatch batch;
  const auto ids = RandomIds(1, kNextHops, random);
  for (size_t i = 0; i < 3; ++i) {
    if (Chance(random, 50)) {
      batch.next_hops.push_back(RandomObject(ids[i], random));
    }
  }
  if (Chance(random, 30)) batch.deleted_next_hops.push_back(ids[3]);
  const auto group_ids = RandomIds(kFirstGroup, kGroups, random);
  if (Chance(random, 40)) {
    batch.groups.push_back(RandomGroup(group_ids[0], random));
  }
  if (Chance(random, 20)) batch.deleted_groups.push_back(group_ids[1]);
  return batch;
}

}  // namespace planb::server
