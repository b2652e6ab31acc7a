// SPDX-License-Identifier: Apache-2.0

// Replicas that follow a table through WatchRoutes alone, while several writers
// change it in every way there is, end up with the same table.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/control_calls.h"
#include "server/testing/nested_routes.h"
#include "server/testing/replica.h"

namespace planb::server {
namespace {

constexpr uint32_t kFirstGroup = 100;

class ControlReplica : public testing::Test {
 protected:
  // Changes at random; what is refused (a next hop in use) is part of it.
  void Write(uint64_t seed, int changes) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) {
      return static_cast<uint32_t>(random() % n);
    };
    for (int i = 0; i < changes; ++i) {
      grpc::Status status;
      switch (below(8)) {
        case 0: {
          v1::ReplaceRoutesRequest request;
          request.set_ack(v1::ACK_ACCEPTED);
          request.set_commit(true);
          const uint64_t of = 1 + below(4);
          for (const Prefix& prefix : prefixes_) {
            if (below(of) != 0) continue;
            v1::Route& route = *request.add_routes();
            SetPrefix(prefix, *route.mutable_prefix());
            route.set_next_hop_id(1 + below(20));
          }
          status = Call(running_, &Stub::ReplaceRoutes, {request}).status;
          break;
        }
        case 1:
        case 2: {
          v1::UpdateNextHopsRequest request;
          request.set_ack(v1::ACK_ACCEPTED);
          const uint32_t id = 1 + below(20);
          if (below(2) == 0) {
            v1::NextHop& hop = *request.add_upserts();
            hop.set_id(id);
            hop.set_label(std::to_string(below(3)));
          } else {
            request.add_delete_ids(id);
          }
          const uint32_t group = kFirstGroup + below(10);
          if (below(2) == 0) {
            AddGroup(group, {{1 + below(10), 1}, {11 + below(10), 2}},
                     *request.mutable_group_upserts());
          } else {
            request.add_delete_group_ids(group);
          }
          status = Call(running_, &Stub::UpdateNextHops, request).status;
          break;
        }
        default: {
          v1::UpdateRoutesRequest request;
          request.set_ack(below(4) == 0 ? v1::ACK_VISIBLE : v1::ACK_ACCEPTED);
          std::set<Prefix> once;
          for (uint32_t n = below(60); n > 0; --n) {
            once.insert(prefixes_[below(prefixes_.size())]);
          }
          for (const Prefix& prefix : once) {
            AddUpdate("", below(3) == 0 ? 0 : 1 + below(kFirstGroup + 10),
                      request);
            SetPrefix(prefix,
                      *request.mutable_updates()->rbegin()->mutable_prefix());
          }
          status = Call(running_, &Stub::UpdateRoutes, request).status;
        }
      }
      ASSERT_TRUE(status.ok() || status.error_code() == Code::NOT_FOUND ||
                  status.error_code() == Code::FAILED_PRECONDITION)
          << status.error_code() << " " << status.error_message();
    }
  }

  // Several at once, and one generation that takes several messages.
  void Storm() {
    std::vector<std::thread> writers;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      writers.emplace_back([this, seed] { Write(seed, 150); });
    }
    v1::UpdateRoutesRequest large;
    for (const Route& route : NestedRoutes(Family::kIpv6, 7000, 16, 9)) {
      AddUpdate("", route.next_hop, large);
      SetPrefix(route.prefix,
                *large.mutable_updates()->rbegin()->mutable_prefix());
    }
    EXPECT_TRUE(Call(running_, &Stub::UpdateRoutes, large).status.ok());
    for (std::thread& writer : writers) writer.join();
    last_ = GetTable(running_).accepted_generation();
  }

  // Until it has the last generation, reconnecting after `messages` each time
  // (0: never).
  void Follow(Replica& replica, int messages) {
    while (last_ == 0 || replica.generation() < last_) {
      CallContext context;
      const auto watch =
          running_.table().WatchRoutes(&context, replica.Resume());
      v1::WatchRoutesResponse message;
      for (int n = 0; messages == 0 || n < messages; ++n) {
        if (last_ > 0 && replica.generation() >= last_) break;
        if (!watch->Read(&message)) {
          const auto status = watch->Finish();
          FAIL() << status.error_code() << " " << status.error_message();
        }
        replica.Apply(message);
      }
      context.TryCancel();
    }
  }

  static ServerOptions Options() {
    ServerOptions options;
    options.tables.table.history_bytes = 256 << 20;  // nobody is too slow
    options.control.bookmark_interval = absl::Milliseconds(20);
    return options;
  }

  void ExpectSameRoutes(const Replica& replica) {
    EXPECT_EQ(replica.generation(), last_);
    EXPECT_EQ(replica.digest(), GetTable(running_).digest());
    EXPECT_EQ(replica.routes(), ListAll(running_));
  }

  RunningServer running_{Options()};
  std::vector<Prefix> prefixes_ = [] {
    std::vector<Prefix> prefixes;
    for (Family family : {Family::kIpv4, Family::kIpv6}) {
      for (const Route& r : NestedRoutes(family, 150, 16, 1)) {
        prefixes.push_back(r.prefix);
      }
    }
    return prefixes;
  }();
  std::atomic<uint64_t> last_{0};  // generation, when the storm is over
};

TEST_F(ControlReplica, FromNothing) {
  Replica replica;
  std::thread storm([this] { Storm(); });
  Follow(replica, 0);
  storm.join();
  ExpectSameRoutes(replica);
  EXPECT_GT(replica.splits(), 2);
  EXPECT_GE(replica.bookmarks(), 1);
  Replica::Objects next_hops, groups;
  for (const auto& chunk : Call(running_, &Stub::ListNextHops, {}).all) {
    for (const v1::NextHop& hop : chunk.next_hops()) {
      next_hops[hop.id()] = hop.SerializeAsString();
    }
    for (const v1::NextHopGroup& group : chunk.groups()) {
      groups[group.id()] = group.SerializeAsString();
    }
  }
  EXPECT_EQ(replica.next_hops(), next_hops);
  EXPECT_EQ(replica.groups(), groups);
  EXPECT_FALSE(next_hops.empty());
  EXPECT_FALSE(groups.empty());
}

TEST_F(ControlReplica, FromNothingReconnectingAllTheTime) {
  Replica replica;
  std::thread storm([this] { Storm(); });
  Follow(replica, 7);
  storm.join();
  ExpectSameRoutes(replica);
  EXPECT_GT(replica.bookmarks(), 10);  // one at each start
}

TEST_F(ControlReplica, FromAListInTheMiddle) {
  std::thread storm([this] { Storm(); });
  for (int i = 0; i < 3; ++i) {
    // Started while the table changes, each from another generation.
    std::vector<Route> routes;
    const auto list = Call(running_, &Stub::ListRoutes, {});
    for (const v1::ListRoutesResponse& chunk : list.all) {
      for (const v1::Route& route : chunk.routes()) {
        routes.push_back({ToPrefix(route.prefix()), route.next_hop_id()});
      }
    }
    ASSERT_FALSE(list.all.empty());
    Replica replica(list.all[0].generation(), routes);
    if (i == 2) {
      Follow(replica, 0);
      storm.join();
      ExpectSameRoutes(replica);
      return;
    }
    CallContext context;
    const auto watch = running_.table().WatchRoutes(&context, replica.Resume());
    v1::WatchRoutesResponse message;
    for (int n = 0; n < 5 && watch->Read(&message); ++n) replica.Apply(message);
    EXPECT_GE(replica.messages(), 5);
    context.TryCancel();
  }
}

}  // namespace
}  // namespace planb::server
