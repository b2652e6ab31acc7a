// SPDX-License-Identifier: Apache-2.0

// A trace is the addresses given, in batches of one size.

#include "client/load/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace planb::client {
namespace {

// Lines are numbered as an editor numbers them, and one bad line does not
// spoil the others.

using ::testing::ElementsAre;

TEST(ReadAddressLines, ReadsAddressesAndReportsTheRest) {
  std::istringstream lines(
      "2001:db8::1\n\n  192.0.2.1\t\r\n# a comment\nnonsense\n::1%eth0\n10.0.0"
      ".1");
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
  EXPECT_THAT(addresses, ElementsAre("2001:db8::1", "192.0.2.1", "10.0.0.1"));
  EXPECT_THAT(malformed, ElementsAre(5, 6));
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

using ::testing::ElementsAre;
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

// gRPC may hold on to what was sent for longer than the trace lives.
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
  EXPECT_THAT(std::string(bad.message()), HasSubstr("line 2"));
  std::ofstream(path) << "10.0.0.1\n";
  EXPECT_FALSE(ReadAddressFile(path, Family::kIpv6).ok());
}

}  // namespace

}  // namespace planb::client
