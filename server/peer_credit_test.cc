#include "server/peer_credit.h"

#include <gtest/gtest.h>

namespace planb::server {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(PeerCredit, IsUsedUpAndComesBack) {
  PeerCredit credit(100, 10);
  EXPECT_TRUE(credit.Pay(1, 60, kStart));
  EXPECT_TRUE(credit.Pay(1, 40, kStart));
  EXPECT_FALSE(credit.Pay(1, 1, kStart));
  EXPECT_FALSE(credit.Pay(1, 6, kStart + absl::Milliseconds(500)));
  EXPECT_TRUE(credit.Pay(1, 10, kStart + absl::Milliseconds(1500)));
  EXPECT_FALSE(credit.Pay(1, 1, kStart + absl::Milliseconds(1500)));
  // Never more than there was at first.
  EXPECT_TRUE(credit.Pay(1, 100, kStart + absl::Hours(10)));
  EXPECT_FALSE(credit.Pay(1, 1, kStart + absl::Hours(10)));
}

TEST(PeerCredit, IsEverybodysOwn) {
  PeerCredit credit(100, 10);
  EXPECT_FALSE(credit.Pay(1, 1000, kStart));
  EXPECT_TRUE(credit.Pay(2, 100, kStart));
}

TEST(PeerCredit, AClockSetBackEarnsNothing) {
  PeerCredit credit(100, 10);
  EXPECT_TRUE(credit.Pay(1, 100, kStart));
  EXPECT_FALSE(credit.Pay(1, 1, kStart - absl::Hours(1)));
  EXPECT_TRUE(credit.Pay(1, 10, kStart - absl::Hours(1) + absl::Seconds(1)));
}

TEST(PeerCredit, NeighboursHaveAccountsFarApart) {
  for (uint64_t process = 1; process < 100; ++process) {
    EXPECT_NE(PeerCredit::AccountOf(process),
              PeerCredit::AccountOf(process + 1));
    EXPECT_LT(PeerCredit::AccountOf(process), PeerCredit::kAccounts);
  }
}

}  // namespace
}  // namespace planb::server
