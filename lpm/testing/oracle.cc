// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/oracle.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "lpm/synthetic/random.h"

namespace planb {

Oracle::Oracle(std::vector<Route> routes) : routes_(std::move(routes)) {}

std::optional<Route> Oracle::Lookup(const Address& address) const {
  std::optional<Route> best;
  for (const Route& route : routes_) {
    if (route.prefix.Contains(address) &&
        (!best || route.prefix.length() > best->prefix.length())) {
      best = route;
    }
  }
  return best;
}

Reference::Reference(Family family, absl::Span<const Route> routes)
    : family_(family) {
  for (const Route& route : routes) {
    if (route.prefix.family() != family) continue;
    routes_[static_cast<size_t>(route.prefix.length())]
           [route.prefix.address().bits()] = route.next_hop;
  }
}

NextHopId Reference::Lookup(const Address& address) const {
  ABSL_RAW_CHECK(address.family() == family_, "an address of another family");
  absl::uint128 mask = absl::Uint128Max();
  for (size_t length = 128;; --length, mask <<= 1) {
    const auto& routes = routes_[length];
    if (!routes.empty()) {
      const auto it = routes.find(address.bits() & mask);
      if (it != routes.end()) return it->second;
    }
    if (length == 0) return kNoRoute;
  }
}

std::vector<NextHopId> Reference::Lookup(
    absl::Span<const Address> addresses) const {
  std::vector<NextHopId> next_hops;
  next_hops.reserve(addresses.size());
  for (const Address& address : addresses) {
    next_hops.push_back(Lookup(address));
  }
  return next_hops;
}

namespace {

uint64_t UpperHalf(const Address& address) {
  return absl::Uint128High64(address.bits());
}

}  // namespace

std::vector<NextHopId> AnswersByOracle(absl::Span<const Route> routes,
                                       absl::Span<const Address> addresses) {
  const Oracle oracle({routes.begin(), routes.end()});
  std::vector<NextHopId> answers;
  answers.reserve(addresses.size());
  for (const Address& address : addresses) {
    const auto route = oracle.Lookup(address);
    answers.push_back(route ? route->next_hop : kNoRoute);
  }
  return answers;
}

std::vector<NextHopId> RightAnswers(Family family,
                                    absl::Span<const Route> routes,
                                    absl::Span<const Address> addresses) {
  if (routes.size() * addresses.size() < 10'000) {
    return AnswersByOracle(routes, addresses);
  }
  return Reference(family, routes).Lookup(addresses);
}

std::vector<NextHopId> RightUpperAnswers(absl::Span<const Route> routes,
                                         absl::Span<const Address> addresses) {
  // Every upper half that is asked for, and what is asked instead: its ends,
  // and the boundaries in it of routes that do not cover it.
  absl::flat_hash_map<uint64_t, NextHopId> answers;
  std::vector<Address> asked;
  for (const Address& address : addresses) {
    const uint64_t upper = UpperHalf(address);
    if (!answers.try_emplace(upper, kNoRoute).second) continue;
    asked.push_back(Address::V6(absl::MakeUint128(upper, 0)));
    asked.push_back(Address::V6(absl::MakeUint128(upper, ~uint64_t{0})));
  }
  std::vector<Route> long_routes;
  for (const Route& route : routes) {
    if (route.prefix.length() > 64) long_routes.push_back(route);
  }
  for (const Address& probe : BoundaryProbes(long_routes)) {
    if (answers.contains(UpperHalf(probe))) asked.push_back(probe);
  }
  const std::vector<NextHopId> found =
      RightAnswers(Family::kIpv6, routes, asked);
  // The first two of `asked` that are of an upper half are its ends.
  for (size_t i = 0; i < 2 * answers.size(); i += 2) {
    answers[UpperHalf(asked[i])] = found[i];
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    NextHopId& answer = answers[UpperHalf(asked[i])];
    if (found[i] != answer) answer = kUndecided;
  }
  std::vector<NextHopId> in_order;
  in_order.reserve(addresses.size());
  for (const Address& address : addresses) {
    in_order.push_back(answers[UpperHalf(address)]);
  }
  return in_order;
}

namespace {

// The distance from one address to the next, left-aligned.
absl::uint128 One(Family family) {
  return absl::uint128(1) << (128 - AddressBits(family));
}

}  // namespace

Address NextAddress(const Address& address) {
  return Address::FromBits(address.family(),
                           address.bits() + One(address.family()));
}

Address PreviousAddress(const Address& address) {
  return Address::FromBits(address.family(),
                           address.bits() - One(address.family()));
}

Address FirstAddress(const Prefix& prefix) { return prefix.address(); }

Address LastAddress(const Prefix& prefix) {
  return Address::FromBits(prefix.family(), prefix.last());
}

std::vector<Address> BoundaryProbes(absl::Span<const Route> routes) {
  std::vector<Address> probes;
  probes.reserve(4 * routes.size());
  for (const Route& route : routes) {
    const Address first = FirstAddress(route.prefix);
    const Address last = LastAddress(route.prefix);
    probes.insert(probes.end(),
                  {PreviousAddress(first), first, last, NextAddress(last)});
  }
  return probes;
}

std::vector<Address> InsideProbes(absl::Span<const Route> routes,
                                  size_t per_route, uint64_t seed) {
  Random random(seed);
  std::vector<Address> probes;
  probes.reserve(per_route * routes.size());
  for (const Route& route : routes) {
    const absl::uint128 host = route.prefix.last() - route.prefix.first();
    for (size_t i = 0; i < per_route; ++i) {
      probes.push_back(
          Address::FromBits(route.prefix.family(),
                            route.prefix.first() | (random.Next128() & host)));
    }
  }
  return probes;
}

std::vector<Address> UniformProbes(Family family, size_t count, uint64_t seed) {
  const Route everything = {Prefix::Truncate(
      family == Family::kIpv4 ? Address::V4(0) : Address::V6(0), 0)};
  return InsideProbes(absl::MakeConstSpan(&everything, 1), count, seed);
}

}  // namespace planb
