// SPDX-License-Identifier: Apache-2.0

// What the compiler promises its callers: which changes it may be told of and
// how, that it needs nothing but the routes it is given, and that its FIBs may
// outlive it.

#include "lpm/fib/fib_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

class FibCompilerContract : public testing::TestWithParam<Family> {
 protected:
  // Routes of the family, mixed and nested.
  std::vector<Route> Routes(size_t count, uint64_t seed) const {
    return RandomRoutes({.family = GetParam(), .count = count, .seed = seed});
  }
};

INSTANTIATE_TEST_SUITE_P(Families, FibCompilerContract,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

TEST_P(FibCompilerContract, AnyOrderRepeatsAndPrefixesThatDidNotChange) {
  LiveTable table(GetParam(), Routes(300, 1));
  Random random(1);
  const std::vector<Route> other = Routes(300, 2);
  for (size_t i = 0; i + 3 <= other.size(); i += 3) {
    std::vector<Change> changes(&other[i], &other[i] + 3);
    std::vector<Prefix> also;
    for (const Change& change : changes) also.push_back(change.prefix);
    for (int n = 0; n < 20; ++n) {  // there or not, they stay so
      also.push_back(other[random.Below(other.size())].prefix);
      also.push_back(
          table.ModelRoutes()[random.Below(table.model().size())].prefix);
    }
    also.insert(also.end(), also.begin(), also.end());
    random.Shuffle(also);
    table.Apply(changes, also);
    ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");
  }
}

TEST_P(FibCompilerContract, NothingChanged) {
  const std::vector<Route> routes = Routes(200, 3);
  LiveTable table(GetParam(), routes);
  for (int i = 0; i < 10; ++i) {
    const auto before = table.fib();
    table.Apply({});
    ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), routes), "");
    ASSERT_EQ(DifferencesAtBoundaries(*before, routes), "");
  }
}

// Each version's routes are another object, and the last one's are gone.
TEST_P(FibCompilerContract, RoutesNeedNotOutliveTheCall) {
  const std::vector<Route> all = Routes(400, 4);
  FibCompiler compiler(GetParam());
  auto fib = compiler.Compile(RouteSet(GetParam())).value();
  for (size_t count = 1; count <= all.size(); count += 1 + count / 8) {
    const auto routes = std::make_unique<RouteSet>(
        GetParam(), absl::MakeConstSpan(all).first(count));
    std::vector<Prefix> changed;
    for (size_t i = 0; i < count; ++i) changed.push_back(all[i].prefix);
    fib = compiler.Update(*routes, changed).value();
    ASSERT_EQ(
        DifferencesAtBoundaries(*fib, absl::MakeConstSpan(all).first(count)),
        "")
        << count << " routes";
  }
}

TEST_P(FibCompilerContract,
       MostChangesAreMadeOneByOneAndMoreCompileEverything) {
  const std::vector<Route> all = RandomRoutes(
      {.family = GetParam(), .count = 4000, .min_length = 12, .seed = 7});
  FibCompiler compiler(GetParam());
  const RouteSet routes(GetParam(), all);
  auto fib = compiler.Compile(routes).value();
  std::vector<Prefix> changed;
  const size_t most = FibCompiler::MostChanges(routes.size());
  for (size_t i = 0; i < most; ++i) changed.push_back(all[i].prefix);
  fib = compiler.Update(routes, changed).value();
  EXPECT_EQ(compiler.counters().incremental, 1U);
  changed.push_back(all[most].prefix);
  fib = compiler.Update(routes, changed).value();
  EXPECT_EQ(compiler.counters().incremental, 1U);
  EXPECT_EQ(compiler.counters().full, 1U);
}

TEST_P(FibCompilerContract,
       PrefixesOfEveryLengthAmongOthersCompileNoMoreThanTheirSlots) {
  const std::vector<Route> all = RandomRoutes(
      {.family = GetParam(), .count = 3000, .min_length = 9, .seed = 8});
  FibCompiler compiler(GetParam());
  RouteSet routes(GetParam(), all);
  std::unique_ptr<const Fib> fib = compiler.Compile(routes).value();
  for (int length = 12; length >= 0; length -= 2) {
    // All at once, and one in another.
    std::vector<Prefix> changed;
    for (size_t i = 0; i < 3; ++i) {
      const Address& inside = all[i * 1000].prefix.address();
      changed.push_back(Prefix::Truncate(inside, length));
      changed.push_back(Prefix::Truncate(inside, length + 2));
    }
    for (const NextHopId next_hop : {NextHopId{77}, kNoRoute}) {
      for (const Prefix& prefix : changed) routes.Exchange(prefix, next_hop);
      fib = compiler.Update(routes, changed).value();
      ASSERT_EQ(DifferencesAtBoundaries(
                    *fib, std::vector<Route>(routes.begin(), routes.end())),
                "")
          << length;
    }
    EXPECT_EQ(compiler.counters().full, 0U) << length;
  }
}

TEST_P(FibCompilerContract, CompileStartsAnew) {
  const std::vector<Route> one = Routes(300, 5), other = Routes(300, 6);
  FibCompiler compiler(GetParam());
  for (int round = 0; round < 5; ++round) {
    RouteSet routes(GetParam(), round % 2 == 0 ? one : other);
    const auto fib = compiler.Compile(routes).value();
    ASSERT_EQ(DifferencesAtBoundaries(*fib, round % 2 == 0 ? one : other), "");
    const Route kept = *std::next(one.begin(), round);
    std::vector<Prefix> gone;
    for (const auto& [prefix, next_hop] : routes) {
      if (prefix != kept.prefix) gone.push_back(prefix);
    }
    for (const Prefix& prefix : gone) routes.Withdraw(prefix);
    routes.Announce(kept.prefix, kept.next_hop);
    gone.push_back(kept.prefix);
    const auto updated = compiler.Update(routes, gone).value();
    ASSERT_EQ(DifferencesAtBoundaries(*updated, {&kept, 1}), "");
    ASSERT_EQ(DifferencesAtBoundaries(*fib, round % 2 == 0 ? one : other), "");
  }
}

// Next hops that grow in number and size while the table changes. The FIB has
// to change the width of its values on the way, and back.

// Where the routes lie.
struct Place {
  std::string name;
  Family family;
  // The n-th of very many distinct prefixes.
  Prefix (*prefix)(uint32_t n);
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

class NextHopGrowth : public testing::TestWithParam<Place> {
 protected:
  // Announces prefixes first..last-1, each with next hop `next_hop(n)`, in
  // batches of `batch`, and checks after a few of them.
  template <typename NextHopOf>
  void Announce(uint32_t first, uint32_t last, uint32_t batch,
                NextHopOf next_hop) {
    std::vector<Change> changes;
    uint32_t batches = 0;
    for (uint32_t n = first; n < last; ++n) {
      changes.push_back({GetParam().prefix(n), next_hop(n)});
      if (changes.size() < batch && n + 1 < last) continue;
      table_.Apply(changes);
      changes.clear();
      if (++batches % 64 == 1) Check();
      if (HasFatalFailure()) FAIL() << "at prefix number " << n;
    }
    Check();
  }
  void Check() {
    ASSERT_EQ(DifferencesAtBoundaries(*table_.fib(), table_.ModelRoutes()), "");
  }

  LiveTable table_{GetParam().family};
};

INSTANTIATE_TEST_SUITE_P(
    Places, NextHopGrowth,
    testing::Values(Place{"Ipv4", Family::kIpv4,
                          [](uint32_t n) {
                            return Prefix::Truncate(Address::V4(n << 8), 24);
                          }},
                    Place{"Ipv6Slash48s", Family::kIpv6,
                          [](uint32_t n) {
                            return V6(
                                0x2001'0000'0000'0000 + (uint64_t{n} << 16), 0,
                                48);
                          }},
                    Place{"Ipv6OneRouteEachSlash16", Family::kIpv6,
                          [](uint32_t n) {
                            return V6((uint64_t{n & 0xffff} << 48) |
                                          (uint64_t{n >> 16} << 20),
                                      0, 48);
                          }},
                    Place{"Ipv6LongInOneSlash64", Family::kIpv6,
                          [](uint32_t n) {
                            return V6(0x2001'0db8'0000'0001, uint64_t{n} << 20,
                                      128 - 20);
                          }},
                    Place{"Ipv6LongAndShort", Family::kIpv6,
                          [](uint32_t n) {
                            const uint64_t high =
                                0x2001'0000'0000'0000 + (uint64_t{n / 2} << 16);
                            return n % 2 == 0 ? V6(high, 0, 48)
                                              : V6(high + 1, ~uint64_t{0}, 128);
                          }}),
    [](const auto& param) { return param.param.name; });

// One, few, more than a byte holds, then ids of every size.
TEST_P(NextHopGrowth, IdsGrow) {
  uint32_t n = 0;
  Announce(n, n + 3, 1, [](uint32_t) { return 1u; });
  n += 3;
  for (const NextHopId id :
       {254u, 255u, 256u, 257u, 32766u, 32767u, 32768u, 65534u, 65535u, 65536u,
        65537u, (1u << 24) - 1, 1u << 24, (1u << 25) - 1, 1u << 25, 0x7fffffffu,
        0x80000000u, 0xfffffffdu, 0xfffffffeu}) {
    Announce(n, n + 5, 2,
             [&](uint32_t i) { return i % 2 == 0 ? id : 1 + i % 3; });
    n += 5;
    if (HasFatalFailure()) FAIL() << "next hop " << id;
  }
}

// As many distinct next hops as a byte holds, and two, one by one across the
// edges; and then all of them go, and few come back.
TEST_P(NextHopGrowth, CountsGrowAndShrink) {
  Announce(0, 250, 50, [](uint32_t n) { return n + 1; });
  Announce(250, 262, 1, [](uint32_t n) { return n + 1; });
  if (HasFatalFailure()) return;
  constexpr uint32_t kStep = kSanitized ? 5 : 1;
  Announce(262, 32'760, 4000 * kStep, [](uint32_t n) { return n + 1; });
  Announce(32'760, 32'775, kStep, [](uint32_t n) { return n + 1; });
  if (HasFatalFailure()) return;
  Announce(32'775, 65'530, 4000 * kStep, [](uint32_t n) { return n + 1; });
  Announce(65'530, 65'545, kStep, [](uint32_t n) { return n + 1; });
  if (HasFatalFailure()) return;
  const auto large = table_.fib();
  const std::vector<Route> large_routes = table_.ModelRoutes();
  Announce(0, 65'545, 10'000, [](uint32_t) { return kNoRoute; });
  ASSERT_EQ(table_.model().size(), 0U);
  Announce(0, 100, 1, [](uint32_t n) { return 0u - 2 - n; });
  ASSERT_EQ(DifferencesAtBoundaries(*large, large_routes), "");
}

// Every update brings a next hop never seen before to the same few prefixes:
// what a FIB remembers of those gone by must not grow, or overflow.
TEST_P(NextHopGrowth, NextHopsPassBy) {
  Announce(0, 300, 300, [](uint32_t n) { return n + 1; });
  std::vector<size_t> bytes;
  for (uint32_t round = 0; round < 700; ++round) {
    std::vector<Change> changes;
    for (uint32_t n = 0; n < 100; ++n) {
      changes.push_back({GetParam().prefix(3 * n), 1000 + 100 * round + n});
    }
    table_.Apply(changes);
    if (round % 32 == 0) Check();
    if (HasFatalFailure()) FAIL() << "round " << round;
    if (round == 350 || round == 699) bytes.push_back(table_.fib()->bytes());
  }
  Check();
  EXPECT_LE(bytes[1], 2 * bytes[0] + 65536);
}

// Thousands of neighbouring /48s, many of them divided: their slots share
// partitions, which split and are packed again as intervals come and go.
TEST(FibCompiler, DividedSlotsOfSharedPartitionsKeepTheirRoutes) {
  const uint64_t base = 0x2001'0db8'0000'0000;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    // In crowded places and in thin ones.
    const uint64_t count = 500 << seed;
    Random random(seed);
    const auto prefix = [&](int length) {
      return Prefix::Truncate(
          V6(base | random.Below(count) << 16 | random.Below(4) << 6,
             random.Below(3), 128)
              .address(),
          length);
    };
    std::vector<Change> changes;
    for (uint64_t n = 0; n < 2000; ++n) {
      changes.push_back({prefix(random.Chance(1, 2) ? 48 : 64),
                         static_cast<NextHopId>(1 + random.Below(60))});
    }
    LiveTable table(Family::kIpv6);
    table.Apply(changes);
    table.Recompile();
    for (int step = 1; step <= 3000; ++step) {
      const int lengths[] = {44, 46, 47, 48, 48, 48, 58, 64, 64, 128};
      const Change change = {
          prefix(lengths[random.Below(std::size(lengths))]),
          random.Chance(1, 3) ? kNoRoute
                              : static_cast<NextHopId>(1 + random.Below(60))};
      table.Apply({&change, 1});
      if (step % 250 != 0) continue;
      ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "")
          << "seed " << seed << ", step " << step;
    }
  }
}

// Hosts and longer prefixes crowd in one /48: all over it, in a row, in steps
// of which each is below a descriptor of its own, in one /64. All that was
// compiled below the descriptors before is edited, and at last all go.
TEST(FibCompiler, ChangesInADenseSlash48AreEditedInPlace) {
  constexpr uint64_t kHigh = 0x2001'0db8'1234'0000;
  for (uint64_t seed = 1; seed <= (kSanitized ? 3U : 4U); ++seed) {
    Random random(seed);
    const auto address = [&]() -> std::pair<uint64_t, uint64_t> {
      switch (random.Below(seed == 1 ? 2 : 5)) {
        case 0:
          return {kHigh | 1, 0x1000 + random.Below(1500)};
        case 1:
          return {kHigh | 1, random.Next()};
        case 2:
          return {kHigh | random.Below(1500), random.Below(3) << 60};
        case 3:  // in a crowd that has a table of its own
          return {kHigh | 1, 0x7777'0000'0000'0000 | random.Below(800) << 32};
        default:
          return {kHigh | 1, random.Below(40) << 32 | random.Below(40) << 12};
      }
    };
    const auto change = [&](int least, NextHopId next_hop) -> Change {
      const int length = random.Chance(3, 4)
                             ? 128
                             : least + static_cast<int>(random.Below(
                                           static_cast<uint64_t>(129 - least)));
      const auto [high, low] = address();
      return {V6(high, low, length), next_hop};
    };
    std::vector<Change> changes = {{P("2001:db8::/32"), 1}};
    for (int n = 0; n < 2000; ++n) {
      changes.push_back(change(60, 1 + static_cast<NextHopId>(n % 3)));
    }
    LiveTable table(Family::kIpv6, {}, {.prefix_lengths = seed % 2 == 0});
    table.Apply(changes);
    OldVersions old(/*most=*/8, seed);
    const auto check = [&] {
      ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");
    };
    for (int step = 1; step <= 300; ++step) {
      changes.clear();
      const size_t count = step % 8 == 0 ? 40 : 1;
      while (changes.size() < count) {
        changes.push_back(change(step % 5 == 0 ? 49 : 62,
                                 static_cast<NextHopId>(random.Below(4))));
      }
      table.Apply(changes);
      ASSERT_EQ(table.Check(BoundaryProbes(changes), old), "")
          << "seed " << seed << ", step " << step;
      if (step % 100 == 0) check();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    // What is left becomes less, down to one value in the /48.
    std::vector<Route> rest = table.ModelRoutes();
    random.Shuffle(rest);
    for (size_t i = 0; i < rest.size(); i += 10) {
      changes.clear();
      for (size_t j = i; j < std::min(i + 10, rest.size()); ++j) {
        changes.push_back({rest[j].prefix, kNoRoute});
      }
      table.Apply(changes);
      if (i % 1000 == 0 || i + 60 > rest.size()) check();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", " << i << " gone";
    }
    while (!old.empty()) ASSERT_EQ(old.DropOne(), "") << "an old version";
    EXPECT_EQ(table.fib()->Stats().intervals, 1U);
  }
}

// Changes of one generation in one place copy what is there once: they leave no
// more unused than one change does, so that nothing has to be packed.
TEST(FibCompiler, ChangesOfOneGenerationShareTheirCopies) {
  RouteSet routes(Family::kIpv6);
  const auto host = [](uint64_t n) {
    return V6(0x2001'0db8'0000'0000, 0x1000 + n, 128);
  };
  for (uint64_t n = 0; n < 20'000; ++n) {
    routes.Announce(host(n), static_cast<NextHopId>(1 + n % 7));
  }
  FibCompiler compiler(Family::kIpv6);
  auto fib = compiler.Compile(routes).value();
  for (uint32_t step = 0; step < 30; ++step) {
    std::vector<Prefix> changed;
    for (uint64_t n = 0; n < 100; ++n) {
      changed.push_back(host(131 * n));
      routes.Announce(changed.back(), 10 + step % 2);
    }
    fib = compiler.Update(routes, changed).value();
  }
  EXPECT_EQ(compiler.counters().incremental, 30U);
  EXPECT_EQ(DifferencesAtBoundaries(
                *fib, std::vector<Route>(routes.begin(), routes.end())),
            "");
}

}  // namespace
}  // namespace planb
