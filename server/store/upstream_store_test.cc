// SPDX-License-Identifier: Apache-2.0

// What a store does with what a server sends that it follows: each table here
// is whole at generation 5 first, and what comes next is the test's.

#include "server/store/upstream_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "server/base/error.h"
#include "server/testing/fake_leader.h"
#include "server/testing/noting_follower.h"

namespace planb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

const Route kRoute = {*Prefix::Parse("2001:db8::/32"), 7};
const Route kOther = {*Prefix::Parse("192.0.2.0/24"), 8};

// Notes generations in place of positions.
class GenerationNotes final : public NotingFollower {
 public:
  void Appended(const std::string&, uint64_t, uint64_t,
                std::vector<AcceptedBatch> batches) override {
    const Delta& delta = *batches[0].delta;
    Note(absl::StrCat("changes of ", delta.generation, " after ",
                      delta.previous));
    for (size_t i = 1; i < delta.routes.size(); ++i) {
      EXPECT_LT(delta.routes[i - 1].prefix, delta.routes[i].prefix);
    }
  }
  void Replaced(StoredTable table) override {
    Note(absl::StrCat("whole ", table.generation));
  }
};

// Returns the first `count` notes of a store. `send` serves its watches.
std::vector<std::string> Follow(
    size_t count,
    std::function<void(const v1::WatchRoutesRequest&, FakeLeader::Writer&,
                       GenerationNotes&)>
        send,
    UpstreamOptions options = {}) {
  const std::string socket = TempPath("leader");
  GenerationNotes notes;
  const FakeLeader leader(
      socket, [](auto& tables) { tables.add_tables()->set_name("default"); },
      [&](const auto& request, auto& writer) { send(request, writer, notes); });
  options.target = absl::StrCat("unix:", socket);
  const auto store = UpstreamStore::Open(options).value();
  const auto loaded = store->Load();
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded.ok()) return {};
  EXPECT_EQ(loaded->front().generation, 5U);
  const Following following = store->Follow(notes);
  std::vector<std::string> noted = notes.Notes(count);
  store->Close(absl::CancelledError(), SteadyNow());
  return noted;
}

v1::WatchRoutesResponse Whole(uint64_t generation) {
  return FakeLeader::Generation(generation, /*reset=*/true, {kRoute});
}

v1::WatchRoutesResponse Changes(uint64_t generation) {
  return FakeLeader::Generation(generation, /*reset=*/false, {kOther});
}

// A follower that takes nothing for a while, and then what comes next or all.
TEST(UpstreamStore, WhatAFollowerHasNoRoomForComesOnceItHas) {
  using Wants = StoreFollower::Wants;
  for (const Wants later : {Wants::kNext, Wants::kWhole}) {
    std::atomic<bool> begun = false;
    const auto send = [&](const v1::WatchRoutesRequest& request,
                          FakeLeader::Writer& writer, GenerationNotes& notes) {
      if (begun.exchange(true)) {
        notes.wanted = Wants::kNext;
        notes.Note(absl::StrCat("watch after ", request.start_generation()));
        writer.Write(request.start_generation() == 0 ? Whole(8) : Changes(6));
        return;
      }
      notes.wanted = Wants::kNothing;
      writer.Write(Whole(5));
      writer.Write(Changes(6));
      writer.Write(Changes(7));
      EXPECT_TRUE(Await([&] { return notes.asked >= 2; }));
      EXPECT_EQ(notes.missed, 1);
      notes.wanted = later;
      v1::WatchRoutesResponse bookmark;
      bookmark.set_generation(7);
      writer.Write(bookmark);
    };
    const std::vector<std::string> noted = Follow(2, send);
    if (later == Wants::kNext) {
      EXPECT_THAT(noted, ElementsAre("watch after 5", "changes of 6 after 5"));
    } else {
      EXPECT_THAT(noted, ElementsAre("watch after 0", "whole 8"));
    }
  }
}

// Parts that never end.
TEST(UpstreamStore, AGenerationWithMoreThanTheLimitEndsItsTable) {
  UpstreamOptions options;
  options.limits.max_routes = 10;
  EXPECT_THAT(
      Follow(
          1,
          [](const auto&, auto& writer, GenerationNotes&) {
            writer.Write(Whole(5));
            v1::WatchRoutesResponse part = Changes(6);
            part.set_generation_complete(false);
            for (int i = 0; i < 1000 && writer.Write(part); ++i) {
            }
          },
          options),
      ElementsAre("default failed: generation 6 has more routes than the limit "
                  "here, 10"));
}

// The contract promises that each prefix comes once, and no order.
TEST(UpstreamStore, SortsWhatASenderDidNot) {
  for (const std::vector<Route>& routes :
       {std::vector{kRoute, kOther}, std::vector{kOther, kRoute}}) {
    EXPECT_THAT(Follow(1,
                       [&](const auto&, auto& writer, GenerationNotes&) {
                         writer.Write(Whole(5));
                         writer.Write(FakeLeader::Generation(6, /*reset=*/false,
                                                             routes));
                       }),
                ElementsAre("changes of 6 after 5"));
  }
}

TEST(UpstreamStore, RefusesAGenerationThatComesTwice) {
  EXPECT_THAT(
      Follow(2,
             [](const auto&, auto& writer, GenerationNotes&) {
               for (const auto& message : {Whole(5), Changes(6), Changes(6)}) {
                 writer.Write(message);
               }
             }),
      ElementsAre("changes of 6 after 5",
                  StartsWith("default failed: the server broke its contract: a "
                             "generation comes twice")));
}

TEST(UpstreamStore, RefusesMixedGenerations) {
  EXPECT_THAT(
      Follow(1,
             [](const auto&, auto& writer, GenerationNotes&) {
               writer.Write(Whole(5));
               v1::WatchRoutesResponse part = Changes(6);
               part.set_generation_complete(false);
               writer.Write(part);
               writer.Write(Changes(7));
             }),
      ElementsAre(StartsWith("default failed: the server broke its contract: "
                             "another generation begins")));
}

// Not that of a server which lost its table, nor one of the same generation.
TEST(UpstreamStore, TakesAWholeTableOnlyForward) {
  uint64_t generation = 4;
  EXPECT_THAT(
      Follow(3,
             [&](const auto& request, auto& writer, GenerationNotes& notes) {
               if (request.start_generation() == 0) {
                 writer.Write(Whole(5));
               } else {
                 notes.Note(
                     absl::StrCat("watch after ", request.start_generation()));
               }
               writer.Write(Whole(generation++));
             }),
      ElementsAre("watch after 5", "watch after 5", "whole 6"));
}

// The connection and the other calls may be as ever: a proxy has lost it.
TEST(UpstreamStore, BeginsASilentWatchAnew) {
  UpstreamOptions options;
  options.poll = absl::Milliseconds(50);
  options.silence = absl::Milliseconds(200);
  EXPECT_THAT(Follow(
                  1,
                  [](const auto& request, auto& writer, GenerationNotes&) {
                    writer.Write(request.start_generation() == 0 ? Whole(5)
                                                                 : Changes(6));
                  },
                  options),
              ElementsAre("changes of 6 after 5"));
}

// A server that has a table "more", besides "default", once it is told to, and
// a store that follows it. `send` serves the watches of "more".
class OfTwoTables {
 public:
  OfTwoTables(UpstreamOptions options,
              std::function<void(FakeLeader::Writer&)> send)
      : send_(std::move(send)),
        leader_(
            socket_, [this](auto& tables) { List(tables); },
            [this](const auto& request, auto& writer) {
              if (request.table() == "default") {
                writer.Write(Whole(5));
                return;
              }
              ++watches;
              send_(writer);
            }) {
    options.target = absl::StrCat("unix:", socket_);
    options.poll = absl::Milliseconds(10);
    store = UpstreamStore::Open(options).value();
    EXPECT_TRUE(store->Load().ok());
    following_ = store->Follow(notes);
  }
  ~OfTwoTables() { store->Close(absl::CancelledError(), SteadyNow()); }

  std::atomic<uint64_t> routes = 0;  // that are listed; 0: no table
  std::atomic<int> lists = 0;
  std::atomic<int> watches = 0;  // of "more"
  std::unique_ptr<UpstreamStore> store;
  GenerationNotes notes;

 private:
  void List(v1::ListTablesResponse& tables) {
    ++lists;
    tables.add_tables()->set_name("default");
    if (routes == 0) return;
    v1::Table& more = *tables.add_tables();
    more.set_name("more");
    more.set_routes_v6(routes);
  }

  const std::string socket_ = TempPath("leader");
  const std::function<void(FakeLeader::Writer&)> send_;
  const FakeLeader leader_;
  Following following_;
};

TEST(UpstreamStore, ATableThatIsListedBeyondTheLimitsIsNotAskedFor) {
  UpstreamOptions options;
  options.limits.max_routes = 10;
  OfTwoTables two(options, [](auto& writer) { writer.Write(Whole(5)); });
  EXPECT_TRUE(two.store->WhyMissing("more").ok());
  two.routes = 11;
  EXPECT_TRUE(Await([&] { return two.store->missing() == 1; }));
  const absl::Status why = two.store->WhyMissing("more");
  EXPECT_EQ(ErrorReason(why), "TABLE_FULL");
  EXPECT_EQ(why.message(),
            "table more has 11 routes; the limit here is 10 (--max_routes)");
  EXPECT_EQ(two.watches, 0);
  two.routes = 9;  // less than 7/8
  EXPECT_THAT(two.notes.Notes(1), ElementsAre("whole 5"));
  EXPECT_TRUE(two.store->WhyMissing("more").ok());
  EXPECT_EQ(two.store->missing(), 0U);
}

// It has more than it is listed with.
TEST(UpstreamStore, ATableThatDoesNotFitIsAskedForAfterLongerAndLongerPauses) {
  UpstreamOptions options;
  options.limits.max_routes = 1;
  options.first_attempt = absl::Milliseconds(100);
  options.last_attempt = absl::Milliseconds(200);
  OfTwoTables two(options, [](auto& writer) {
    writer.Write(FakeLeader::Generation(5, /*reset=*/true, {kRoute, kOther}));
  });
  const SteadyInstant began = SteadyNow();
  two.routes = 1;
  EXPECT_TRUE(Await([&] { return two.watches >= 4; }));
  EXPECT_GE(ElapsedSince(began), absl::Milliseconds(100 + 200 + 200));
  EXPECT_EQ(two.store->missing(), 1U);
  EXPECT_EQ(two.store->WhyMissing("more").message(),
            "generation 5 has more routes than the limit here, 1");
  // It is deleted.
  two.routes = 0;
  EXPECT_TRUE(Await([&] { return two.store->missing() == 0; }));
}

TEST(UpstreamStore, ATableThatDoesNotFitIsAskedForOnceItIsMuchSmaller) {
  UpstreamOptions options;
  options.limits.max_routes = 20;
  options.limits.max_bytes = sizeof(Route);
  options.first_attempt = options.last_attempt = absl::Hours(1);
  std::atomic<bool> fits = false;
  OfTwoTables two(options, [&](auto& writer) {
    writer.Write(
        fits ? Whole(6)
             : FakeLeader::Generation(5, /*reset=*/true, {kRoute, kOther}));
  });
  two.routes = 20;
  EXPECT_TRUE(Await([&] { return two.store->missing() == 1; }));
  two.routes = 19;  // may fit as little
  const int lists = two.lists;
  EXPECT_TRUE(Await([&] { return two.lists > lists + 3; }));
  EXPECT_EQ(two.watches, 1);
  fits = true;
  two.routes = 10;
  EXPECT_THAT(two.notes.Notes(1), ElementsAre("whole 6"));
  EXPECT_EQ(two.watches, 2);
}

}  // namespace
}  // namespace planb::server
