// SPDX-License-Identifier: Apache-2.0

// A table of many routes whose answers can be told by arithmetic.

#ifndef PLANB_CLIENT_TESTING_MANY_ROUTES_H_
#define PLANB_CLIENT_TESTING_MANY_ROUTES_H_

#include <cstdint>
#include <string>

#include "client/testing/fake_server.h"
#include "lpm/address.h"

namespace planb::client::testing {

inline constexpr size_t kRoutes = 200;

// 2001:db8:I::/48 -> I + 1, and 10.0.I.0/24 -> I + 1, for I < kRoutes.
inline FakeServerOptions ManyRoutes() {
  FakeServerOptions options;
  for (uint32_t i = 0; i < kRoutes; ++i) {
    const absl::uint128 v6 =
        absl::MakeUint128(0x20010db8'0000'0000ULL | uint64_t{i} << 16, 0);
    options.routes.push_back({*Prefix::Create(Address::V6(v6), 48), i + 1});
    options.routes.push_back(
        {*Prefix::Create(Address::V4(0x0a000000U | i << 8), 24), i + 1});
  }
  return options;
}

// An address of route number i.
inline std::string V6(uint64_t i) {
  return Address::V6(absl::MakeUint128(
                         0x20010db8'0000'0000ULL | (i % kRoutes) << 16, i))
      .ToPacked();
}
inline std::string V4(uint64_t i) {
  return Address::V4(0x0a000001U | static_cast<uint32_t>(i % kRoutes) << 8)
      .ToPacked();
}
inline uint32_t HopOf(uint64_t i) {
  return static_cast<uint32_t>(i % kRoutes) + 1;
}

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_MANY_ROUTES_H_
