// SPDX-License-Identifier: Apache-2.0

// Reports how many cache lines lookups read, and holds the structure to what it
// promises.

#include "lpm/testing/golden_tables.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

TEST(WalkLines, FindWhatLookupsFind) {
  for (const GoldenTable& table : GoldenTables()) {
    const auto fib = Fib::Build(table.family, table.routes).value();
    std::vector<Address> addresses = BoundaryProbes(table.routes);
    addresses.resize(40'000, FirstAddress(table.routes[0].prefix));
    std::vector<NextHopId> found;
    for (const Address& address : addresses) {
      found.push_back(WalkLines(*fib, address).next_hop);
    }
    SCOPED_TRACE(std::string(table.name));
    ExpectAnswers(*fib, addresses, found);
  }
}

TEST(WalkLines, NoMoreThanPromised) {
  for (const GoldenTable& table : GoldenTables()) {
    const auto fib = Fib::Build(table.family, table.routes).value();
    const size_t most = MostLines(fib->Stats());
    const LinesRead lines = CountLines(*fib, GoldenTrace(table, 20'000));
    const std::string text =
        absl::StrFormat("mean %.3f, p99 %d, max %d, at most %d", lines.mean,
                        lines.p99, lines.max, most);
    std::cout << table.name << ": cache lines a lookup: " << text << "\n";
    RecordProperty(std::string(table.name), text);
    EXPECT_LE(lines.max, most) << table.name;
    EXPECT_GE(lines.max, 3U) << table.name << ": no walk got to a leaf";
  }
}

// By hand, where the structure leaves no choice.
TEST(WalkLines, KnownWays) {
  const Address network = Address::V6(absl::uint128(0x2001) << 112);
  const Address host = Address::V6(network.bits() | 0x12345678);

  const auto nothing = Fib::Build(Family::kIpv6, {}).value();
  EXPECT_EQ(WalkLines(*nothing, host).lines, 1U) << "the root";
  EXPECT_EQ(WalkLines(*nothing, host).next_hop, kNoRoute);

  // Root, first table, separators, leaf; or the root alone where it is far.
  const auto one =
      Fib::Build(Family::kIpv6, {{Prefix::Truncate(network, 48), 7}}).value();
  EXPECT_EQ(WalkLines(*one, host).lines, 4U);
  EXPECT_EQ(WalkLines(*one, host).next_hop, 7U);
  EXPECT_EQ(WalkLines(*one, Address::V6(1)).lines, 1U);

  // And a descriptor, which skips what no prefix decides on, and a next hop
  // whose id is too large for a value.
  const auto longest =
      Fib::Build(Family::kIpv6, {{Prefix::Truncate(host, 128), ~1U}}).value();
  EXPECT_EQ(WalkLines(*longest, host).lines, 6U);
  EXPECT_EQ(WalkLines(*longest, host).next_hop, ~1U);
  EXPECT_EQ(WalkLines(*longest, NextAddress(host)).next_hop, kNoRoute);
}

}  // namespace
}  // namespace planb
