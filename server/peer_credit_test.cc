#include "server/peer_credit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace planb::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const SteadyInstant kStart = SteadyNow();

TEST(PeerCredit, IsUsedUpAndComesBack) {
  PeerCredit credit(100, 10);
  EXPECT_TRUE(credit.Pay(1, 60, kStart));
  EXPECT_TRUE(credit.Pay(1, 40, kStart));
  EXPECT_FALSE(credit.Pay(1, 1, kStart));
  EXPECT_FALSE(credit.Pay(1, 6, kStart + milliseconds(500)));
  EXPECT_TRUE(credit.Pay(1, 10, kStart + milliseconds(1500)));
  EXPECT_FALSE(credit.Pay(1, 1, kStart + milliseconds(1500)));
  // Never more than there was at first.
  EXPECT_TRUE(credit.Pay(1, 100, kStart + hours(10)));
  EXPECT_FALSE(credit.Pay(1, 1, kStart + hours(10)));
}

TEST(PeerCredit, IsEverybodysOwn) {
  PeerCredit credit(100, 10);
  EXPECT_FALSE(credit.Pay(1, 1000, kStart));
  EXPECT_TRUE(credit.Pay(2, 100, kStart));
}

TEST(PeerCredit, WhatCannotBeRefusedIsOwed) {
  PeerCredit credit(100, 10);
  credit.Charge(1, 150, kStart);
  EXPECT_FALSE(credit.Pay(1, 1, kStart + seconds(5)));
  EXPECT_TRUE(credit.Pay(1, 10, kStart + seconds(6)));
  // Not for ever.
  credit.Charge(1, 1e9, kStart + seconds(6));
  const auto enough = seconds(6 + 10 * static_cast<int>(PeerCredit::kMostOwed));
  EXPECT_FALSE(credit.Pay(1, 1, kStart + enough));
  EXPECT_TRUE(credit.Pay(1, 1, kStart + enough + seconds(1)));
}

TEST(PeerCredit, WhoComesLateEarnsNothing) {
  PeerCredit credit(100, 10);
  EXPECT_TRUE(credit.Pay(1, 100, kStart));
  EXPECT_FALSE(credit.Pay(1, 1, kStart - hours(1)));
  EXPECT_FALSE(credit.Pay(1, 1, kStart));
  EXPECT_TRUE(credit.Pay(1, 10, kStart + seconds(1)));
}

// Processes, hosts of a network and networks of a site differ in other octets
// of the key.
TEST(PeerCredit, NeighboursHaveAccountsOfTheirOwn) {
  for (int shift = 0; shift <= 48; shift += 4) {
    std::set<size_t> accounts;
    for (uint64_t i = 0; i < 4 * PeerCredit::kAccounts; ++i) {
      accounts.insert(PeerCredit::AccountOf(i << shift ^ 0xffff'0000));
      EXPECT_LT(*accounts.rbegin(), PeerCredit::kAccounts);
    }
    // By chance, one in e^4 is nobody's.
    EXPECT_GT(accounts.size(), PeerCredit::kAccounts * 9 / 10) << shift;
  }
}

}  // namespace
}  // namespace planb::server
