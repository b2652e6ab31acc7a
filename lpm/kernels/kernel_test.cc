// SPDX-License-Identifier: Apache-2.0

// Every kernel, for every width of values, every form of addresses, and every
// count of lanes. Each combination is code of its own.

#include "lpm/kernels/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

struct Case {
  Form form;
  int value_bytes;
};

// Routes that make every kind of node: crowds of /48s and of /32s under few
// roots, nested ones, and, unless values have one byte, long prefixes.
std::vector<Route> CrowdedRoutes(const Case& wanted) {
  // With lengths, a next hop has up to 49 values, or 33.
  const uint32_t next_hops = wanted.value_bytes == 1
                                 ? (HasLengths(wanted.form) ? 5 : 200)
                             : wanted.value_bytes == 2 ? 20'000
                                                       : 0xfffffffe;
  const Family family = FamilyOf(wanted.form);
  const int bits = AddressBits(family);
  const int longest = wanted.value_bytes == 1 ? std::min(bits, 48) : bits;
  Random random(7);
  std::vector<Route> routes = RandomRoutes({.family = family,
                                            .count = 1500,
                                            .max_length = longest,
                                            .next_hops = next_hops,
                                            .seed = 3});
  const auto add = [&](absl::uint128 address, int length) {
    routes.push_back(
        {Prefix::Truncate(Address::FromBits(family, address), length),
         static_cast<NextHopId>(1 + random.Below(next_hops))});
  };
  // All of them distinct, so that 4 bytes are needed where asked for.
  const size_t crowd = wanted.value_bytes == 4 ? 60'000 : 6'000;
  const absl::uint128 base = absl::uint128(0x2a01) << 112;
  for (size_t i = 0; i < crowd; ++i) {
    const absl::uint128 at = random.Next128();
    if (family == Family::kIpv4) {
      const int length = 17 + static_cast<int>(random.Below(16));
      add((base | (at >> 10)) >> 96 << 96, length);
    } else {
      add(base | at >> 16, i % 2 == 0 ? 32 : 48);
      add(base | at >> 36, 48);
      if (longest > 48 && i % 8 == 0) {
        add(base | at >> 40, 49 + static_cast<int>(random.Below(80)));
      }
    }
  }
  std::sort(routes.begin(), routes.end());
  routes.erase(std::unique(routes.begin(), routes.end(),
                           [](const Route& a, const Route& b) {
                             return a.prefix == b.prefix;
                           }),
               routes.end());
  return routes;
}

class KernelTest
    : public testing::TestWithParam<std::tuple<const Kernel*, Case>> {};

TEST_P(KernelTest, EveryCountOfLanes) {
  const auto [kernel, wanted] = GetParam();
  const std::vector<Route> routes = CrowdedRoutes(wanted);
  const Family family = FamilyOf(wanted.form);
  const auto fib = Fib::Build(family, routes, OptionsOf(wanted.form)).value();
  ASSERT_EQ(fib->Stats().value_bytes, wanted.value_bytes);
  EXPECT_GT(fib->Stats().tables, 0U);
  EXPECT_GT(fib->Stats().wide_partitions + fib->Stats().narrow_partitions, 1U);

  std::vector<Address> probes = BoundaryProbes(routes);
  for (const Address& address : UniformProbes(family, 2000, 1)) {
    probes.push_back(address);
  }
  Random(5).Shuffle(probes);
  const std::vector<NextHopId> expected =
      RightAnswersAs(wanted.form, routes, probes);
  const std::vector<char> packed = PackAs(wanted.form, probes);
  const size_t size = BytesOf(wanted.form);
  if (wanted.form == Form::kIpv6Upper && wanted.value_bytes > 1) {
    EXPECT_GT(std::count(expected.begin(), expected.end(), kUndecided), 100);
  }

  std::vector<NextHopId> found(probes.size());
  LookupAs(wanted.form, *fib, packed.data(), probes.size(), found.data(),
           *kernel);
  ASSERT_EQ(found, expected);

  size_t at = 0;
  for (size_t count = 0; count <= 400; ++count) {
    if (at + count > probes.size()) at = 0;
    found.assign(count + 1, 0xdeadbeef);
    LookupAs(wanted.form, *fib, packed.data() + at * size, count, found.data(),
             *kernel);
    ASSERT_EQ(found.back(), 0xdeadbeef) << count;
    found.pop_back();
    ASSERT_TRUE(std::equal(found.begin(), found.end(),
                           expected.begin() + static_cast<std::ptrdiff_t>(at)))
        << count << " addresses from " << at;
    at += count;
  }
}

std::string Name(const testing::TestParamInfo<KernelTest::ParamType>& info) {
  const auto& [kernel, wanted] = info.param;
  return std::string(KernelName(*kernel)) + "_" + FormName(wanted.form) + "_" +
         std::to_string(wanted.value_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    All, KernelTest,
    testing::Combine(
        testing::ValuesIn(AvailableKernels().begin(), AvailableKernels().end()),
        testing::Values(
            Case{Form::kIpv4, 1}, Case{Form::kIpv4, 2}, Case{Form::kIpv4, 4},
            Case{Form::kIpv6, 1}, Case{Form::kIpv6, 2}, Case{Form::kIpv6, 4},
            Case{Form::kIpv6Upper, 1}, Case{Form::kIpv6Upper, 2},
            Case{Form::kIpv6Upper, 4}, Case{Form::kIpv4Lengths, 1},
            Case{Form::kIpv4Lengths, 2}, Case{Form::kIpv4Lengths, 4},
            Case{Form::kIpv6Lengths, 1}, Case{Form::kIpv6Lengths, 2},
            Case{Form::kIpv6Lengths, 4})),
    Name);

TEST(Kernels, ScalarRunsEverywhereAndComesLast) {
  EXPECT_EQ(KernelName(*AvailableKernels().back()), "scalar");
}

TEST(Kernels, AreSelectedByName) {
  EXPECT_EQ(*SelectKernel("auto"), AvailableKernels().front());
  for (const Kernel* kernel : AvailableKernels()) {
    EXPECT_EQ(*SelectKernel(KernelName(*kernel)), kernel);
  }
  const auto unknown = SelectKernel("sse9");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("scalar"), std::string::npos);
}

// Answers of which `misses` in 4 are kNoRoute, or nearly: one bit is set.
std::vector<NextHopId> Answers(size_t count, uint64_t misses) {
  Random random(count);
  std::vector<NextHopId> answers(count, kNoRoute);
  for (NextHopId& answer : answers) {
    if (!random.Chance(misses, 4)) answer = NextHopId{1} << random.Below(32);
  }
  return answers;
}

TEST(CountNoRoute, AnyCountAndAlignment) {
  for (size_t count = 0; count <= 200; ++count) {
    const std::vector<NextHopId> answers = Answers(count, count % 5);
    const auto expected = static_cast<size_t>(
        std::count(answers.begin(), answers.end(), kNoRoute));
    for (size_t shift = 0; shift < 64; ++shift) {
      // Zeros around, which must not count, and no byte more than needed.
      const size_t bytes = count * sizeof(NextHopId);
      const auto exact = std::make_unique<char[]>(shift + bytes);
      std::fill_n(exact.get(), shift, '\0');
      if (count > 0) std::memcpy(exact.get() + shift, answers.data(), bytes);
      ASSERT_EQ(CountNoRoute(exact.get() + shift, count), expected)
          << count << " at " << shift;
      std::vector<char> amid(64 + bytes + 64, '\0');
      if (count > 0) std::memcpy(&amid[shift], answers.data(), bytes);
      ASSERT_EQ(CountNoRoute(&amid[shift], count), expected);
    }
  }
  EXPECT_EQ(CountNoRoute(nullptr, 0), 0U);
}

TEST(CountNoRoute, Many) {
  for (const size_t count : {65'535, 65'536, 65'537, 300'000}) {
    const std::vector<NextHopId> answers = Answers(count, 3);
    EXPECT_EQ(CountNoRoute(answers.data(), count),
              static_cast<size_t>(
                  std::count(answers.begin(), answers.end(), kNoRoute)));
    const std::vector<NextHopId> none(count, kNoRoute);
    EXPECT_EQ(CountNoRoute(none.data(), count), count);
    const std::vector<NextHopId> undecided(count, kUndecided);
    EXPECT_EQ(CountNoRoute(undecided.data(), count), 0U);
  }
}

}  // namespace
}  // namespace planb
