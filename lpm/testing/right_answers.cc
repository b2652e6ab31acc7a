#include "lpm/testing/right_answers.h"

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"
#include "lpm/testing/reference.h"

namespace planb {
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

}  // namespace planb
