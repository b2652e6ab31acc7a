// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/oracle.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/numeric/int128.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"

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

std::vector<NextHopId> RightAnswers(absl::Span<const Route> routes,
                                    absl::Span<const Address> addresses) {
  if (routes.size() * addresses.size() < 10'000) {
    return AnswersByOracle(routes, addresses);
  }
  return ReferenceTable(routes).NextHops(addresses);
}

std::vector<NextHopId> RightUpperAnswers(absl::Span<const Route> routes,
                                         absl::Span<const Address> addresses) {
  const ReferenceTable table(routes);
  std::vector<NextHopId> answers;
  answers.reserve(addresses.size());
  for (const Address& address : addresses) {
    answers.push_back(table.NextHopOfHalf(address));
  }
  return answers;
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
