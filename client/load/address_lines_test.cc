// Lines are numbered as an editor numbers them, and one bad line does not
// spoil the others.

#include "client/load/address_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace planb::client {
namespace {

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

}  // namespace
}  // namespace planb::client
