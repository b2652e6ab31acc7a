// SPDX-License-Identifier: Apache-2.0

// A prefix changes answers at its first address and after its last: there a
// mistake in intervals shows.

#include "client/load/probes.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/numeric/int128.h"
#include "lpm/synthetic/synthetic.h"

namespace planb::client {
namespace {

// Samples made at a time.
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

}  // namespace planb::client
