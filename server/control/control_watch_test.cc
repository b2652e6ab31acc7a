// SPDX-License-Identifier: Apache-2.0

// WatchRoutes through a real channel: bookmarks, resuming, generations that
// need several messages, watchers that fall behind, tables that are deleted.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"
#include "server/testing/nested_routes.h"
#include "server/testing/replica.h"

namespace planb::server {
namespace {

// The client's end. Not thread-safe.
class Watch {
 public:
  Watch(Stub& stub, uint64_t start, const std::string& table = "",
        bool resync = false) {
    v1::WatchRoutesRequest request;
    request.set_start_generation(start);
    request.set_table(table);
    request.set_resync(resync);
    reader_ = stub.WatchRoutes(&context_, request);
  }
  ~Watch() {
    context_.TryCancel();
    v1::WatchRoutesResponse rest;
    while (reader_ != nullptr && reader_->Read(&rest)) continue;
  }

  bool Read(v1::WatchRoutesResponse* message) { return reader_->Read(message); }
  v1::WatchRoutesResponse Read() {
    v1::WatchRoutesResponse message;
    EXPECT_TRUE(reader_->Read(&message));
    return message;
  }
  // Reads what is left, which must be bookmarks.
  grpc::Status Finish() {
    v1::WatchRoutesResponse message;
    while (reader_->Read(&message)) {
      EXPECT_TRUE(message.updates().empty()) << message.ShortDebugString();
    }
    return reader_->Finish();
  }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchRoutesResponse>> reader_;
};

TEST(ControlWatch, SendsBookmarksFirstAndPeriodically) {
  ServerOptions options;
  options.control.bookmark_interval = absl::Milliseconds(10);
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  running.Announce({{"::/0", 2}});
  Watch watch(running.table(), 1);
  v1::WatchRoutesResponse message = watch.Read();
  EXPECT_EQ(message.generation(), 1U);
  EXPECT_TRUE(message.updates().empty());
  EXPECT_TRUE(message.generation_complete());
  message = watch.Read();
  EXPECT_EQ(message.generation(), 2U);
  ASSERT_EQ(message.updates_size(), 1);
  EXPECT_EQ(message.updates(0).next_hop_id(), 2U);
  for (int i = 0; i < 3; ++i) {
    message = watch.Read();
    EXPECT_TRUE(message.updates().empty());
    EXPECT_EQ(message.generation(), 2U);
    EXPECT_EQ(message.digest(), GetTable(running).digest());
  }
}

TEST(ControlWatch, SaysSinceWhenTheTableIsComplete) {
  ServerOptions options;
  options.control.bookmark_interval = absl::Milliseconds(10);
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  Watch watch(running.table(), 1);
  v1::WatchRoutesResponse message = watch.Read();
  EXPECT_TRUE(message.has_complete_since_unix_nanos());
  EXPECT_EQ(message.complete_since_unix_nanos(), 0U);
  v1::UpdateRoutesRequest request;
  request.set_complete(true);
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
  const uint64_t since = GetTable(running).complete_since_unix_nanos();
  ASSERT_GT(since, 0U);
  while (message.generation() < 2) message = watch.Read();
  for (int i = 0; i < 2; ++i, message = watch.Read()) {
    EXPECT_EQ(message.generation(), 2U);
    EXPECT_TRUE(message.generation_complete());
    EXPECT_EQ(message.complete_since_unix_nanos(), since);
  }
  // A later generation follows, which says it.
  EXPECT_FALSE(
      Watch(running.table(), 1).Read().has_complete_since_unix_nanos());
  // A generation with changes, and a whole table.
  running.Announce({{"::/0", 2}});
  while (message.updates().empty()) message = watch.Read();
  EXPECT_EQ(message.complete_since_unix_nanos(), since);
  message = Watch(running.table(), 9, "", /*resync=*/true).Read();
  EXPECT_TRUE(message.reset());
  EXPECT_EQ(message.complete_since_unix_nanos(), since);
}

// A generation without routes is sent too.
TEST(ControlWatch, SendsNextHopsAndGroups) {
  RunningServer running;
  Watch watch(running.table(), 0);
  EXPECT_EQ(watch.Read().generation(), 0U);
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(1);
  AddGroup(9, {{1, 7}}, *request.mutable_group_upserts());
  ASSERT_TRUE(Call(running, &Stub::UpdateNextHops, request).status.ok());
  v1::WatchRoutesResponse message = watch.Read();
  EXPECT_EQ(message.generation(), 1U);
  ASSERT_EQ(message.next_hops_size(), 1);
  EXPECT_EQ(message.next_hops(0).id(), 1U);
  ASSERT_EQ(message.groups_size(), 1);
  EXPECT_EQ(message.groups(0).members(0).weight(), 7U);
  EXPECT_NE(message.digest(), std::string(16, '\0'));
  EXPECT_EQ(message.digest(), GetTable(running).digest());
  request.Clear();
  request.add_delete_ids(1);
  request.add_delete_group_ids(9);
  ASSERT_TRUE(Call(running, &Stub::UpdateNextHops, request).status.ok());
  message = watch.Read();
  EXPECT_EQ(message.generation(), 2U);
  ASSERT_EQ(message.deleted_next_hop_ids_size(), 1);
  EXPECT_EQ(message.deleted_next_hop_ids(0), 1U);
  ASSERT_EQ(message.deleted_group_ids_size(), 1);
  EXPECT_EQ(message.deleted_group_ids(0), 9U);
  EXPECT_EQ(message.digest(), std::string(16, '\0'));
}

// Nothing of the next generation is sent before this one is complete.
TEST(ControlWatch, LargeGenerationsAreSplit) {
  RunningServer running;
  Watch watch(running.table(), 0);
  EXPECT_EQ(watch.Read().generation(), 0U);
  v1::UpdateRoutesRequest large;
  for (int i = 0; i < 20'000; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, large);
  }
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, large).status.ok());
  running.Announce({{"::/0", 2}});
  int routes = 0, messages = 0;
  for (bool complete = false; !complete; ++messages) {
    const v1::WatchRoutesResponse message = watch.Read();
    ASSERT_EQ(message.generation(), 1U);
    ASSERT_LE(message.ByteSizeLong(), size_t{80} << 10);
    routes += message.updates_size();
    complete = message.generation_complete();
    EXPECT_EQ(message.digest().empty(), !complete);
  }
  EXPECT_EQ(routes, 20'000);
  EXPECT_GT(messages, 5);
  EXPECT_EQ(watch.Read().generation(), 2U);
}

// Announces 2,000 routes below a /32; a generation of them is some 70 kB.
v1::UpdateRoutesRequest TwoThousandRoutes(uint32_t block = 0xdb8) {
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 2000; ++i) {
    AddUpdate(absl::StrCat("2001:", absl::Hex(block), ":", i, "::/48"), 1,
              request);
  }
  return request;
}

// A watcher that does not read costs the server no memory beyond its history,
// and does not disturb other watchers.
TEST(ControlWatch, SlowWatchersAreCutOffAndOthersGoOn) {
  ServerOptions options;
  options.tables.table.history_bytes = 4 << 20;
  RunningServer running(options);
  const auto other = v1::RouteTable::NewStub(running.unix_socket());
  Watch slow(running.table(), 0);
  EXPECT_EQ(slow.Read().generation(), 0U);

  constexpr uint64_t kGenerations = 400;  // 26 MB on the wire
  std::atomic<uint64_t> seen{0};
  std::thread fast([&] {
    Watch watch(*other, 0);
    v1::WatchRoutesResponse message;
    while (seen.load() < kGenerations) {
      if (!watch.Read(&message)) {
        ADD_FAILURE() << watch.Finish().error_message();
        seen = kGenerations;
      } else if (message.generation_complete()) {
        seen = message.generation();
        seen.notify_one();
      }
    }
    seen.notify_one();
  });
  v1::UpdateRoutesRequest request = TwoThousandRoutes();
  uint64_t most = 0;
  for (uint32_t generation = 1; generation <= kGenerations; ++generation) {
    for (v1::RouteUpdate& update : *request.mutable_updates()) {
      update.set_next_hop_id(generation);
    }
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    // Wait for the fast watcher: the machine may be busy.
    for (uint64_t at = seen; at + 5 < generation; at = seen) seen.wait(at);
    if (generation % 50 == 0) {
      most = std::max(most, GetTable(running).history_bytes());
    }
  }
  fast.join();
  EXPECT_EQ(seen.load(), kGenerations);
  EXPECT_GT(most, uint64_t{2} << 20);
  EXPECT_LE(most, uint64_t{4} << 20);

  v1::WatchRoutesResponse message;
  uint64_t last = 0;
  while (slow.Read(&message)) {
    ASSERT_EQ(message.generation(),
              message.updates().empty() ? last : last + 1);
    last = message.generation();
  }
  EXPECT_LT(last, kGenerations);
  const grpc::Status status = slow.Finish();
  ExpectQuota(status, "WATCHER_TOO_SLOW", false);
  EXPECT_NE(status.error_message().find(absl::StrCat(last)), std::string::npos)
      << status.error_message();
}

// Each change is of half a megabyte, and a client that does not read has begun
// with the first.
TEST(ControlWatch, ASlowWatcherHoldsNoLargeChangeBeyondTheBound) {
  ServerOptions options;
  options.tables.table.history_bytes = 0;
  options.control.watch_memory_bytes = 1 << 20;
  RunningServer running(options);
  const auto narrow = NarrowClient(running);
  Watch slow(*narrow, 0);
  Watch fast(running.table(), 0);
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 20'000; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, request);
  }
  const auto update = [&](uint32_t generation) {
    for (v1::RouteUpdate& change : *request.mutable_updates()) {
      change.set_next_hop_id(generation);
    }
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    v1::WatchRoutesResponse message;
    do {
      ASSERT_TRUE(fast.Read(&message));
    } while (message.generation() != generation ||
             !message.generation_complete());
  };
  update(1);
  v1::WatchRoutesResponse message;
  do {
    ASSERT_TRUE(slow.Read(&message));
  } while (message.updates().empty());
  update(2);
  // The other one held the same change, and counted once.
  uint64_t last = 0;
  bool complete = false;
  while (!complete && slow.Read(&message)) {
    last = message.generation();
    complete = message.generation_complete();
  }
  EXPECT_FALSE(complete);
  EXPECT_EQ(last, 1U);
  if (!complete) {
    EXPECT_EQ(slow.Finish().error_code(), Code::CANCELLED);
  }
  update(3);
}

// What a watcher has after it applied every message.
std::map<std::string, uint32_t> Apply(const v1::WatchRoutesResponse& message,
                                      bool first,
                                      std::map<std::string, uint32_t> routes) {
  if (message.reset() && first) routes.clear();
  for (const v1::RouteUpdate& update : message.updates()) {
    const std::string key = update.prefix().SerializeAsString();
    if (update.op() == v1::RouteUpdate::OP_DELETE) {
      routes.erase(key);
    } else {
      routes[key] = update.next_hop_id();
    }
  }
  return routes;
}

TEST(ControlWatch, ResyncSendsTheWholeTableInsteadOfAnError) {
  ServerOptions options;
  options.tables.table.history_bytes = 1;  // the newest generation only
  RunningServer running(options);
  for (uint32_t i = 1; i <= 5; ++i) running.Announce({{"::/0", i}});
  running.Announce({{"10.0.0.0/8", 9}});
  // Without: the error that names the oldest generation.
  Watch strict(running.table(), 1);
  ExpectError(strict.Finish(), Code::OUT_OF_RANGE, "HISTORY_COMPACTED",
              "start_generation");

  Watch watch(running.table(), 1, "", /*resync=*/true);
  const v1::WatchRoutesResponse whole = watch.Read();
  EXPECT_EQ(whole.generation(), 6U);
  EXPECT_TRUE(whole.reset());
  EXPECT_TRUE(whole.generation_complete());
  ASSERT_EQ(whole.updates_size(), 2);
  EXPECT_EQ(whole.updates(0).next_hop_id(), 9U);
  EXPECT_EQ(whole.updates(1).next_hop_id(), 5U);
  EXPECT_EQ(whole.digest(), GetTable(running).digest());
  // And goes on with changes.
  running.Announce({{"::/0", 7}});
  v1::WatchRoutesResponse next = watch.Read();
  while (next.updates().empty()) next = watch.Read();
  EXPECT_EQ(next.generation(), 7U);
  EXPECT_FALSE(next.reset());

  // A digest that differs, and a generation that the server never had.
  for (const uint64_t start : {uint64_t{7}, uint64_t{1000}}) {
    v1::WatchRoutesRequest request;
    request.set_start_generation(start);
    request.set_start_digest(std::string(16, 'x'));
    request.set_resync(true);
    CallContext context;
    const auto reader = running.table().WatchRoutes(&context, request);
    v1::WatchRoutesResponse message;
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_TRUE(message.reset());
    EXPECT_EQ(message.generation(), 7U);
    context.TryCancel();
    while (reader->Read(&message)) continue;
  }
}

TEST(ControlWatch, ASlowWatcherWithResyncEndsWithTheSameTable) {
  ServerOptions options;
  options.tables.table.history_bytes = 1 << 16;
  RunningServer running(options);
  Watch slow(running.table(), 0, "", /*resync=*/true);
  EXPECT_EQ(slow.Read().generation(), 0U);
  v1::UpdateRoutesRequest request = TwoThousandRoutes();
  constexpr uint32_t kGenerations = 300;  // 20 MB on the wire
  for (uint32_t generation = 1; generation <= kGenerations; ++generation) {
    for (v1::RouteUpdate& update : *request.mutable_updates()) {
      update.set_next_hop_id(generation);
    }
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
  }
  std::map<std::string, uint32_t> routes;
  uint64_t at = 0;
  bool complete = true;
  int resets = 0;
  while (at < kGenerations) {
    const v1::WatchRoutesResponse message = slow.Read();
    resets += message.reset() && complete ? 1 : 0;
    routes = Apply(message, complete, std::move(routes));
    complete = message.generation_complete();
    if (complete) at = message.generation();
  }
  EXPECT_GT(resets, 0);
  EXPECT_EQ(routes.size(), 2000U);
  for (const auto& [prefix, next_hop] : routes) {
    ASSERT_EQ(next_hop, kGenerations);
  }
}

// Reads to the end of a generation that is sent whole. Returns its number.
uint64_t ReadWhole(Watch& watch) {
  v1::WatchRoutesResponse message;
  do {
    message = watch.Read();
    EXPECT_TRUE(message.reset());
  } while (!message.generation_complete());
  return message.generation();
}

// What is announced while the whole table is on its way is kept beyond the
// bound of the history.
TEST(ControlWatch, AClientThatIsSentTheWholeTableCanCatchUp) {
  ServerOptions options;
  v1::UpdateRoutesRequest request = TwoThousandRoutes();
  RunningServer probe;
  ASSERT_TRUE(Call(probe, &Stub::UpdateRoutes, request).status.ok());
  options.control.whole_table_grace = absl::Hours(1);
  // Room for 10 generations.
  options.tables.table.history_bytes = GetTable(probe).history_bytes() * 10;
  RunningServer running(options);
  uint32_t generation = 0;
  const auto announce = [&](uint32_t until) {
    while (generation < until) {
      ++generation;
      for (v1::RouteUpdate& update : *request.mutable_updates()) {
        update.set_next_hop_id(generation);
      }
      ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    }
  };
  announce(15);
  // Does not read for 18 generations.
  const auto client = NarrowClient(running);
  Watch watch(*client, 1, "", /*resync=*/true);
  EXPECT_EQ(ReadWhole(watch), 15U);
  announce(33);
  for (uint64_t at = 15; at < 33;) {
    const v1::WatchRoutesResponse message = watch.Read();
    ASSERT_FALSE(message.reset()) << "after " << at;
    if (message.generation_complete()) at = message.generation();
  }
  EXPECT_GT(GetTable(running).history_bytes(),
            options.tables.table.history_bytes);
}

TEST(ControlWatch, TheHistoryHasItsBoundAgainAfterTheGrace) {
  ServerOptions options;
  options.control.whole_table_grace = absl::ZeroDuration();
  options.tables.table.history_bytes = 1;
  RunningServer running(options);
  for (uint32_t i = 1; i <= 3; ++i) running.Announce({{"::/0", i}});
  Watch watch(running.table(), 1, "", /*resync=*/true);
  EXPECT_EQ(ReadWhole(watch), 3U);
  running.Announce({{"::/0", 4}});
  while (watch.Read().generation() != 4) continue;
  // The watch that has sent this gave up its hold before.
  running.Announce({{"::/0", 5}});
  EXPECT_EQ(GetTable(running).oldest_watch_generation(), 4U);
}

// A table of some 700 kB on the wire: a narrow client does not buffer it.
void AnnounceMuch(RunningServer& running) {
  for (uint32_t block = 1; block <= 10; ++block) {
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, TwoThousandRoutes(block))
                    .status.ok());
  }
}

TEST(ControlWatch, WholeTablesAreSentInTurn) {
  ServerOptions options;
  options.control.whole_tables = 1;
  options.control.whole_table_turn = absl::Hours(1);
  options.tables.table.history_bytes = 1;
  RunningServer running(options);
  AnnounceMuch(running);
  const auto client = NarrowClient(running);
  auto slow = std::make_unique<Watch>(*client, 1, "", true);
  EXPECT_TRUE(slow->Read().reset());
  const auto other = v1::RouteTable::NewStub(running.unix_socket());
  std::atomic<bool> over = false;
  std::thread second([&] {
    Watch watch(*other, 1, "", /*resync=*/true);
    v1::WatchRoutesResponse message = watch.Read();
    EXPECT_TRUE(over);
    EXPECT_TRUE(message.reset());
  });
  absl::SleepFor(absl::Milliseconds(300));
  over = true;
  slow.reset();
  second.join();
}

// A client that does not read its whole table delays others for one turn.
TEST(ControlWatch, ASlowWholeTableDelaysOthersForOneTurn) {
  ServerOptions options;
  options.control.whole_tables = 1;
  options.control.whole_table_turn = absl::Milliseconds(20);
  options.tables.table.history_bytes = 1;
  RunningServer running(options);
  AnnounceMuch(running);
  const auto client = NarrowClient(running);
  Watch slow(*client, 1, "", /*resync=*/true);
  EXPECT_TRUE(slow.Read().reset());
  const auto other = v1::RouteTable::NewStub(running.unix_socket());
  Watch second(*other, 1, "", /*resync=*/true);
  EXPECT_EQ(ReadWhole(second), 10U);
}

TEST(ControlWatch, EndsWithItsTable) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  Watch red(running.table(), 0, "red"), blue(running.table(), 0, "blue");
  EXPECT_EQ(red.Read().generation(), 0U);
  EXPECT_EQ(blue.Read().generation(), 0U);
  ASSERT_TRUE(DeleteTable(running, "red").ok());
  ExpectError(red.Finish(), Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  // A new table of this name does not disturb the other watch.
  CreateTable(running, "red");
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, Updates({{"::/0", 1}}, "blue"))
                  .status.ok());
  EXPECT_EQ(blue.Read().generation(), 1U);
  running.server().Drain(absl::Minutes(1));
  ExpectError(blue.Finish(), Code::UNAVAILABLE, "DRAINING", "");
}

// A client that saw a generation can start a watch there at once.
TEST(ControlWatch, BeginsWhereALookupOrAnAckLeftOff) {
  RunningServer running;
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 1000; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, request);
  }
  for (uint32_t round = 1; round <= 200; ++round) {
    for (v1::RouteUpdate& update : *request.mutable_updates()) {
      update.set_next_hop_id(round);
    }
    request.set_ack(round % 2 == 0 ? v1::ACK_VISIBLE : v1::ACK_ACCEPTED);
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    v1::LookupRequest lookup;
    lookup.add_addresses()->set_text("10.0.0.1");
    lookup.set_min_generation(round);
    CallContext context;
    v1::LookupResponse answer;
    if (round % 2 == 1) {
      ASSERT_TRUE(running.lookup().Lookup(&context, lookup, &answer).ok());
      ASSERT_EQ(answer.generation(), round);
    }
    Watch watch(running.table(), round);
    v1::WatchRoutesResponse bookmark;
    ASSERT_TRUE(watch.Read(&bookmark)) << watch.Finish().error_message();
    ASSERT_EQ(bookmark.generation(), round);
    ASSERT_FALSE(bookmark.digest().empty());
  }
}

TEST(ControlWatch, ResumesAnywhereInWhatIsKept) {
  RunningServer running;
  for (uint32_t i = 1; i <= 20; ++i) running.Announce({{"::/0", i}});
  for (uint64_t start = 0; start <= 20; ++start) {
    Watch watch(running.table(), start);
    EXPECT_EQ(watch.Read().generation(), start);
    for (uint64_t next = start + 1; next <= 20; ++next) {
      const v1::WatchRoutesResponse message = watch.Read();
      ASSERT_EQ(message.generation(), next);
      ASSERT_EQ(message.updates(0).next_hop_id(), next);
    }
  }
}

// Replicas that follow a table through WatchRoutes alone, while several writers
// change it by every call, end with the same table.

constexpr uint32_t kFirstGroup = 100;

class ControlReplica : public testing::Test {
 protected:
  // Changes at random. Some are refused, such as deleting a next hop in use.
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
            hop.mutable_attributes()->set_origin_as(below(3));
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

  // Several writers, and one generation that needs several messages.
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

  // Reads until the replica has the last generation. Reconnects after
  // `messages` each time (0: never).
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
    options.tables.table.history_bytes = 256 << 20;  // no watcher is too slow
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

// By id, serialized.
template <typename Object>
std::map<uint32_t, std::string> ToText(
    const std::map<uint32_t, Object>& objects) {
  std::map<uint32_t, std::string> text;
  for (const auto& [id, object] : objects) {
    text[id] = object.SerializeAsString();
  }
  return text;
}

TEST_F(ControlReplica, FromNothing) {
  Replica replica;
  std::thread storm([this] { Storm(); });
  Follow(replica, 0);
  storm.join();
  ExpectSameRoutes(replica);
  EXPECT_GT(replica.splits(), 2);
  EXPECT_GE(replica.bookmarks(), 1);
  // Another one, from lists of the end.
  const Replica last(Call(running_, &Stub::ListRoutes, {}).all,
                     Call(running_, &Stub::ListNextHops, {}).all);
  ExpectSameRoutes(last);
  EXPECT_EQ(ToText(replica.next_hops()), ToText(last.next_hops()));
  EXPECT_EQ(ToText(replica.groups()), ToText(last.groups()));
  EXPECT_FALSE(last.next_hops().empty());
  EXPECT_FALSE(last.groups().empty());
}

TEST_F(ControlReplica, FromNothingWithManyReconnects) {
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
    // Each starts from another generation, while the table changes.
    Replies<v1::ListRoutesResponse> routes;
    Replies<v1::ListNextHopsResponse> objects;
    do {
      objects = Call(running_, &Stub::ListNextHops, {});
      routes = Call(running_, &Stub::ListRoutes, {});
      ASSERT_FALSE(routes.all.empty() || objects.all.empty());
    } while (routes.all[0].generation() != objects.all[0].generation());
    Replica replica(routes.all, objects.all);
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
