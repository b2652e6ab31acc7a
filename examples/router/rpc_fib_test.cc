// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rpc_fib.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/next_hop_directory.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/table/group_table.h"

namespace planb::router {
namespace {

class RpcFib : public client::testing::RealServerFixture {
 protected:
  void SetUp() override { StartServer(); }

  // 2001:db8:I::/48 and 10.I.0.0/16 have the next hop I + `first`.
  void StartServer(NextHopId first = 1) {
    Start("none");
    ASSERT_FALSE(HasFatalFailure());
    SetPlaces(first);
  }

  // Returns the generation, which is visible.
  uint64_t SetPlaces(NextHopId first) {
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_VISIBLE);
    for (NextHopId i = 0; i < kPlaces; ++i) {
      for (const std::string& prefix :
           {absl::StrCat("2001:db8:", absl::Hex(i), "::/48"),
            absl::StrCat("10.", i, ".0.0/16")}) {
        *request.add_updates() =
            client::ToUpdate({*Prefix::Parse(prefix), first + i});
      }
    }
    *request.add_next_hops() =
        client::ToProto(NextHop{.id = first,
                                .gateway = *Address::Parse("2001:db8::1"),
                                .interface = "eth0"});
    const auto updated = client::TableClient(Channel()).UpdateRoutes(request);
    EXPECT_TRUE(updated.ok()) << updated.status();
    return updated.ok() ? updated->generation() : 0;
  }

  // Asks about the places first, first + 1, ...
  static void Fill(Burst& burst, size_t first, size_t v6, size_t v4) {
    burst.v6 = v6;
    burst.v4 = v4;
    burst.answered = false;
    for (size_t i = 0; i < burst.size(); ++i) {
      const size_t place = (first + i) % kPlaces;
      const auto address =
          i < v6 ? Address::Parse(
                       absl::StrCat("2001:db8:", absl::Hex(place), "::7"))
                 : Address::Parse(absl::StrCat("10.", place, ".1.1"));
      const std::string packed = address->ToPacked();
      std::memcpy(i < v6 ? &burst.addresses_v6[16 * i]
                         : &burst.addresses_v4[4 * (i - v6)],
                  packed.data(), packed.size());
      // Several flows have the same place for their last answers.
      burst.flow_hashes[i] = static_cast<uint32_t>(
          (place + (i < v6 ? 0 : kPlaces)) << 16 | place % 50);
    }
  }

  static void Expect(const Burst& burst, size_t first, NextHopId hops) {
    ASSERT_TRUE(burst.answered);
    for (size_t i = 0; i < burst.size(); ++i) {
      ASSERT_EQ(burst.next_hops[i],
                hops + static_cast<NextHopId>((first + i) % kPlaces));
    }
  }

  void Update(const std::vector<Route>& routes,
              const std::vector<NextHopGroup>& groups = {}) {
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_VISIBLE);
    for (const Route& route : routes) {
      *request.add_updates() = client::ToUpdate(route);
    }
    for (const NextHopGroup& group : groups) {
      *request.add_groups() = client::ToProto(group);
    }
    const auto updated = client::TableClient(Channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }

  static Burst* Await(Lookups& lookups) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      if (Burst* const burst = lookups.Finished()) return burst;
    }
    return nullptr;
  }

  std::unique_ptr<Lookups> Open(RpcOptions options) {
    return (*RpcLookups(*client::ChannelsTo(target_), options))();
  }

  static constexpr NextHopId kPlaces = 100;
};

TEST_F(RpcFib, AnswersBurstsInOrderWithSeveralInFlight) {
  const auto lookups = Open({.in_flight = 4, .patience = absl::Seconds(20)});
  ASSERT_EQ(lookups->capacity(), 4U);
  std::vector<Burst> bursts(4);
  size_t started = 0, finished = 0;
  while (finished < 500) {
    while (started < 500 && started - finished < 4) {
      Fill(bursts[started % 4], started, started % 60, 1 + started % 4);
      lookups->Start(bursts[started % 4]);
      ++started;
    }
    Burst* const burst = Await(*lookups);
    ASSERT_EQ(burst, &bursts[finished % 4]);
    Expect(*burst, finished, 1);
    ++finished;
  }
}

// What goes to the server.
class Questions : public client::LookupObserver {
 public:
  void OnSent(size_t) override { ++count; }
  void OnAnswered(size_t, absl::Duration, const absl::Status&) override {
    ++answered;
  }
  size_t count = 0, answered = 0;
};

// Where prefixes beyond /64 begin to decide, upper halves no longer do.
TEST_F(RpcFib, StaysRightWhenTheTableBeginsToHavePrefixesBeyond64) {
  Questions questions;
  const auto lookups =
      Open({.patience = absl::Seconds(20), .observer = &questions});
  Burst burst;
  const auto ask = [&] {
    Fill(burst, 0, 50, 10);
    lookups->Start(burst);
    return Await(*lookups) == &burst && burst.answered;
  };
  ASSERT_TRUE(ask());
  Expect(burst, 0, 1);
  // The first is asked about; the other divides the /64 of one that is.
  Update({{*Prefix::Parse("2001:db8:5::7/128"), 900},
          {*Prefix::Parse("2001:db8:6::8/128"), 901}});
  EXPECT_EQ(questions.count, 1U);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ask());
    EXPECT_EQ(burst.next_hops[5], 900U);
    burst.next_hops[5] = 6;
    Expect(burst, 0, 1);
  }
  // Twice at first, then at once with whole addresses.
  EXPECT_EQ(questions.count, 1U + 2 + 1 + 1);
}

TEST_F(RpcFib, KeepsTheOrderOfBurstsThatAreAskedTwice) {
  Update({{*Prefix::Parse("2001:db8:5::7/128"), 900}});
  const auto lookups = Open({.in_flight = 4,
                             .patience = absl::Seconds(20),
                             .whole_addresses = absl::ZeroDuration()});
  std::vector<Burst> bursts(4);
  size_t started = 0, finished = 0, divided = 0;
  while (finished < 500) {
    while (started < 500 && started - finished < 4) {
      Fill(bursts[started % 4], started, started % 60, 1 + started % 4);
      lookups->Start(bursts[started % 4]);
      ++started;
    }
    Burst* const burst = Await(*lookups);
    ASSERT_EQ(burst, &bursts[finished % 4]);
    for (size_t i = 0; i < burst->v6; ++i) {
      if ((finished + i) % kPlaces != 5) continue;
      ASSERT_EQ(burst->next_hops[i], 900U);
      burst->next_hops[i] = 6;
      ++divided;
    }
    Expect(*burst, finished, 1);
    ++finished;
  }
  EXPECT_GT(divided, 100U);
}

TEST_F(RpcFib, FlowsOfBothFamiliesTakeTheirMembers) {
  const NextHopGroup group = {.id = 800,
                              .members = {{801, 1}, {802, 1}, {803, 1}}};
  Update({{*Prefix::Parse("2001:db8:3::/48"), 800},
          {*Prefix::Parse("10.6.0.0/16"), 800}},
         {group});
  const auto table = GroupTable::Make({group}, nullptr);
  std::set<NextHopId> members;
  for (const bool divided : {false, true}) {
    if (divided) Update({{*Prefix::Parse("2001:db8:2::7/128"), 3}});
    const auto lookups = Open({.patience = absl::Seconds(20)});
    for (uint32_t round = 0; round < 50; ++round) {
      Burst burst;
      Fill(burst, 2, 3, 3);
      for (size_t i = 0; i < burst.size(); ++i) {
        burst.flow_hashes[i] =
            static_cast<uint32_t>(round * 6 + i) * 0x9e3779b1U;
      }
      lookups->Start(burst);
      ASSERT_EQ(Await(*lookups), &burst);
      ASSERT_TRUE(burst.answered);
      for (const size_t i : {1, 4}) {  // of places 3 and 6
        EXPECT_EQ(burst.next_hops[i], table->Choose(800, burst.flow_hashes[i]));
        members.insert(burst.next_hops[i]);
      }
      EXPECT_EQ(burst.next_hops[0], 3U);
      EXPECT_EQ(burst.next_hops[5], 8U);
    }
  }
  EXPECT_EQ(members.size(), 3U);
}

TEST_F(RpcFib, GoesOnWithTheLastAnswersAndThenWithNone) {
  const auto lookups = Open({.in_flight = 2,
                             .patience = absl::Milliseconds(200),
                             .grace = absl::Seconds(3)});
  Burst burst, other;
  const auto ask = [&](size_t first, size_t count) {
    Fill(burst, first, count, 2);
    lookups->Start(burst);
    return Await(*lookups) == &burst;
  };
  // Until it has the server's answers, not the last ones, which it takes when a
  // busy machine lets it wait for longer: the last address has none of those.
  const auto ask_server = [&](size_t first) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    bool asked = true;
    do {
      asked = ask(first, 50);
    } while (asked && (!burst.answered || burst.next_hops[49] == kUndecided) &&
             absl::Now() < deadline);
    return asked;
  };
  ASSERT_TRUE(ask_server(0));
  Expect(burst, 0, 1);
  Kill();
  // Two wait while the server dies; others come later.
  Fill(burst, 0, 50, 2);
  Fill(other, 0, 49, 2);
  lookups->Start(burst);
  lookups->Start(other);
  ASSERT_EQ(Await(*lookups), &burst);
  ASSERT_EQ(Await(*lookups), &other);
  Expect(burst, 0, 1);
  EXPECT_EQ(other.next_hops[0], 1U);
  // Of what was not asked before there is no last answer.
  ASSERT_TRUE(ask(45, 10));
  ASSERT_TRUE(burst.answered);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(burst.next_hops[i], i < 5 ? 46 + i : kUndecided);
  }
  absl::SleepFor(absl::Seconds(3));
  ASSERT_TRUE(ask(0, 50));
  EXPECT_FALSE(burst.answered);
  // It comes back with other next hops: nothing old is taken for an answer.
  StartServer(500);
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  do {
    ASSERT_TRUE(ask(0, 50));
  } while ((!burst.answered || burst.next_hops[0] == 1) &&
           absl::Now() < deadline);
  for (size_t first = 0; first < 200; ++first) {
    ASSERT_TRUE(ask_server(first));
    Expect(burst, first, 500);
  }
}

// A server that is slow, and not away, would else leave new flows without any.
TEST_F(RpcFib, ALateAnswerIsForTheNextPacketsOfItsFlow) {
  Update({{*Prefix::Parse("2001:db8:5::7/128"), 900}});
  Questions questions;
  const auto lookups = Open({.in_flight = 4,
                             .patience = absl::Milliseconds(50),
                             .grace = absl::Minutes(1),
                             .whole_addresses = absl::Minutes(1),
                             .observer = &questions});
  // Sends bursts while the server does not read, then lets it answer. Two of
  // them share a message.
  const auto ask = [&](std::vector<Burst>& bursts) {
    server_->Kill(SIGSTOP);
    ASSERT_EQ(waitpid(server_->pid(), nullptr, WUNTRACED), server_->pid());
    for (size_t i = 0; i < bursts.size(); ++i) {
      Fill(bursts[i], 3 * i, 3, 2);
      lookups->Start(bursts[i]);
    }
    for (Burst& burst : bursts) EXPECT_EQ(Await(*lookups), &burst);
    server_->Kill(SIGCONT);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (questions.answered < questions.count && absl::Now() < deadline) {
      EXPECT_EQ(lookups->Finished(), nullptr);
    }
    EXPECT_EQ(questions.answered, questions.count);
  };
  // The first answer is waited for.
  Burst first;
  Fill(first, 50, 1, 1);
  lookups->Start(first);
  ASSERT_EQ(Await(*lookups), &first);
  std::vector<Burst> bursts(3);
  ask(bursts);
  EXPECT_EQ(bursts[0].next_hops[0], kUndecided);
  // The upper half of the divided /64 was asked about first.
  ask(bursts);
  EXPECT_EQ(bursts[1].next_hops[2], kUndecided);
  ask(bursts);
  EXPECT_EQ(bursts[1].next_hops[2], 900U);
  bursts[1].next_hops[2] = 6;
  for (size_t i = 0; i < bursts.size(); ++i) Expect(bursts[i], 3 * i, 1);
}

// One of them is about a /64 that is divided: it alone is asked again.
TEST_F(RpcFib, BurstsThatComeMeanwhileShareAMessage) {
  Update({{*Prefix::Parse("2001:db8:5::7/128"), 900}});
  Questions questions;
  const auto lookups = Open(
      {.in_flight = 32, .patience = absl::Seconds(20), .observer = &questions});
  std::vector<Burst> bursts(10);
  const auto first = [](size_t i) { return i == 7 ? 0 : 6 + 2 * i; };
  for (size_t i = 0; i < bursts.size(); ++i) {
    Fill(bursts[i], first(i), i == 3 ? 0 : i + 1, i == 4 ? 0 : 5);
    lookups->Start(bursts[i]);
  }
  for (size_t i = 0; i < bursts.size(); ++i) {
    ASSERT_EQ(Await(*lookups), &bursts[i]);
    if (i == 7) {
      EXPECT_EQ(bursts[i].next_hops[5], 900U);
      bursts[i].next_hops[5] = 6;
    }
    Expect(bursts[i], first(i), 1);
  }
  EXPECT_EQ(questions.count, 3U);
}

// And go on to, also if all their answers are there at once.
TEST_F(RpcFib, HalfOfWhatMayWaitIsAMessageWhileBurstsCome) {
  Questions questions;
  const auto lookups = Open(
      {.in_flight = 8, .patience = absl::Seconds(20), .observer = &questions});
  std::vector<Burst> bursts(8);
  size_t started = 0, finished = 0;
  while (finished < 200) {
    if (started - finished < bursts.size()) {
      Fill(bursts[started % 8], started, 20, 20);
      lookups->Start(bursts[started % 8]);
      ++started;
    } else {
      absl::SleepFor(absl::Milliseconds(2));
    }
    while (Burst* const burst = lookups->Finished()) {
      ASSERT_EQ(burst, &bursts[finished % 8]);
      Expect(*burst, finished, 1);
      ++finished;
    }
  }
  EXPECT_LE(questions.count, 200 / 4 + 4);
}

// Of packets whose way changes in flight either is right. Both kinds of tables.
TEST_F(RpcFib, AnswersAreOfAGenerationInForceWhileAllRoutesChange) {
  const auto local = client::LocalTable::Follow(Channel());
  ASSERT_TRUE(local.ok()) << local.status();
  std::atomic<NextHopId> sent = 1, visible = 1;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) {
      ++sent;
      const uint64_t generation = SetPlaces(sent);
      EXPECT_TRUE((*local)
                      ->WaitFor(generation, Deadline::After(absl::Seconds(20)))
                      .ok());
      visible = sent.load();
    }
  });
  const absl::Cleanup end = [&] {
    stop = true;
    writer.join();
  };
  for (const bool rpc : {true, false}) {
    const auto lookups = rpc ? Open({.patience = absl::Seconds(20)})
                             : LocalLookups((*local)->routes())();
    std::vector<Burst> bursts(lookups->capacity());
    std::vector<NextHopId> least(bursts.size());
    std::set<NextHopId> seen;
    size_t started = 0, finished = 0;
    while (seen.size() < 50) {
      while (started - finished < bursts.size()) {
        const size_t at = started % bursts.size();
        least[at] = visible;
        Fill(bursts[at], started, 20, 20);
        lookups->Start(bursts[at]);
        ++started;
      }
      const Burst* const burst = Await(*lookups);
      ASSERT_NE(burst, nullptr);
      ASSERT_TRUE(burst->answered);
      for (size_t i = 0; i < burst->size(); ++i) {
        const auto place = static_cast<NextHopId>((finished + i) % kPlaces);
        const NextHopId first = burst->next_hops[i] - place;
        ASSERT_GE(first, least[finished % bursts.size()]) << rpc;
        ASSERT_LE(first, sent) << rpc;
        seen.insert(first);
      }
      ++finished;
    }
  }
}

TEST_F(RpcFib, RefusesToHaveNoBurstInFlightOrTooMany) {
  for (const size_t bursts : {0, 1025}) {
    EXPECT_EQ(RpcLookups(*client::ChannelsTo(target_), {.in_flight = bursts})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(RpcFib, FollowsObjects) {
  auto follow = client::NextHopDirectory::Follow(Channel());
  ASSERT_TRUE(follow.ok()) << follow.status();
  const client::NextHopDirectory& directory = **follow;
  const FollowedObjects objects(*std::move(follow));
  const auto update = [&](const v1::UpdateRoutesRequest& request) {
    const auto updated = client::TableClient(Channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
    ASSERT_TRUE(
        directory
            .WaitFor(updated->generation(), Deadline::After(absl::Seconds(20)))
            .ok());
  };
  const uint64_t version = objects.version();
  EXPECT_EQ(objects.Find(1).value_or(NextHop()).interface, "eth0");
  EXPECT_EQ(objects.Find(2), std::nullopt);
  v1::UpdateRoutesRequest routes;
  *routes.add_updates() =
      client::ToUpdate({*Prefix::Parse("2001:db8:ffff::/48"), 7});
  update(routes);
  EXPECT_EQ(objects.version(), version);
  v1::UpdateRoutesRequest next_hops;
  *next_hops.add_next_hops() =
      client::ToProto(NextHop{.id = 1, .interface = "eth1"});
  update(next_hops);
  EXPECT_GT(objects.version(), version);
  EXPECT_EQ(objects.Find(1).value_or(NextHop()).interface, "eth1");
}

}  // namespace
}  // namespace planb::router
