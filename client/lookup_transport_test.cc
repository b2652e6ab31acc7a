// Single lookups over a real stream, which breaks now and then.

#include "client/lookup_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/status.h"
#include "client/testing/fake_server.h"
#include "client/testing/many_routes.h"

namespace planb::client {
namespace {

using testing::FakeServer;
using testing::HopOf;
using testing::ManyRoutes;
using testing::V4;
using testing::V6;

Address Read(const std::string& octets) { return *Address::FromPacked(octets); }

class LookupTransportTest : public ::testing::Test {
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

  FakeServer server_{ManyRoutes()};
  const OpenChannel open_ = *ChannelsTo(server_.target());
  const CoalescingClientOptions patient_ = {
      .coalescing = {.timeout = std::chrono::minutes(5)},
      .lookup = {.give_up_after = absl::InfiniteDuration()}};
};

TEST_F(LookupTransportTest, ManyCallersShareBatches) {
  const auto lookup = MakeCoalescingLookup(open_, {});
  LookUp(*lookup, 500);
  EXPECT_EQ(server_.streams_opened(), 1U);
  // What comes while four batches are held leaves in one.
  server_.Hold();
  const uint64_t before = server_.batches_read();
  std::vector<std::future<absl::StatusOr<CallAnswer>>> futures;
  for (uint64_t i = 0; i < 100; ++i) {
    futures.push_back(lookup->Lookup(Read(V6(i))));
  }
  server_.Release();
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(futures[i].get()->next_hop, HopOf(i));
  }
  EXPECT_LT(server_.batches_read() - before, 100U);
}

TEST_F(LookupTransportTest, BrokenStreamsCostNoAnswer) {
  server_.EndStreams(20, grpc::Status(grpc::StatusCode::UNAVAILABLE, ""));
  const auto lookup = MakeCoalescingLookup(open_, patient_);
  LookUp(*lookup, 200);
  EXPECT_GT(server_.streams_opened(), 1U);
}

TEST_F(LookupTransportTest, ARestartCostsNoAnswer) {
  const auto lookup = MakeCoalescingLookup(open_, patient_);
  std::thread operation([this] {
    for (int i = 0; i < 3; ++i) {
      while (server_.batches_read() < 100U * static_cast<uint64_t>(i + 1)) {
        std::this_thread::yield();
      }
      server_.Die();
      server_.Restart();
    }
  });
  LookUp(*lookup, 1000);
  operation.join();
  EXPECT_GE(server_.streams_opened(), 2U);
}

TEST_F(LookupTransportTest, ErrorsOfTheBatchAreThoseOfItsCalls) {
  CoalescingClientOptions options = patient_;
  options.table = "none";
  const auto lookup = MakeCoalescingLookup(open_, options);
  EXPECT_EQ(ErrorReason(lookup->Lookup(Read(V6(1))).get().status()),
            "TABLE_NOT_FOUND");
}

TEST_F(LookupTransportTest, DeadlinesHoldWithoutAServer) {
  server_.Die();
  CoalescingClientOptions options = patient_;
  options.coalescing.timeout = std::chrono::milliseconds(100);
  const auto lookup = MakeCoalescingLookup(open_, options);
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(lookup->Lookup(Read(V6(1))).get().status()));
  server_.Restart();
  const auto patient = MakeCoalescingLookup(open_, patient_);
  EXPECT_EQ(patient->Lookup(Read(V6(1))).get()->next_hop, HopOf(1));
}

TEST_F(LookupTransportTest, ShutdownEndsWhatIsUnderWay) {
  server_.Hold();
  const auto lookup = MakeCoalescingLookup(open_, patient_);
  auto first = lookup->Lookup(Read(V6(1)));
  auto second = lookup->Lookup(Read(V6(2)));
  lookup->Shutdown();
  EXPECT_TRUE(absl::IsCancelled(first.get().status()));
  EXPECT_TRUE(absl::IsCancelled(second.get().status()));
}

// Used without a CoalescingLookup: every Done is called, also after the end.
TEST_F(LookupTransportTest, AHandleThatGaveUpFailsEveryBatch) {
  server_.Die();
  LookupTransport transport(open_, {.give_up_after = absl::ZeroDuration()}, "");
  for (int i = 0; i < 20; ++i) {
    std::promise<absl::Status> end;
    transport.Start(V6(1), "", [&end](const BatchTransport::Outcome& outcome) {
      end.set_value(outcome.status);
    });
    EXPECT_TRUE(absl::IsUnavailable(end.get_future().get()));
  }
  transport.Shutdown();
}

}  // namespace
}  // namespace planb::client
