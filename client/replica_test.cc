// A replica that knows only what a watch of the real server says, under a storm
// of batches on several streams, ends as the server's own list says.

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "client/convert.h"
#include "client/route_watcher.h"
#include "client/status.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "client/update_stream.h"

namespace planb::client {
namespace {

constexpr int kStreams = 2;
constexpr int kBatches = 300;
constexpr uint32_t kPrefixes = 2000;

v1::StreamUpdatesRequest RandomBatch(absl::BitGen& random) {
  std::map<uint32_t, NextHopId> changes;
  const int count = absl::Uniform(random, 1, 50);
  for (int i = 0; i < count; ++i) {
    changes[absl::Uniform(random, 0U, kPrefixes)] =
        absl::Uniform(random, 0U, 4U);
  }
  v1::StreamUpdatesRequest batch;
  for (const auto& [prefix, next_hop] : changes) {
    v1::RouteUpdate* update = batch.add_updates();
    update->set_op(next_hop == kNoRoute ? v1::RouteUpdate::OP_DELETE
                                        : v1::RouteUpdate::OP_UPSERT);
    *update->mutable_prefix() =
        ToProto(*Prefix::Create(Address::V4(prefix << 8), 24));
    update->set_next_hop_id(next_hop);
  }
  return batch;
}

class ReplicaTest : public testing::RealServerFixture {
 protected:
  // Sends batches at random; none may be refused.
  void Storm() const {
    absl::BitGen random;
    UpdateStream stream(Channel(), {.ack = v1::ACK_ACCEPTED},
                        [](const UpdateReply& reply) {
                          EXPECT_TRUE(reply.status.ok()) << reply.status;
                        });
    for (int i = 0; i < kBatches; ++i) {
      const auto sent = stream.Send(RandomBatch(random));
      ASSERT_TRUE(sent.ok()) << sent.status();
    }
    const absl::Status end = stream.Finish();
    EXPECT_TRUE(end.ok()) << end;
  }
};

TEST_F(ReplicaTest, EndsAsTheServer) {
  std::vector<std::thread> writers;
  for (int i = 0; i < kStreams; ++i) {
    writers.emplace_back([this] { Storm(); });
  }
  std::map<Prefix, NextHopId> replica;
  uint64_t generation = 0;
  std::string digest;
  RouteWatcher watcher(Channel(), {});
  const auto follow = [&](uint64_t until) {
    while (generation < until) {
      const auto changes = watcher.Next();
      ASSERT_TRUE(changes.ok()) << changes.status();
      if (changes->bookmark) continue;
      ASSERT_EQ(changes->generation, generation + 1);
      generation = changes->generation;
      digest = changes->digest;
      for (const Route& route : changes->routes) {
        if (route.next_hop == kNoRoute) {
          ASSERT_EQ(replica.erase(route.prefix), 1U);
        } else {
          replica[route.prefix] = route.next_hop;
        }
      }
    }
  };
  follow(10);
  for (std::thread& writer : writers) writer.join();
  const TableClient client(Channel());
  const auto table = client.GetTable("");
  ASSERT_TRUE(table.ok()) << table.status();
  follow(table->accepted_generation());
  EXPECT_EQ(digest, table->digest());
  std::map<Prefix, NextHopId> listed;
  const auto shown = client.ListRoutes({}, [&](const Route& route) {
    listed[route.prefix] = route.next_hop;
    return absl::OkStatus();
  });
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(*shown, generation);
  EXPECT_EQ(replica, listed);
  EXPECT_GT(listed.size(), kPrefixes / 2);
  EXPECT_EQ(watcher.reconnects(), 0U);
}

TEST_F(ReplicaTest, AServerThatForgotIsNoticed) {
  const auto announce = [this](uint32_t count) {
    v1::UpdateRoutesRequest request;
    for (uint32_t i = 0; i < count; ++i) {
      v1::RouteUpdate* update = request.add_updates();
      update->set_op(v1::RouteUpdate::OP_UPSERT);
      *update->mutable_prefix() =
          ToProto(*Prefix::Create(Address::V4(i << 8), 24));
      update->set_next_hop_id(1);
    }
    const auto updated = TableClient(Channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  };
  announce(2);
  RouteWatcher watcher(Channel(), {});
  while (watcher.last_generation() < 1) ASSERT_TRUE(watcher.Next().ok());
  ASSERT_NO_FATAL_FAILURE(Kill());
  ASSERT_NO_FATAL_FAILURE(Start("none"));
  announce(3);  // generation 1 again, of other routes
  absl::StatusOr<GenerationChanges> next = watcher.Next();
  while (next.ok() && next->bookmark) next = watcher.Next();
  EXPECT_TRUE(absl::IsOutOfRange(next.status())) << next.status();
  EXPECT_EQ(ErrorReason(next.status()), "HISTORY_DIVERGED");
}

}  // namespace
}  // namespace planb::client
