// SPDX-License-Identifier: Apache-2.0

// Makes its own masks, so that a mistake in Prefix shows as a difference.

#include "lpm/synthetic/reference_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/numeric/int128.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {

ReferenceTable::ReferenceTable(absl::Span<const Route> routes)
    : ipv4_(Build(Family::kIpv4, routes)), ipv6_(Build(Family::kIpv6, routes)) {
  for (const Route& route : routes) {
    if (route.prefix.length() <= 64) continue;
    const absl::uint128 first = route.prefix.address().bits();
    auto& changes = changes_[absl::Uint128High64(first)];
    changes.push_back(first);
    changes.push_back(first +
                      (absl::uint128(1) << (128 - route.prefix.length())));
  }
}

ReferenceTable::Half ReferenceTable::Build(Family family,
                                           absl::Span<const Route> routes) {
  std::map<int, Length, std::greater<>> lengths;
  for (const Route& route : routes) {
    if (route.prefix.family() != family) continue;
    const int length = route.prefix.length();
    Length& slot = lengths[length];
    slot.length = length;
    // Shifting a 128-bit number by 128 is undefined.
    slot.mask =
        length == 0 ? absl::uint128(0) : absl::Uint128Max() << (128 - length);
    slot.next_hops[route.prefix.address().bits()] = route.next_hop;
  }
  Half half;
  half.reserve(lengths.size());
  for (auto& [length, slot] : lengths) half.push_back(std::move(slot));
  return half;
}

std::optional<Route> ReferenceTable::Lookup(const Address& address) const {
  const Half& half = address.family() == Family::kIpv4 ? ipv4_ : ipv6_;
  for (const Length& slot : half) {
    const auto found = slot.next_hops.find(address.bits() & slot.mask);
    if (found != slot.next_hops.end()) {
      return Route{Prefix::Truncate(address, slot.length), found->second};
    }
  }
  return std::nullopt;
}

NextHopId ReferenceTable::NextHop(const Address& address) const {
  const std::optional<Route> route = Lookup(address);
  return route.has_value() ? route->next_hop : kNoRoute;
}

std::vector<NextHopId> ReferenceTable::NextHops(
    absl::Span<const Address> addresses) const {
  std::vector<NextHopId> next_hops;
  next_hops.reserve(addresses.size());
  for (const Address& address : addresses) {
    next_hops.push_back(NextHop(address));
  }
  return next_hops;
}

NextHopId ReferenceTable::NextHopOfHalf(const Address& address) const {
  const uint64_t half = absl::Uint128High64(address.bits());
  const NextHopId first = NextHop(Address::V6(absl::MakeUint128(half, 0)));
  const auto changes = changes_.find(half);
  if (changes == changes_.end()) return first;
  for (const absl::uint128 bits : changes->second) {
    // The address after the half's last one is not in the half.
    if (absl::Uint128High64(bits) == half &&
        NextHop(Address::V6(bits)) != first) {
      return kUndecided;
    }
  }
  return first;
}

namespace {

// Number of samples generated at once.
constexpr size_t kPortion = 1 << 16;

}  // namespace

absl::Status VisitBoundaries(
    absl::Span<const Route> routes,
    absl::FunctionRef<absl::Status(const Address&)> on_address) {
  for (const Route& route : routes) {
    const Family family = route.prefix.family();
    // Addresses are left-aligned in 128 bits: neighbours differ by `one`.
    const absl::uint128 one = absl::uint128(1) << (128 - AddressBits(family));
    const absl::uint128 end = absl::uint128(0) - one;  // the last of all
    const absl::uint128 first = route.prefix.first();
    const absl::uint128 last = route.prefix.last();
    absl::InlinedVector<absl::uint128, 6> probes = {first, last};
    if (first != 0) probes.push_back(first - one);
    if (first != end) probes.push_back(first + one);
    if (last != end) {
      probes.push_back(last + one);
      if (last + one != end) probes.push_back(last + one + one);
    }
    for (const absl::uint128 bits : probes) {
      absl::Status status = on_address(Address::FromBits(family, bits));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status VisitSamples(
    absl::Span<const Route> routes, size_t count, uint64_t seed,
    absl::FunctionRef<absl::Status(const Address&)> on_address) {
  std::vector<Family> families;
  for (const Family family : {Family::kIpv6, Family::kIpv4}) {
    if (absl::c_any_of(routes, [&](const Route& route) {
          return route.prefix.family() == family;
        })) {
      families.push_back(family);
    }
  }
  if (families.empty()) families.push_back(Family::kIpv6);
  for (size_t portion = 0; count > 0; ++portion) {
    const size_t now = std::min(count, kPortion);
    const Family family = families[portion % families.size()];
    for (const Address& address :
         SyntheticTrace(routes, family, now, seed + portion)) {
      absl::Status status = on_address(address);
      if (!status.ok()) return status;
    }
    count -= now;
  }
  return absl::OkStatus();
}

}  // namespace planb
