// Calls leave when they should by the rules, at times that the test makes up.

#include "client/coalescer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Time = Coalescer::Time;

constexpr Time At(int64_t microseconds) {
  return Time(std::chrono::microseconds(microseconds));
}

constexpr CoalescerOptions kSmall = {.max_batch = 3,
                                     .max_delay = std::chrono::microseconds(50),
                                     .max_in_flight = 2,
                                     .max_calls = 8};

class CoalescerTest : public ::testing::Test {
 protected:
  // A call for 10.0.0.`name`, whose end adds its name to ended_.
  uint64_t Add(uint32_t name, Time now, Time deadline = Coalescer::kNever) {
    return coalescer_.Add(
        Address::V4(0x0a000000U + name), now, deadline,
        [this, name](const auto&) { ended_.push_back(name); });
  }
  // Names of the calls that leave at `now`.
  std::vector<int> Leave(Time now) {
    std::vector<int> names;
    if (!coalescer_.TakeDeparture(now, departure_)) return names;
    for (size_t i = 3; i < departure_.addresses_v4.size(); i += 4) {
      names.push_back(departure_.addresses_v4[i]);
    }
    return names;
  }
  void End(const std::vector<Coalescer::Done>& calls) {
    for (const auto& done : calls) done(absl::CancelledError(""));
  }

  Coalescer coalescer_{kSmall};
  Coalescer::Departure departure_;
  std::vector<uint32_t> ended_;
};

TEST_F(CoalescerTest, TheFirstLeavesAtOnce) {
  EXPECT_EQ(coalescer_.NextEvent(), Coalescer::kNever);
  Add(1, At(100));
  EXPECT_LE(coalescer_.NextEvent(), At(100));
  EXPECT_THAT(Leave(At(100)), ElementsAre(1));
  EXPECT_EQ(coalescer_.NextEvent(), Coalescer::kNever);
}

TEST_F(CoalescerTest, OthersGatherUntilTheFirstHasWaitedLongEnough) {
  Add(1, At(0));
  Leave(At(0));
  Add(2, At(10));
  Add(3, At(40));
  EXPECT_EQ(coalescer_.NextEvent(), At(60));
  EXPECT_THAT(Leave(At(59)), IsEmpty());
  EXPECT_THAT(Leave(At(60)), ElementsAre(2, 3));
}

TEST_F(CoalescerTest, AFullBatchLeavesAtOnce) {
  Add(1, At(0));
  Leave(At(0));
  for (uint32_t name : {2, 3, 4, 5}) Add(name, At(1));
  EXPECT_LE(coalescer_.NextEvent(), At(1));
  EXPECT_THAT(Leave(At(1)), ElementsAre(2, 3, 4));
  // Two are under way: the fifth waits for one of them, however long.
  EXPECT_EQ(coalescer_.NextEvent(), Coalescer::kNever);
  EXPECT_THAT(Leave(At(1'000'000)), IsEmpty());
  coalescer_.Land(departure_.id);
  EXPECT_EQ(coalescer_.NextEvent(), At(51));
  EXPECT_THAT(Leave(At(51)), ElementsAre(5));
}

TEST_F(CoalescerTest, WhatGatheredLeavesWhenNothingIsUnderWay) {
  Add(1, At(0));
  Leave(At(0));
  Add(2, At(1));
  Add(3, At(2));
  coalescer_.Land(departure_.id);
  EXPECT_THAT(Leave(At(2)), ElementsAre(2, 3));
}

TEST_F(CoalescerTest, AnswersAreFoundByFamily) {
  const Address v6 = *Address::Parse("2001:db8::102:304");
  for (const Address& address :
       {Address::V4(0x01020304), v6, Address::V4(0x05060708)}) {
    coalescer_.Add(address, At(0), Coalescer::kNever, [](const auto&) {});
  }
  ASSERT_TRUE(coalescer_.TakeDeparture(At(0), departure_));
  EXPECT_EQ(departure_.addresses_v6, v6.ToPacked());
  EXPECT_EQ(departure_.addresses_v4, "\1\2\3\4\5\6\7\10");
  std::vector<size_t> places;
  for (const auto& arrival : coalescer_.Land(departure_.id)) {
    places.push_back(arrival.at);
  }
  EXPECT_THAT(places, ElementsAre(1, 0, 2));
}

TEST_F(CoalescerTest, DeadlinesEndCallsWhereverTheyAre) {
  Add(1, At(0), At(20));
  Leave(At(0));
  Add(2, At(1), At(10));
  Add(3, At(2), At(30));
  EXPECT_EQ(coalescer_.NextEvent(), At(10));
  EXPECT_THAT(coalescer_.TakeExpired(At(9)), IsEmpty());
  End(coalescer_.TakeExpired(At(10)));
  EXPECT_THAT(ended_, ElementsAre(2));
  EXPECT_EQ(coalescer_.NextEvent(), At(20));
  End(coalescer_.TakeExpired(At(25)));
  EXPECT_THAT(ended_, ElementsAre(2, 1));
  EXPECT_THAT(coalescer_.Land(departure_.id), IsEmpty());
  EXPECT_THAT(Leave(At(25)), ElementsAre(3));
  EXPECT_EQ(coalescer_.Land(departure_.id).size(), 1U);
  EXPECT_THAT(coalescer_.TakeExpired(At(1000)), IsEmpty());
}

TEST_F(CoalescerTest, CallsCanBeTakenBack) {
  const uint64_t first = Add(1, At(0));
  Leave(At(0));
  const uint64_t second = Add(2, At(0));
  const uint64_t third = Add(3, At(0));
  for (const uint64_t id : {first, third}) {
    EXPECT_TRUE(coalescer_.TakeCall(id) != nullptr);
    EXPECT_TRUE(coalescer_.TakeCall(id) == nullptr);
  }
  EXPECT_TRUE(coalescer_.TakeCall(99) == nullptr);
  EXPECT_THAT(coalescer_.Land(departure_.id), IsEmpty());
  EXPECT_THAT(Leave(At(0)), ElementsAre(2));
  EXPECT_TRUE(coalescer_.TakeCall(second) != nullptr);
}

TEST_F(CoalescerTest, ItsCallsAreBounded) {
  for (uint32_t name = 1; name <= 8; ++name) {
    EXPECT_FALSE(coalescer_.full());
    Add(name, At(0));
  }
  EXPECT_TRUE(coalescer_.full());
  Leave(At(0));
  EXPECT_TRUE(coalescer_.full());
  // Taken back, but still under way, and its memory with it.
  coalescer_.TakeCall(1);
  EXPECT_TRUE(coalescer_.full());
  coalescer_.TakeCall(8);
  EXPECT_FALSE(coalescer_.full());
  End(coalescer_.TakeAll());
  EXPECT_THAT(ended_, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(coalescer_.Land(departure_.id), IsEmpty());
  EXPECT_EQ(coalescer_.NextEvent(), Coalescer::kNever);
}

TEST(Coalescer, TimesWithoutEndDoNotOverflow) {
  EXPECT_EQ(Coalescer::After(At(5), std::chrono::nanoseconds::max()),
            Coalescer::kNever);
  Coalescer coalescer({.max_delay = std::chrono::nanoseconds::max()});
  Coalescer::Departure departure;
  coalescer.Add(Address(), At(5), Coalescer::kNever, [](const auto&) {});
  EXPECT_TRUE(coalescer.TakeDeparture(At(5), departure));
  coalescer.Add(Address(), At(5), Coalescer::kNever, [](const auto&) {});
  EXPECT_FALSE(coalescer.TakeDeparture(At(1'000'000'000), departure));
}

// Whatever happens in whatever order: every call ends once, none in a batch
// that is too large or waits for more than the delay while a batch may leave.
TEST(Coalescer, RandomHistories) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Coalescer coalescer(kSmall);
    std::map<uint64_t, int> ends;
    std::vector<uint64_t> under_way;
    Coalescer::Departure departure;
    const auto end = [](const Coalescer::Done& done) {
      if (done != nullptr) done(absl::CancelledError(""));
    };
    int64_t now = 0;
    uint64_t added = 0;
    for (int step = 0; step < 500; ++step) {
      now += random() % 30;
      switch (random() % 4) {
        case 0:
        case 1:
          if (!coalescer.full()) {
            const uint64_t name = ++added;
            coalescer.Add(Address(), At(now),
                          random() % 2 ? Coalescer::kNever : At(now + 100),
                          [&ends, name](const auto&) { ++ends[name]; });
          }
          break;
        case 2:
          end(coalescer.TakeCall(random() % (added + 2)));
          break;
        default:
          if (!under_way.empty()) {
            const size_t which = random() % under_way.size();
            for (const auto& arrival : coalescer.Land(under_way[which])) {
              end(arrival.done);
            }
            under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which));
          }
      }
      while (coalescer.NextEvent() <= At(now)) {
        for (const auto& done : coalescer.TakeExpired(At(now))) end(done);
        if (!coalescer.TakeDeparture(At(now), departure)) continue;
        under_way.push_back(departure.id);
        ASSERT_LE(departure.addresses_v4.size(), 4 * kSmall.max_batch);
        ASSERT_LE(under_way.size(), kSmall.max_in_flight);
      }
    }
    for (const auto& done : coalescer.TakeAll()) end(done);
    ASSERT_EQ(ends.size(), added) << "seed " << seed;
    for (const auto& [name, times] : ends) ASSERT_EQ(times, 1) << name;
  }
}

}  // namespace
}  // namespace planb::client
