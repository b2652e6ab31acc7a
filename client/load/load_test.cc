// SPDX-License-Identifier: Apache-2.0

// Histograms, arrivals, probes and traces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/load/latency_histogram.h"
#include "client/load/trace.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"

namespace planb::client {

namespace {

TEST(LatencyHistogram, SmallNumbersAreExact) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 100; ++i) histogram.Add(absl::Nanoseconds(i));
  EXPECT_EQ(histogram.count(), 100U);
  EXPECT_EQ(histogram.Quantile(0), absl::Nanoseconds(1));
  EXPECT_EQ(histogram.Quantile(0.5), absl::Nanoseconds(50));
  EXPECT_EQ(histogram.Quantile(0.99), absl::Nanoseconds(99));
  EXPECT_EQ(histogram.Quantile(1), absl::Nanoseconds(100));
}

TEST(LatencyHistogram, WithinOnePercentOverTenPowers) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(0, 10);
  LatencyHistogram halves[2];
  std::vector<int64_t> sorted;
  for (int i = 0; i < 20'000; ++i) {
    const auto nanoseconds =
        static_cast<int64_t>(std::pow(10.0, exponent(random)));
    sorted.push_back(nanoseconds);
    halves[i % 2].Add(absl::Nanoseconds(nanoseconds));
  }
  halves[0].Merge(halves[1]);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(halves[0].count(), sorted.size());
  EXPECT_EQ(halves[0].Max(), absl::Nanoseconds(sorted.back()));
  for (const double quantile :
       {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(
        std::ceil(quantile * static_cast<double>(sorted.size())));
    const auto exact = static_cast<double>(sorted[rank - 1]);
    const double got = absl::ToDoubleNanoseconds(halves[0].Quantile(quantile));
    EXPECT_GE(got, exact);
    EXPECT_LE(got, exact * 1.01);
  }
}

TEST(LatencyHistogram, ExtremesAndNothing) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.Max(), absl::ZeroDuration());
  histogram.Add(-absl::Seconds(1));
  EXPECT_EQ(histogram.Quantile(1), absl::ZeroDuration());
  histogram.Add(absl::InfiniteDuration());
  EXPECT_EQ(histogram.Quantile(1), histogram.Max());
  EXPECT_GT(histogram.Max(), absl::Hours(24 * 365 * 200));
}

// Arrivals have their rate, are in order and are reproducible.

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

std::vector<double> Offsets(const ArrivalOptions& options, size_t count) {
  Arrivals arrivals(options, kStart);
  std::vector<double> seconds;
  for (size_t i = 0; i < count; ++i) {
    seconds.push_back(absl::ToDoubleSeconds(arrivals.next() - kStart));
    arrivals.Pop();
  }
  return seconds;
}

TEST(Arrivals, EvenOnesDoNotDrift) {
  // A third of a second is not a whole number of nanoseconds.
  Arrivals arrivals({.batches_per_second = 3}, kStart);
  for (int64_t i = 0; i < 300'000; ++i) {
    if (i % 3 == 0) {
      ASSERT_EQ(arrivals.next(), kStart + absl::Seconds(i / 3));
    }
    arrivals.Pop();
  }
}

TEST(Arrivals, StreamsTakeTurns) {
  std::vector<double> all;
  for (size_t stream = 0; stream < 4; ++stream) {
    const auto own = Offsets(
        {.batches_per_second = 250, .stream = stream, .streams = 4}, 100);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_NEAR(all[i], static_cast<double>(i) * 1e-3, 1e-9);
  }
}

TEST(Arrivals, PoissonOnesHaveExponentialGaps) {
  constexpr size_t kCount = 100'000;
  const auto offsets = Offsets(
      {.kind = ArrivalKind::kPoisson, .batches_per_second = 1000}, kCount);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_NEAR(offsets.back(), kCount / 1000.0, kCount / 1000.0 * 0.02);
  // A share 1/e of the gaps exceeds the mean, 1/e^3 three times the mean.
  size_t above = 0;
  size_t far_above = 0;
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] - offsets[i - 1] > 1e-3) ++above;
    if (offsets[i] - offsets[i - 1] > 3e-3) ++far_above;
  }
  EXPECT_NEAR(static_cast<double>(above) / kCount, std::exp(-1), 0.01);
  EXPECT_NEAR(static_cast<double>(far_above) / kCount, std::exp(-3), 0.005);
}

TEST(Arrivals, SeedsAndStreamsDiffer) {
  const ArrivalOptions options = {.kind = ArrivalKind::kPoisson};
  EXPECT_EQ(Offsets(options, 10), Offsets(options, 10));
  ArrivalOptions other = options;
  other.seed = 2;
  EXPECT_NE(Offsets(options, 10), Offsets(other, 10));
  other = options;
  other.stream = 1;
  EXPECT_NE(Offsets(options, 10), Offsets(other, 10));
}

using ::testing::UnorderedElementsAre;

std::set<std::string> Boundaries(const char* prefix) {
  std::set<std::string> addresses;
  EXPECT_TRUE(VisitBoundaries({{*Prefix::Parse(prefix), 1}},
                              [&](const Address& address) {
                                addresses.insert(address.ToString());
                                return absl::OkStatus();
                              })
                  .ok());
  return addresses;
}

TEST(VisitBoundaries, BothSidesOfBothEnds) {
  EXPECT_THAT(Boundaries("192.0.2.0/24"),
              UnorderedElementsAre("192.0.1.255", "192.0.2.0", "192.0.2.1",
                                   "192.0.2.255", "192.0.3.0", "192.0.3.1"));
  EXPECT_THAT(Boundaries("2001:db8::1/128"),
              UnorderedElementsAre("2001:db8::", "2001:db8::1", "2001:db8::2",
                                   "2001:db8::3"));
}

TEST(VisitBoundaries, StaysWithinTheFamily) {
  EXPECT_THAT(Boundaries("0.0.0.0/0"),
              UnorderedElementsAre("0.0.0.0", "0.0.0.1", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.255/32"),
              UnorderedElementsAre("255.255.255.254", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.254/32"),
              UnorderedElementsAre("255.255.255.253", "255.255.255.254",
                                   "255.255.255.255"));
  EXPECT_THAT(Boundaries("::/128"), UnorderedElementsAre("::", "::1", "::2"));
  EXPECT_THAT(Boundaries("8000::/1"),
              UnorderedElementsAre("7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                   "8000::", "8000::1",
                                   "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(VisitSamples, CountAndFamiliesAndSeed) {
  const auto routes = SyntheticTable({.ipv6_routes = 100, .ipv4_routes = 100});
  const auto sample = [&](size_t count, uint64_t seed) {
    std::vector<Address> addresses;
    EXPECT_TRUE(VisitSamples(routes, count, seed, [&](const Address& address) {
                  addresses.push_back(address);
                  return absl::OkStatus();
                }).ok());
    return addresses;
  };
  const std::vector<Address> some = sample(200'000, 3);
  EXPECT_EQ(some.size(), 200'000U);
  size_t v4 = 0;
  for (const Address& address : some) {
    if (address.family() == Family::kIpv4) ++v4;
  }
  EXPECT_GT(v4, some.size() / 4);
  EXPECT_LT(v4, some.size() * 3 / 4);
  EXPECT_EQ(sample(1000, 3), sample(1000, 3));
  EXPECT_NE(sample(1000, 3), sample(1000, 4));
}

TEST(VisitSamples, TheReceiverMayEndIt) {
  EXPECT_TRUE(absl::IsAborted(VisitSamples(
      {}, 10, 1, [](const Address&) { return absl::AbortedError("no"); })));
}

// Lines count from 1, and a malformed line does not affect the others.

using ::testing::ElementsAre;

// The addresses of `text`, and the numbers of its malformed lines.
std::pair<std::vector<std::string>, std::vector<uint64_t>> ReadAll(
    const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> addresses;
  std::vector<uint64_t> malformed;
  EXPECT_TRUE(ReadAddressLines(
                  lines,
                  [&](const Address& address) {
                    addresses.push_back(address.ToString());
                    return absl::OkStatus();
                  },
                  [&](uint64_t line, const absl::Status& why) {
                    malformed.push_back(line);
                    EXPECT_TRUE(absl::IsInvalidArgument(why)) << why;
                  })
                  .ok());
  return {addresses, malformed};
}

TEST(ReadAddressLines, ReadsAddressesAndReportsTheRest) {
  const std::string text(
      "2001:db8::1\n\n  192.0.2.1\t\r\n# a comment\nnonsense\n::1%eth0\n10.0.0"
      ".1");
  const auto [addresses, malformed] = ReadAll(text);
  EXPECT_THAT(addresses, ElementsAre("2001:db8::1", "192.0.2.1", "10.0.0.1"));
  EXPECT_THAT(malformed, ElementsAre(5, 6));
}

TEST(ReadAddressLines, BoundsALineAndSkipsAByteOrderMarkAtTheStartAlone) {
  const std::string longest =
      std::string(kMaxAddressLine - 8, ' ') + "10.0.0.1";
  const std::string text(
      absl::StrCat("\xef\xbb\xbf::1\n", longest, "\n ", longest, "\n",
                   std::string(3 * kMaxAddressLine, '1'),
                   "\n\xef\xbb\xbf::1\n::2\n", longest, "1"));
  const auto [addresses, malformed] = ReadAll(text);
  EXPECT_THAT(addresses, ElementsAre("::1", "10.0.0.1", "::2"));
  EXPECT_THAT(malformed, ElementsAre(3, 4, 5, 7));
}

TEST(ReadAddressLines, TheReceiverMayEndIt) {
  std::istringstream lines("::1\n::2\n::3\n");
  int seen = 0;
  const absl::Status status = ReadAddressLines(
      lines,
      [&](const Address&) {
        return ++seen == 2 ? absl::AbortedError("enough") : absl::OkStatus();
      },
      [](uint64_t, const absl::Status&) { FAIL(); });
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(seen, 2);
}

using ::testing::HasSubstr;

const Address kOne = *Address::Parse("10.0.0.1");
const Address kTwo = *Address::Parse("11.0.0.1");
const Address kThree = *Address::Parse("10.0.0.3");

TEST(Trace, RepeatsAddressesToFillTheLastBatch) {
  const Trace trace(Family::kIpv4, {kOne, kTwo, kThree}, 2);
  EXPECT_EQ(trace.batches(), 2U);
  EXPECT_EQ(trace.Get(0).addresses_v4, kOne.ToPacked() + kTwo.ToPacked());
  EXPECT_EQ(trace.Get(1).addresses_v4, kThree.ToPacked() + kOne.ToPacked());
  EXPECT_EQ(trace.Get(2).addresses_v4, trace.Get(0).addresses_v4);
  EXPECT_TRUE(trace.Get(0).addresses_v6.empty());

  const ReferenceTable table({{*Prefix::Parse("10.0.0.0/8"), 7}});
  const std::vector<NextHopId> expected = trace.Expect(table);
  EXPECT_THAT(trace.Slice(expected, 0), ElementsAre(7, kNoRoute));
  EXPECT_THAT(trace.Slice(expected, 3), ElementsAre(7, 7));
}

TEST(Trace, FewAddressesFillABatch) {
  const Address address = *Address::Parse("2001:db8::1");
  const Trace trace(Family::kIpv6, {address}, 3);
  EXPECT_EQ(trace.batches(), 1U);
  EXPECT_EQ(trace.Get(5).addresses_v6.size(), 48U);
  EXPECT_TRUE(trace.Get(5).addresses_v4.empty());
}

TEST(Trace, UpperHalvesAreHalfOfThat) {
  const Address divided = *Address::Parse("2001:db8:0:1::1");
  const Address decided = *Address::Parse("2001:db8:0:2::1");
  const Trace trace(Family::kIpv6, {divided, decided}, 2, AddressForm::kUpper);
  EXPECT_EQ(trace.Get(0).upper_halves_v6,
            divided.ToPacked().substr(0, 8) + decided.ToPacked().substr(0, 8));
  EXPECT_TRUE(trace.Get(0).addresses_v6.empty());
  const ReferenceTable table({{*Prefix::Parse("2001:db8::/32"), 7},
                              {*Prefix::Parse("2001:db8:0:1::/65"), 8}});
  EXPECT_THAT(trace.Expect(table), ElementsAre(kUndecided, 7));
}

// gRPC may hold the bytes of a batch longer than the trace exists.
TEST(Trace, BatchesOutliveIt) {
  Batch batch;
  {
    const Trace trace(Family::kIpv4, {kOne}, 1);
    batch = trace.Get(0);
  }
  EXPECT_EQ(batch.addresses_v4, kOne.ToPacked());
}

TEST(ReadAddressFile, OneFamilyAndErrors) {
  const std::string path = ::testing::TempDir() + "/addresses.txt";
  std::ofstream(path) << "10.0.0.1\n2001:db8::1\n10.0.0.3\n";
  EXPECT_THAT(*ReadAddressFile(path, Family::kIpv4), ElementsAre(kOne, kThree));
  EXPECT_EQ(ReadAddressFile(path, Family::kIpv6)->size(), 1U);
  EXPECT_EQ(ReadAddressFile("/nonexistent", Family::kIpv6).status().code(),
            absl::StatusCode::kNotFound);
  std::ofstream(path) << "10.0.0.1\nx\n";
  const absl::Status bad = ReadAddressFile(path, Family::kIpv4).status();
  EXPECT_THAT(std::string(bad.message()), HasSubstr(path + ":2: "));
  std::ofstream(path) << "10.0.0.1\n";
  EXPECT_FALSE(ReadAddressFile(path, Family::kIpv6).ok());
}

}  // namespace
}  // namespace planb::client
