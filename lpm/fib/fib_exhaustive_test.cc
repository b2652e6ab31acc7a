// SPDX-License-Identifier: Apache-2.0

// Small worlds, exhaustively: every set of routes, every address where an
// answer can change, every kernel, whole addresses and upper halves.
//
// Worlds with bits on both sides of bit 12, 48, 64, 80 or 112 make the root,
// the tables and the descriptors of the search take part.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// The next hops of a world's prefixes, in order.
using State = std::vector<NextHopId>;

// Counts up in base `values`; false where it comes back to zeros.
bool NextState(State& state, NextHopId values) {
  for (NextHopId& digit : state) {
    if (++digit < values) return true;
    digit = 0;
  }
  return false;
}

// The first `count` of them.
std::vector<std::string> V6Bases(size_t count = 4) {
  std::vector<std::string> bases = {
      "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "2001:db8:5555:aaaa:8000:0:7fff:ffff",
      "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
  bases.resize(count);
  return bases;
}
std::vector<std::string> V4Bases() {
  return {"0.0.0.0", "255.255.255.255", "192.0.127.128"};
}

class FibSmallWorld : public testing::TestWithParam<SmallWorld> {
 protected:
  // The table has prefixes_[i] -> next_hops[i], except where that is 0.
  void Check(const State& next_hops) {
    std::vector<Route> routes;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (next_hops[i] != kNoRoute) {
        routes.push_back({prefixes_[i], next_hops[i]});
      }
    }
    std::sort(routes.begin(), routes.end());
    const auto fib =
        Fib::Build(GetParam().family, routes, GetParam().options).value();
    ExpectAnswers(*fib, probes_, AnswersByOracle(routes, probes_));
    EXPECT_EQ(UpperDifferences(*fib, routes, probes_), "");
    EXPECT_EQ(LengthDifferences(*fib, routes, probes_), "");
    if (HasFailure()) {
      FAIL() << "with next hops " << absl::StrJoin(next_hops, ",");
    }
  }

  const std::vector<Prefix> prefixes_ = PrefixesOf(GetParam());
  const std::vector<Address> probes_ = ProbesOf(GetParam());
};

// With two varying bits, each of the seven prefixes is absent or has one of
// three next hops: every way for neighbours to merge or not. With three bits,
// every set of the fifteen prefixes, with next hops of their own, and with next
// hops drawn from two.
TEST_P(FibSmallWorld, EveryTable) {
  const bool two_bits = GetParam().positions.size() == 2;
  Random random(1);
  State digits(prefixes_.size());
  do {
    if (two_bits) {
      Check(digits);
    } else {
      State own = digits, drawn = digits;
      for (size_t i = 0; i < digits.size(); ++i) {
        own[i] *= static_cast<NextHopId>(i + 1);
        drawn[i] *= static_cast<NextHopId>(1 + random.Below(2));
      }
      Check(own);
      Check(drawn);
    }
    if (HasFatalFailure()) return;
  } while (NextState(digits, two_bits ? 4 : 2));
}

// At the top, across the edges of the structure, at the bottom, scattered.
INSTANTIATE_TEST_SUITE_P(
    Ipv6, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(
        Family::kIpv6,
        Positions("0,1 11,12 47,48 48,49 62,63 63,64 64,65 79,80 111,112 "
                  "126,127 47,63 47,64 63,127 64,127 47,90 0,127 "
                  "0,1,2 61,62,63 62,63,64 63,64,65 64,65,66 47,48,64 "
                  "47,63,127 48,63,64 50,64,100 62,64,66 125,126,127 "
                  "0,63,127"),
        V6Bases(3))));

INSTANTIATE_TEST_SUITE_P(
    Ipv4, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(
        Family::kIpv4,
        Positions("0,1 15,16 30,31 0,31 0,1,2 23,24,25 29,30,31"), V4Bases())));

constexpr FibOptions kLengths = {.prefix_lengths = true};

INSTANTIATE_TEST_SUITE_P(
    Ipv6Lengths, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(
        Family::kIpv6,
        Positions("0,1 11,12 47,48 48,49 62,63 63,64 64,65 79,80 126,127 47,63 "
                  "47,64 63,127 64,127 0,127 62,63,64 63,64,65 47,63,127 "
                  "62,64,66"),
        {V6Bases()[2]}, kLengths)));

INSTANTIATE_TEST_SUITE_P(
    Ipv4Lengths, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(Family::kIpv4,
                                  Positions("0,1 15,16 30,31 23,24,25"),
                                  {V4Bases()[2]}, kLengths)));

// The worlds are what they claim to be.
TEST(World, HasAllItsPrefixesAndNoOther) {
  std::vector<std::string> texts;
  for (const Prefix& prefix : PrefixesOf(SmallWorlds(
           Family::kIpv6, Positions("63,64"), {"2001:db8::1"})[0])) {
    texts.push_back(prefix.ToString());
  }
  EXPECT_THAT(texts, testing::UnorderedElementsAre(
                         "2001:db8::/63", "2001:db8::/64", "2001:db8:0:1::/64",
                         "2001:db8::/65", "2001:db8:0:0:8000::/65",
                         "2001:db8:0:1::/65", "2001:db8:0:1:8000::/65"));
}

// Small worlds, exhaustively, in motion: from every table to every other, by
// one change and by one batch, and every history of a few changes. After each
// update every kernel must answer as the oracle does, and versions of long ago
// must answer as they did.

// A small world in motion. After every change it checks the table against the
// oracle, for whole addresses and upper halves, while old versions stay alive.
// Prefix number i of the world has next hop state[i]; kNoRoute is no route.
class WorldTable {
 public:
  // `background` routes are always there, but for prefixes of the world.
  explicit WorldTable(const SmallWorld& world,
                      std::vector<Route> background = {},
                      const FibPacking& packing = {})
      : family_(world.family),
        options_(world.options),
        packing_(packing),
        prefixes_(PrefixesOf(world)),
        background_(std::move(background)),
        state_(prefixes_.size(), kNoRoute),
        old_(/*most=*/80, /*seed=*/1) {
    std::erase_if(background_, [this](const Route& route) {
      return std::count(prefixes_.begin(), prefixes_.end(), route.prefix) > 0;
    });
    forms_ = {WholeForm(family_)};
    if (family_ == Family::kIpv6) forms_.push_back(Form::kIpv6Upper);
    if (options_.prefix_lengths) forms_.push_back(LengthsForm(family_));
    for (const Form form : forms_) {
      // Wide enough for any kernel's widest part and for some of its rest.
      probes_.push_back(
          std::make_shared<PackedProbes>(form, ProbesOf(world), 150));
    }
    Restart();
  }
  // Checks the old versions that are left.
  ~WorldTable() {
    while (!old_.empty()) EXPECT_EQ(old_.DropOne(), "") << "of an old version";
  }

  // Number of prefixes.
  size_t size() const { return prefixes_.size(); }

  // Goes on with a new compiler and none of the world's prefixes.
  void Restart() {
    std::fill(state_.begin(), state_.end(), kNoRoute);
    table_ =
        std::make_unique<LiveTable>(family_, background_, options_, packing_);
    Check({});
  }

  // Goes to `next` in one batch, which may be empty.
  void Go(const State& next) {
    std::vector<Change> changes;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (next[i] != state_[i]) changes.push_back({prefixes_[i], next[i]});
    }
    state_ = next;
    Apply(changes);
  }

  // Changes prefix number `i` alone, maybe to what it is.
  void Set(size_t i, NextHopId next_hop) {
    state_[i] = next_hop;
    Apply({{prefixes_[i], next_hop}});
  }

 private:
  void Apply(const std::vector<Change>& changes) {
    table_->Apply(changes);
    Check(changes);
  }

  void Check(const std::vector<Change>& changes) {
    std::vector<Route> routes = background_;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (state_[i] != kNoRoute) routes.push_back({prefixes_[i], state_[i]});
    }
    for (size_t i = 0; i < forms_.size(); ++i) {
      std::vector<NextHopId> expected =
          RightAnswersAs(forms_[i], routes, probes_[i]->addresses());
      ASSERT_EQ(probes_[i]->Differences(*table_->fib(), expected), "")
          << "after " << ChangesText(changes) << "; the routes are "
          << ChangesText(routes);
      ASSERT_EQ(old_.Keep(table_->fib(), probes_[i], std::move(expected)), "")
          << "of an old version";
    }
  }

  const Family family_;
  const FibOptions options_;
  const FibPacking packing_;
  const std::vector<Prefix> prefixes_;
  std::vector<Route> background_;
  // Of each form of the family.
  std::vector<Form> forms_;
  std::vector<std::shared_ptr<const PackedProbes>> probes_;
  State state_;
  std::unique_ptr<LiveTable> table_;
  OldVersions old_;
};

// The digits as next hops: as they are, or as wide as next hops get.
NextHopId NextHop(NextHopId digit, bool wide) {
  return wide && digit != 0 ? kUndecided - digit : digit;
}
State NextHops(State digits, bool wide) {
  for (NextHopId& digit : digits) digit = NextHop(digit, wide);
  return digits;
}

// In every table where each prefix has one of `values` (none, 1, 2, ...): every
// change, made and taken back.
void EveryChangeToEveryTable(WorldTable& table, NextHopId values, bool wide) {
  State digits(table.size());
  do {
    table.Go(NextHops(digits, wide));
    for (size_t i = 0; i < table.size(); ++i) {
      for (NextHopId value = 0; value < values; ++value) {
        if (value == digits[i]) continue;
        table.Set(i, NextHop(value, wide));
        table.Set(i, NextHop(digits[i], wide));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  } while (NextState(digits, values));
}

// Three prefixes: small enough for every table to become every other in one
// batch, at every bit of the address.
class OneBit : public testing::TestWithParam<SmallWorld> {};

TEST_P(OneBit, FromEveryTableToEveryOther) {
  WorldTable table(GetParam());
  const bool wide = GetParam().positions[0] % 2 == 1;
  State from(table.size()), to(table.size());
  do {
    do {
      table.Go(NextHops(from, wide));
      table.Go(NextHops(to, wide));
      if (HasFatalFailure()) return;
    } while (NextState(to, 3));
  } while (NextState(from, 3));
}

// Seven prefixes.
class TwoBits : public testing::TestWithParam<SmallWorld> {};

TEST_P(TwoBits, EveryChangeToEverySet) {
  WorldTable table(GetParam());
  EveryChangeToEveryTable(table, 2, GetParam().positions[0] % 2 == 1);
}

TEST_P(TwoBits, EveryHistoryOfTwoChanges) {
  WorldTable table(GetParam());
  for (size_t first = 0; first < table.size(); ++first) {
    for (size_t second = 0; second < table.size(); ++second) {
      for (NextHopId value = 0; value < 3; ++value) {
        table.Restart();
        table.Set(first, 1);
        table.Set(second, value);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Among routes that fill the slots and partitions that the world lies in. One
// of the tables is packed all the time.
TEST_P(TwoBits, EveryChangeToEverySetInACrowd) {
  const Prefix inside = PrefixesOf(GetParam()).back();
  for (const int above : {3, 9, 17}) {
    const int top = std::max(0, inside.length() - above);
    std::vector<Prefix> crowd =
        PrefixesBelow(Prefix::Truncate(inside.address(), top), 60,
                      static_cast<uint64_t>(inside.length()));
    const std::vector<Prefix> beside =
        Siblings(inside.address(), top + 1, inside.length());
    crowd.insert(crowd.end(), beside.begin(), beside.end());
    std::sort(crowd.begin(), crowd.end());
    crowd.erase(std::unique(crowd.begin(), crowd.end()), crowd.end());
    std::vector<Route> routes;
    for (const Prefix& prefix : crowd) {
      routes.push_back({prefix, static_cast<NextHopId>(1 + routes.size() % 3)});
    }
    WorldTable table(GetParam(), routes,
                     above == 9 ? AlwaysPacking(8) : FibPacking());
    State digits(table.size());
    do {
      table.Go(digits);
      if (HasFatalFailure()) FAIL() << "the crowd is below /" << top;
    } while (NextState(digits, 2));
  }
}

class TwoBitsDeeply : public testing::TestWithParam<SmallWorld> {};

TEST_P(TwoBitsDeeply, EveryChangeToEveryTable) {
  WorldTable table(GetParam());
  EveryChangeToEveryTable(table, 3, false);
}

TEST_P(TwoBitsDeeply, EveryHistoryOfThreeChanges) {
  WorldTable table(GetParam());
  const size_t changes = 3 * table.size();
  for (size_t history = 0; history < changes * changes * changes; ++history) {
    table.Restart();
    size_t rest = history;
    for (int n = 0; n < 3; ++n, rest /= changes) {
      table.Set(rest % changes / 3, static_cast<NextHopId>(rest % changes % 3));
    }
    if (HasFatalFailure()) return;
  }
}

// Fifteen prefixes of bits that lie far apart, one in each stage of a search.
class ThreeBits : public testing::TestWithParam<SmallWorld> {};

TEST_P(ThreeBits, AWalkOverTheTables) {
  WorldTable table(GetParam());
  Random random(1);
  for (int step = 0; step < 3000; ++step) {
    table.Set(random.Below(table.size()),
              static_cast<NextHopId>(random.Below(3)));
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
}

// `bits` neighbouring positions, in every place where they touch one of `edges`
// (the position before an edge and the one after it, or further in).
std::vector<std::vector<int>> PositionsAround(Family family,
                                              const std::vector<int>& edges,
                                              int bits) {
  std::vector<std::vector<int>> all;
  for (const int edge : edges) {
    for (int first = edge - bits; first <= edge; ++first) {
      if (first < 0 || first + bits > AddressBits(family)) continue;
      std::vector<int>& positions = all.emplace_back();
      for (int i = 0; i < bits; ++i) positions.push_back(first + i);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<std::vector<int>> EveryPosition(Family family) {
  std::vector<std::vector<int>> positions;
  for (int i = 0; i < AddressBits(family); ++i) positions.push_back({i});
  return positions;
}

std::vector<SmallWorld> Both(std::vector<SmallWorld> v6,
                             const std::vector<SmallWorld>& v4) {
  v6.insert(v6.end(), v4.begin(), v4.end());
  return v6;
}

INSTANTIATE_TEST_SUITE_P(
    EveryBit, OneBit,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6, EveryPosition(Family::kIpv6),
                    {V6Bases()[1], V6Bases()[2]}),
        SmallWorlds(Family::kIpv4, EveryPosition(Family::kIpv4), V4Bases()))),
    testing::PrintToStringParamName());

// Two bits at each edge where a search may go from one part to the next.
INSTANTIATE_TEST_SUITE_P(
    EveryEdge, TwoBits,
    testing::ValuesIn(
        Both(SmallWorlds(Family::kIpv6,
                         PositionsAround(Family::kIpv6,
                                         {0, 3, 12, 16, 24, 25, 32, 40, 48, 49,
                                          64, 80, 112, 128},
                                         2),
                         V6Bases()),
             SmallWorlds(Family::kIpv4,
                         PositionsAround(Family::kIpv4,
                                         {0, 8, 12, 16, 20, 24, 25, 32}, 2),
                         V4Bases()))),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    SomeEdges, TwoBitsDeeply,
    testing::ValuesIn(
        Both(SmallWorlds(Family::kIpv6,
                         Positions("15,16 23,24 31,48 47,48 48,49 47,64 62,63 "
                                   "63,64 64,65 63,127 79,80 126,127"),
                         {V6Bases()[2]}),
             SmallWorlds(Family::kIpv4, Positions("15,16 23,24 30,31"),
                         {V4Bases()[2]}))),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    FarApart, ThreeBits,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6,
                    Positions("0,63,127 47,63,64 48,63,127 62,64,66 "
                              "63,64,65 15,31,47 20,50,90 47,80,112 "
                              "2,3,60 24,47,48 64,96,127"),
                    V6Bases()),
        SmallWorlds(Family::kIpv4, Positions("0,15,31 7,19,24"), V4Bases()))),
    testing::PrintToStringParamName());

// The same worlds with prefix lengths, on one base.
INSTANTIATE_TEST_SUITE_P(
    EveryBitLengths, OneBit,
    testing::ValuesIn(
        Both(SmallWorlds(Family::kIpv6, EveryPosition(Family::kIpv6),
                         {V6Bases()[2]}, kLengths),
             SmallWorlds(Family::kIpv4, EveryPosition(Family::kIpv4),
                         {V4Bases()[2]}, kLengths))),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    EveryEdgeLengths, TwoBits,
    testing::ValuesIn(
        Both(SmallWorlds(Family::kIpv6,
                         PositionsAround(Family::kIpv6,
                                         {0, 12, 32, 48, 64, 80, 128}, 2),
                         {V6Bases()[2]}, kLengths),
             SmallWorlds(Family::kIpv4,
                         PositionsAround(Family::kIpv4, {0, 12, 16, 32}, 2),
                         {V4Bases()[2]}, kLengths))),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    FarApartLengths, ThreeBits,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6,
                    Positions("0,63,127 47,63,64 48,63,127 62,64,66 63,64,65 "
                              "15,31,47 47,80,112 24,47,48 64,96,127"),
                    {V6Bases()[2]}, kLengths),
        SmallWorlds(Family::kIpv4, Positions("0,15,31 7,19,24"), {V4Bases()[2]},
                    kLengths))),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace planb
