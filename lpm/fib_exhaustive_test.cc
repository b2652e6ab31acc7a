// Small worlds, exhaustively: every set of routes, every address where an
// answer can change, every kernel.
//
// A world lets only a few bits of the address vary (three at most), wherever
// they lie; the others are those of a fixed base. Its prefixes are those that
// end before, between and after the varying bits: 2^(k+1)-1 for k bits. Worlds
// with bits on both sides of bit 64 make both stages of the search take part.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "lpm/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

struct World {
  Family family;
  // Ascending, counted from the left.
  std::vector<int> positions;
  // The bits that do not vary. Those at `positions` are ignored.
  absl::uint128 base;
};

void PrintTo(const World& world, std::ostream* out) {
  *out << FamilyName(world.family) << " bits "
       << absl::StrJoin(world.positions, ",") << " on "
       << Address::FromBits(world.family, world.base).ToString();
}

constexpr absl::uint128 BitAt(int position) {
  return absl::uint128(1) << (127 - position);
}

// Every prefix of the world, those of one length after the other.
std::vector<Prefix> PrefixesOf(const World& world) {
  std::vector<Prefix> prefixes;
  const size_t bits = world.positions.size();
  for (size_t taken = 0; taken <= bits; ++taken) {
    const int length =
        taken == 0 ? world.positions[0] : world.positions[taken - 1] + 1;
    for (size_t value = 0; value < size_t{1} << taken; ++value) {
      absl::uint128 address = world.base;
      for (size_t i = 0; i < taken; ++i) {
        address &= ~BitAt(world.positions[i]);
        if ((value >> i) & 1) address |= BitAt(world.positions[i]);
      }
      prefixes.push_back(
          Prefix::Truncate(Address::FromBits(world.family, address), length));
    }
  }
  return prefixes;
}

// The ends of every prefix and their neighbours outside; every address of the
// world itself; the ends of the address space.
std::vector<Address> ProbesOf(const World& world) {
  std::vector<Route> routes;
  for (const Prefix& prefix : PrefixesOf(world)) routes.push_back({prefix});
  std::vector<Address> probes = BoundaryProbes(routes);
  for (size_t value = 0; value < size_t{1} << world.positions.size(); ++value) {
    absl::uint128 address = world.base;
    for (size_t i = 0; i < world.positions.size(); ++i) {
      address &= ~BitAt(world.positions[i]);
      if ((value >> i) & 1) address |= BitAt(world.positions[i]);
    }
    probes.push_back(Address::FromBits(world.family, address));
  }
  const Address zero = Address::FromBits(world.family, 0);
  probes.insert(probes.end(), {zero, PreviousAddress(zero)});
  std::sort(probes.begin(), probes.end());
  probes.erase(std::unique(probes.begin(), probes.end()), probes.end());
  return probes;
}

// Tries tables of one world against the oracle.
class WorldChecker {
 public:
  explicit WorldChecker(const World& world)
      : family_(world.family),
        prefixes_(PrefixesOf(world)),
        probes_(ProbesOf(world)) {}

  const std::vector<Prefix>& prefixes() const { return prefixes_; }

  // The table has prefixes()[i] -> next_hops[i], except where that is 0.
  void Check(absl::Span<const NextHopId> next_hops) {
    std::vector<Route> routes;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (next_hops[i] != kNoRoute) {
        routes.push_back({prefixes_[i], next_hops[i]});
      }
    }
    std::sort(routes.begin(), routes.end());
    const auto fib = Fib::Build(family_, routes);
    const Oracle oracle(std::move(routes));
    expected_.clear();
    for (const Address& probe : probes_) {
      const auto route = oracle.Lookup(probe);
      expected_.push_back(route ? route->next_hop : kNoRoute);
    }
    ExpectAnswers(*fib, probes_, expected_);
    if (testing::Test::HasFailure()) {
      FAIL() << "with next hops " << absl::StrJoin(next_hops, ",");
    }
  }

 private:
  const Family family_;
  const std::vector<Prefix> prefixes_;
  const std::vector<Address> probes_;
  std::vector<NextHopId> expected_;
};

class SmallWorld : public testing::TestWithParam<World> {};

// Every prefix is absent or has one of as many next hops as fit: with two
// varying bits 4^7 tables, so every way for neighbours to merge or not.
TEST_P(SmallWorld, EveryTable) {
  WorldChecker checker(GetParam());
  const size_t prefixes = checker.prefixes().size();
  const size_t choices = prefixes <= 7 ? 4 : 2;
  std::vector<NextHopId> next_hops(prefixes, kNoRoute);
  size_t tables = 0;
  size_t digit = 0;
  while (digit < prefixes) {
    checker.Check(next_hops);
    if (HasFatalFailure()) return;
    ++tables;
    // Count up. A lone choice is a next hop of the prefix's own.
    for (digit = 0; digit < prefixes; ++digit) {
      NextHopId& next_hop = next_hops[digit];
      const auto last =
          static_cast<NextHopId>(choices == 2 ? digit + 1 : choices - 1);
      if (next_hop != last) {
        next_hop = choices == 2 ? last : next_hop + 1;
        break;
      }
      next_hop = kNoRoute;
    }
  }
  size_t expected_tables = 1;
  for (size_t i = 0; i < prefixes; ++i) expected_tables *= choices;
  EXPECT_EQ(tables, expected_tables);
}

// Again every set of prefixes, with next hops drawn from two: most neighbours
// merge.
TEST_P(SmallWorld, EverySetWithTwoNextHops) {
  WorldChecker checker(GetParam());
  const size_t prefixes = checker.prefixes().size();
  Random random(1);
  std::vector<NextHopId> next_hops(prefixes);
  for (size_t set = 0; set < size_t{1} << prefixes; ++set) {
    for (size_t i = 0; i < prefixes; ++i) {
      const auto next_hop = static_cast<NextHopId>(1 + random.Below(2));
      next_hops[i] = (set >> i) & 1 ? next_hop : kNoRoute;
    }
    checker.Check(next_hops);
    if (HasFatalFailure()) return;
  }
}

absl::uint128 Bits(absl::string_view address) {
  return Address::Parse(address).value().bits();
}

// Each set of positions on each base.
std::vector<World> Worlds(Family family,
                          const std::vector<std::vector<int>>& positions,
                          const std::vector<std::string>& bases) {
  std::vector<World> worlds;
  for (const auto& where : positions) {
    for (const std::string& base : bases) {
      worlds.push_back({family, where, Bits(base)});
    }
  }
  return worlds;
}

const std::vector<std::string>& V6Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "2001:db8:5555:aaaa:8000:0:7fff:ffff"};
  return *bases;
}

const std::vector<std::string>& V4Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "0.0.0.0", "255.255.255.255", "192.0.127.128"};
  return *bases;
}

// At the top, across bit 64, at the bottom, scattered.
INSTANTIATE_TEST_SUITE_P(
    Ipv6TwoBits, SmallWorld,
    testing::ValuesIn(Worlds(
        Family::kIpv6,
        {{0, 1}, {62, 63}, {63, 64}, {64, 65}, {126, 127}, {47, 90}, {0, 127}},
        V6Bases())));

INSTANTIATE_TEST_SUITE_P(Ipv6ThreeBits, SmallWorld,
                         testing::ValuesIn(Worlds(Family::kIpv6,
                                                  {{0, 1, 2},
                                                   {61, 62, 63},
                                                   {62, 63, 64},
                                                   {63, 64, 65},
                                                   {64, 65, 66},
                                                   {125, 126, 127},
                                                   {0, 63, 127}},
                                                  V6Bases())));

INSTANTIATE_TEST_SUITE_P(
    Ipv4TwoBits, SmallWorld,
    testing::ValuesIn(Worlds(Family::kIpv4,
                             {{0, 1}, {15, 16}, {30, 31}, {0, 31}},
                             V4Bases())));

INSTANTIATE_TEST_SUITE_P(
    Ipv4ThreeBits, SmallWorld,
    testing::ValuesIn(Worlds(Family::kIpv4,
                             {{0, 1, 2}, {23, 24, 25}, {29, 30, 31}},
                             V4Bases())));

// The worlds are what they claim to be.
TEST(World, HasAllItsPrefixesAndNoOther) {
  std::vector<std::string> texts;
  for (const Prefix& prefix :
       PrefixesOf({Family::kIpv6, {63, 64}, Bits("2001:db8::1")})) {
    texts.push_back(prefix.ToString());
  }
  EXPECT_THAT(texts, testing::UnorderedElementsAre(
                         "2001:db8::/63", "2001:db8::/64", "2001:db8:0:1::/64",
                         "2001:db8::/65", "2001:db8:0:0:8000::/65",
                         "2001:db8:0:1::/65", "2001:db8:0:1:8000::/65"));
}

}  // namespace
}  // namespace planb
