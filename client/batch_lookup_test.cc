// SPDX-License-Identifier: Apache-2.0

// A handle keeps the order and the bounds of batches, and a batch can end
// before the server answers it.

#include "client/batch_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "client/call.h"
#include "client/coalescing_lookup.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/table/group_table.h"

namespace planb::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HopOf;
using ::testing::IsEmpty;
using testing::MisbehavingProxy;
using testing::SharedServer;
using testing::V4;
using testing::V6;

class BatchLookupTest : public ::testing::Test {
 protected:
  MisbehavingProxy proxy_{SharedServer()};
  const OpenChannel open_ = *ChannelsTo(proxy_.target());
  BatchResult result_;
};

TEST(ChannelsTo, RefusesMalformedTargets) {
  EXPECT_EQ(ChannelsTo("nonsense").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BatchLookupTest, AnswersBothFamiliesWithPrefixLengths) {
  BatchLookup lookup(open_, {});
  const std::string v6 = V6(3) + std::string(16, '\0') + V6(7);
  const std::string v4 = V4(9) + std::string(4, '\xff');
  ASSERT_EQ(*lookup.Send({.addresses_v6 = v6,
                          .addresses_v4 = v4,
                          .want_prefix_lengths = true}),
            1U);
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_TRUE(result_.status.ok());
  EXPECT_EQ(result_.request_id, 1U);
  EXPECT_EQ(result_.generation, 1U);
  EXPECT_THAT(result_.next_hops, ElementsAre(4, kNoRoute, 8, 10, kNoRoute));
  EXPECT_THAT(result_.prefix_lengths,
              ElementsAre(48, kNoPrefixLength, 48, 24, kNoPrefixLength));
}

class BatchLookupGroups : public testing::RealServerFixture {};

TEST_F(BatchLookupGroups, FlowsTakeMembers) {
  const NextHopGroup group = {
      .id = 99, .members = {{1, 1}, {2, 1}, {3, 5}, {4, 1}}, .label = ""};
  v1::UpdateRoutesRequest update;
  *update.add_groups() = ToProto(group);
  *update.add_updates() = ToUpdate({*Prefix::Parse("::/0"), 99});
  *update.add_updates() = ToUpdate({*Prefix::Parse("0.0.0.0/0"), 5});
  ASSERT_TRUE(TableClient(Channel()).UpdateRoutes(update).ok());
  const auto groups = GroupTable::Make({group}, nullptr);
  const auto member = [&](uint32_t hash) { return groups->Choose(99, hash); };
  ASSERT_NE(member(7), member(0x01020304));
  BatchLookup lookup(Channel(), {});
  const std::string v6 = V6(3) + V6(4);
  const std::string v4 = V4(9);
  std::vector<uint32_t> hashes = {7, 0x01020304, 9, 11};
  const auto send = [&] {
    return lookup.Send({.addresses_v6 = v6,
                        .addresses_v4 = v4,
                        .upper_halves_v6 = absl::string_view(v6).substr(0, 8),
                        .flow_hashes = hashes});
  };
  ASSERT_TRUE(send().ok());
  hashes.assign(4, 0);  // the buffers of a batch may be reused after Send
  ASSERT_TRUE(send().ok());
  BatchResult result;
  ASSERT_TRUE(*lookup.Receive(result));
  EXPECT_THAT(result.next_hops,
              ElementsAre(member(7), member(0x01020304), 5, member(11)));
  ASSERT_TRUE(*lookup.Receive(result));
  EXPECT_THAT(result.next_hops,
              ElementsAre(member(0), member(0), 5, member(0)));
  hashes.pop_back();
  EXPECT_EQ(send().status().code(), absl::StatusCode::kInvalidArgument);
}

// One thread that sleeps while it waits, then one that spins.
TEST_F(BatchLookupTest, OneThreadManyInFlight) {
  constexpr uint64_t kBatches = 2000;
  constexpr size_t kDepth = 16;
  for (const bool spin : {false, true}) {
    const uint64_t streams = proxy_.calls();
    BatchLookup lookup(open_, {.max_in_flight = kDepth, .spin = spin});
    uint64_t sent = 0;
    for (uint64_t received = 0; received < kBatches;) {
      if (sent < kBatches && lookup.in_flight() < kDepth) {
        ASSERT_EQ(*lookup.Send({.addresses_v6 = V6(sent)}), sent + 1);
        ++sent;
        continue;
      }
      ASSERT_TRUE(*lookup.Receive(result_));
      ++received;
      ASSERT_EQ(result_.request_id, received);
      ASSERT_EQ(result_.generation, 1U);
      ASSERT_THAT(result_.next_hops, ElementsAre(HopOf(received - 1)));
    }
    lookup.CloseSend();
    EXPECT_FALSE(*lookup.Receive(result_));
    EXPECT_FALSE(*lookup.Receive(result_));  // also the second time
    EXPECT_EQ(lookup.Send({}).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(lookup.reconnects(), 0U);
    EXPECT_EQ(proxy_.calls(), streams + 1);
  }
}

TEST_F(BatchLookupTest, ReadyDoesNotWait) {
  for (const bool spin : {false, true}) {
    proxy_.Hold();
    BatchLookup lookup(open_, {.spin = spin});
    ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(3)}).ok());
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(lookup.Ready());
    proxy_.Release();
    while (!lookup.Ready()) continue;
    EXPECT_TRUE(lookup.Ready());  // until the result is received
    ASSERT_TRUE(*lookup.Receive(result_));
    EXPECT_THAT(result_.next_hops, ElementsAre(4));
    EXPECT_FALSE(lookup.Ready());
    lookup.Cancel();
    EXPECT_TRUE(lookup.Ready());  // Receive reports the end
  }
}

TEST_F(BatchLookupTest, SendBlocksWhileFull) {
  proxy_.Hold();
  BatchLookup lookup(open_, {.max_in_flight = 3});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  }
  absl::Notification sent;
  std::thread sender([&] {
    EXPECT_TRUE(lookup.Send({.addresses_v6 = V6(2)}).ok());
    sent.Notify();
  });
  EXPECT_FALSE(sent.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  proxy_.Release();
  // Only Receive makes room.
  while (!lookup.Ready()) continue;
  EXPECT_FALSE(sent.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  EXPECT_EQ(lookup.in_flight(), 3U);
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_TRUE(sent.WaitForNotificationWithTimeout(absl::Seconds(60)));
  sender.join();
}

TEST_F(BatchLookupTest, SendersAndReceiversMayBeMany) {
  constexpr uint64_t kEach = 500;
  constexpr uint64_t kSenders = 3;
  BatchLookup lookup(open_, {.max_in_flight = 4});
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kSenders; ++i) {
    threads.emplace_back([&lookup] {
      for (uint64_t j = 0; j < kEach; ++j) {
        EXPECT_TRUE(lookup.Send({.addresses_v4 = V4(j)}).ok());
      }
    });
  }
  std::atomic<uint64_t> received = 0;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&lookup, &received] {
      BatchResult result;
      while (*lookup.Receive(result)) {
        EXPECT_EQ(result.next_hops.size(), 1U);
        ++received;
      }
    });
  }
  for (uint64_t i = 0; i < kSenders; ++i) threads[i].join();
  lookup.CloseSend();
  for (size_t i = kSenders; i < threads.size(); ++i) threads[i].join();
  EXPECT_EQ(received, kEach * kSenders);
}

TEST_F(BatchLookupTest, BigBatchesIntoTheCallersBuffers) {
  // More than any flow-control window, in both directions: a thread that did
  // not read while it writes would block for ever.
  constexpr uint64_t kAddresses = 20'000;
  constexpr size_t kDepth = 8;
  const auto bytes = std::make_shared<std::string>();
  for (uint64_t i = 0; i < kAddresses; ++i) *bytes += V6(i);
  std::vector<std::vector<NextHopId>> answers(
      kDepth, std::vector<NextHopId>(kAddresses));
  BatchLookup lookup(open_, {.max_in_flight = kDepth});
  for (std::vector<NextHopId>& answer : answers) {
    ASSERT_TRUE(lookup
                    .Send({.addresses_v6 = *bytes,
                           .next_hops = absl::MakeSpan(answer),
                           .keep_alive = bytes})
                    .ok());
  }
  for (const std::vector<NextHopId>& answer : answers) {
    ASSERT_TRUE(*lookup.Receive(result_));
    EXPECT_THAT(result_.next_hops, IsEmpty());
    for (uint64_t j = 0; j < kAddresses; ++j) ASSERT_EQ(answer[j], HopOf(j));
  }
}

TEST_F(BatchLookupTest, UpperHalvesThatDoNotDecide) {
  BatchLookup lookup(open_, {});
  const std::string halves =
      V6(2).substr(0, 8) + V6(3).substr(0, 8) + std::string(8, '\0');
  ASSERT_TRUE(
      lookup.Send({.addresses_v4 = V4(5), .upper_halves_v6 = halves}).ok());
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_THAT(result_.next_hops,
              ElementsAre(HopOf(5), HopOf(2), kUndecided, kNoRoute));
}

TEST_F(BatchLookupTest, ErrorsOfOneBatchConcernItAlone) {
  BatchLookup lookup(open_, {.max_in_flight = 1});
  const std::string too_long(17 << 20, '\0');
  const std::string good = V6(1);
  const std::string odd = good + "x";
  EXPECT_EQ(lookup.Send({.addresses_v6 = too_long}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(lookup.in_flight(), 0U);
  uint64_t id = 0;
  for (const auto& [batch, reason] : std::vector<std::pair<Batch, std::string>>{
           {{.addresses_v6 = odd}, "ADDRESSES_LENGTH"},
           {{.addresses_v6 = good, .table = "none"}, "TABLE_NOT_FOUND"},
           {{.addresses_v6 = good, .min_generation = 2},
            "GENERATION_NOT_VISIBLE"}}) {
    EXPECT_EQ(*lookup.Send(batch), ++id);
    ASSERT_TRUE(*lookup.Receive(result_));
    EXPECT_EQ(ErrorReason(result_.status), reason);
    EXPECT_EQ(result_.generation, reason == "TABLE_NOT_FOUND" ? 0U : 1U);
    EXPECT_THAT(result_.next_hops, IsEmpty());
    EXPECT_EQ(*lookup.Send({.addresses_v6 = good}), ++id);
    ASSERT_TRUE(*lookup.Receive(result_));
    EXPECT_TRUE(result_.status.ok());
    EXPECT_THAT(result_.next_hops, ElementsAre(2));
  }
}

TEST_F(BatchLookupTest, ABatchEndsAtItsDeadlineAndTheOthersGoOn) {
  proxy_.Hold();
  BatchLookup lookup(open_, {});
  std::vector<NextHopId> late(1, 99);
  ASSERT_TRUE(
      lookup
          .Send({.addresses_v6 = V6(1), .next_hops = absl::MakeSpan(late)},
                absl::Now() + absl::Milliseconds(50))
          .ok());
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(2)}).ok());
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_EQ(result_.request_id, 1U);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result_.status)) << result_.status;
  proxy_.Release();
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_EQ(result_.request_id, 2U);
  EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(2)));
  // The late answer was dropped.
  EXPECT_THAT(late, Each(99));
  EXPECT_EQ(proxy_.calls(), 1U);
}

TEST_F(BatchLookupTest, ReconnectsWhenTooManyRepliesAreOwed) {
  proxy_.Hold();
  BatchLookup lookup(open_, {.max_in_flight = 2});
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(*lookup.Send({.addresses_v6 = V6(1)},
                           absl::Now() + absl::Milliseconds(100)),
              i);
    ASSERT_TRUE(*lookup.Receive(result_));
    ASSERT_TRUE(absl::IsDeadlineExceeded(result_.status)) << result_.status;
  }
  proxy_.Release();
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(4)}).ok());
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(4)));
  EXPECT_GE(lookup.reconnects(), 1U);
}

TEST_F(BatchLookupTest, OneBatchCanBeCancelled) {
  proxy_.Hold();
  BatchLookup lookup(open_, {});
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(i)}).ok());
  }
  EXPECT_TRUE(lookup.CancelBatch(2));
  std::thread canceller([&lookup] {
    absl::SleepFor(absl::Milliseconds(100));  // when Receive waits
    EXPECT_TRUE(lookup.CancelBatch(1));
  });
  for (uint64_t i = 1; i <= 2; ++i) {
    ASSERT_TRUE(*lookup.Receive(result_));
    EXPECT_EQ(result_.request_id, i);
    EXPECT_TRUE(absl::IsCancelled(result_.status)) << result_.status;
  }
  canceller.join();
  EXPECT_FALSE(lookup.CancelBatch(1));
  EXPECT_FALSE(lookup.CancelBatch(4));
  proxy_.Release();
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(3)));
}

TEST_F(BatchLookupTest, CancelEndsEveryCall) {
  proxy_.Hold();
  BatchLookup lookup(open_, {.max_in_flight = 1});
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  std::thread sender(
      [&lookup] { EXPECT_TRUE(absl::IsCancelled(lookup.Send({}).status())); });
  std::thread canceller([&lookup] {
    absl::SleepFor(absl::Milliseconds(100));
    lookup.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(lookup.Receive(result_).status()));
  sender.join();
  canceller.join();
}

TEST_F(BatchLookupTest, DestructionCancels) {
  proxy_.Hold();
  {
    BatchLookup untouched(open_, {});
    BatchLookup waiting(open_, {});
    ASSERT_TRUE(waiting.Send({.addresses_v6 = V6(1)}).ok());
  }
  proxy_.Die();  // returns only after the server's calls have ended
}

TEST_F(BatchLookupTest, CancelEndsASendThatWaitsForRoom) {
  for (int round = 0; round < 20; ++round) {
    BatchLookup lookup(open_, {.max_in_flight = 1});
    ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
    // No thread receives.
    std::thread sender([&lookup] {
      EXPECT_TRUE(
          absl::IsCancelled(lookup.Send({.addresses_v6 = V6(1)}).status()));
    });
    std::this_thread::yield();
    lookup.Cancel();
    sender.join();
  }
}

// A handle on one channel ends when its stream ends.
class OneStreamTest : public BatchLookupTest {};

TEST_F(OneStreamTest, AServerThatDiesEndsEveryCall) {
  proxy_.Hold();
  BatchLookup lookup(proxy_.Channel(), {.max_in_flight = 2});
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  std::thread sender(
      [&lookup] { EXPECT_FALSE(lookup.Send({.addresses_v6 = V6(1)}).ok()); });
  std::thread killer([this] {
    while (proxy_.requests() == 0) std::this_thread::yield();
    proxy_.Die();
  });
  EXPECT_FALSE(lookup.Receive(result_).ok());
  sender.join();
  killer.join();
  EXPECT_FALSE(lookup.Receive(result_).ok());
}

TEST_F(OneStreamTest, OnlyASilentServerIsStalled) {
  constexpr absl::Duration kStall = absl::Milliseconds(300);
  std::unique_ptr<BatchLookup> lookup;
  // A caller that receives late, after the reply came, is no stall. An attempt
  // in which the machine holds up the reply for that long proves nothing.
  EXPECT_TRUE(SucceedsInThree([&] {
    lookup = std::make_unique<BatchLookup>(
        proxy_.Channel(), BatchLookupOptions{.stall_timeout = kStall});
    if (!lookup->Send({.addresses_v6 = V6(1)}).ok() ||
        !lookup->Receive(result_).ok() ||
        !lookup->Send({.addresses_v6 = V6(1)}).ok()) {
      return false;
    }
    absl::SleepFor(kStall + absl::Milliseconds(200));
    return lookup->Receive(result_).ok();
  }));
  proxy_.Hold();
  ASSERT_TRUE(lookup->Send({.addresses_v6 = V6(1)}).ok());
  const absl::Status status = lookup->Receive(result_).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no sign"));
}

TEST_F(OneStreamTest, FailsQuicklyWithoutAServer) {
  BatchLookup lookup(*MakeChannel("unix:///nonexistent/planb.sock"), {});
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  EXPECT_TRUE(absl::IsUnavailable(lookup.Receive(result_).status()));
}

// Single lookups over a real stream, which breaks now and then.

Address Read(const std::string& bytes) { return *Address::FromPacked(bytes); }

class CoalescingServerTest : public ::testing::Test {
 protected:
  // Makes `calls` lookups from each of 6 threads, one at a time each.
  void LookUp(CoalescingLookup& lookup, uint64_t calls) {
    std::vector<std::thread> callers;
    for (uint64_t thread = 0; thread < 6; ++thread) {
      callers.emplace_back([&lookup, thread, calls] {
        for (uint64_t i = thread; i < thread + calls; ++i) {
          const auto answer =
              lookup.Lookup(Read(i % 2 == 0 ? V6(i) : V4(i))).get();
          ASSERT_TRUE(answer.ok()) << answer.status();
          ASSERT_EQ(answer->next_hop, HopOf(i));
          ASSERT_EQ(answer->generation, 1U);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }

  MisbehavingProxy proxy_{SharedServer()};
  const OpenChannel open_ = *ChannelsTo(proxy_.target());
  const CoalescingClientOptions patient_ = {
      .coalescing = {.timeout = std::chrono::minutes(5)},
      .lookup = {.give_up_after = absl::InfiniteDuration()}};
};

TEST_F(CoalescingServerTest, ManyCallersShareBatches) {
  const auto lookup = MakeCoalescingLookup(open_, patient_);
  LookUp(*lookup, 500);
  EXPECT_EQ(proxy_.calls(), 1U);
  // Calls that come while four batches are held share one batch.
  proxy_.Hold();
  const uint64_t before = proxy_.requests();
  std::vector<std::future<absl::StatusOr<CallAnswer>>> futures;
  for (uint64_t i = 0; i < 100; ++i) {
    futures.push_back(lookup->Lookup(Read(V6(i))));
  }
  proxy_.Release();
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(futures[i].get()->next_hop, HopOf(i));
  }
  EXPECT_LT(proxy_.requests() - before, 100U);
}

TEST_F(CoalescingServerTest, ErrorsOfTheBatchAreThoseOfItsCalls) {
  CoalescingClientOptions options = patient_;
  options.table = "none";
  const auto lookup = MakeCoalescingLookup(open_, options);
  EXPECT_EQ(ErrorReason(lookup->Lookup(Read(V6(1))).get().status()),
            "TABLE_NOT_FOUND");
}

TEST_F(CoalescingServerTest, DeadlinesHoldWithoutAServer) {
  proxy_.Die();
  CoalescingClientOptions options = patient_;
  options.coalescing.timeout = std::chrono::milliseconds(100);
  const auto lookup = MakeCoalescingLookup(open_, options);
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(lookup->Lookup(Read(V6(1))).get().status()));
  proxy_.Restart();
  const auto patient = MakeCoalescingLookup(open_, patient_);
  EXPECT_EQ(patient->Lookup(Read(V6(1))).get()->next_hop, HopOf(1));
}

TEST_F(CoalescingServerTest, ShutdownEndsCallsInFlight) {
  proxy_.Hold();
  const auto lookup = MakeCoalescingLookup(open_, patient_);
  auto first = lookup->Lookup(Read(V6(1)));
  auto second = lookup->Lookup(Read(V6(2)));
  lookup->Shutdown();
  EXPECT_TRUE(absl::IsCancelled(first.get().status()));
  EXPECT_TRUE(absl::IsCancelled(second.get().status()));
}

TEST_F(CoalescingServerTest, AHandleThatGaveUpFailsEveryBatch) {
  proxy_.Die();
  CoalescingClientOptions options = patient_;
  options.lookup.give_up_after = absl::ZeroDuration();
  const auto lookup = MakeCoalescingLookup(open_, options);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(
        absl::IsUnavailable(lookup->Lookup(Read(V6(i))).get().status()));
  }
}

}  // namespace
}  // namespace planb::client
