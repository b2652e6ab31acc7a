// The answers to upper halves by hand; those to whole addresses are the
// oracle's and the reference's, which have tests of their own.

#include "lpm/testing/right_answers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"

namespace planb {
namespace {

Route R(absl::string_view prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

// Of 2001:db8:: and the two /64s after it, with whatever lower halves.
std::vector<NextHopId> Three(const std::vector<Route>& routes) {
  std::vector<Address> addresses;
  for (uint64_t i = 0; i < 3; ++i) {
    addresses.push_back(
        Address::V6(absl::MakeUint128(0x2001'0db8'0000'0000 + i, i * 12345)));
  }
  return RightUpperAnswers(routes, addresses);
}

using Answers = std::vector<NextHopId>;

TEST(RightUpperAnswers, RoutesUpTo64Decide) {
  EXPECT_EQ(Three({}), (Answers{0, 0, 0}));
  EXPECT_EQ(Three({R("::/0", 7)}), (Answers{7, 7, 7}));
  EXPECT_EQ(Three({R("2001:db8::/63", 1), R("2001:db8:0:1::/64", 2)}),
            (Answers{1, 2, 0}));
}

TEST(RightUpperAnswers, LongerRoutesLeaveItOpen) {
  EXPECT_EQ(Three({R("2001:db8:0:1::/65", 1)}), (Answers{0, kUndecided, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1:ffff:ffff:ffff:ffff/128", 1)}),
            (Answers{0, kUndecided, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/128", 1), R("2001:db8:0:2::/64", 2)}),
            (Answers{0, kUndecided, 2}));
  EXPECT_EQ(Three({R("2001:db8:0:1::17/128", 1)}), (Answers{0, kUndecided, 0}));
}

TEST(RightUpperAnswers, UnlessTheyMakeNoDifference) {
  EXPECT_EQ(Three({R("2001:db8::/48", 1), R("2001:db8:0:1::17/128", 1)}),
            (Answers{1, 1, 1}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/65", 1), R("2001:db8:0:1:8000::/65", 1)}),
            (Answers{0, 1, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/64", 5), R("2001:db8:0:1::/65", 1),
                   R("2001:db8:0:1:8000::/65", 1)}),
            (Answers{0, 1, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/64", 1), R("2001:db8:0:1::/65", 2),
                   R("2001:db8:0:1::/66", 1), R("2001:db8:0:1:4000::/66", 1)}),
            (Answers{0, 1, 0}));
}

}  // namespace
}  // namespace planb
