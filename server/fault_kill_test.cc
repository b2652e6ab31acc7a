// SPDX-License-Identifier: Apache-2.0

// kill -9 at random instants under a storm of updates, many times on one store.
// Half of the times the power goes as well. Each acknowledged batch is there
// after the restart, no batch is there in part, and a client that got no answer
// may repeat its batch. A store that does not sync fails this check.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/testing/lossy_disk.h"
#include "server/testing/running_server.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

// The writers own disjoint prefixes. What batch K of writer W leaves in the
// table is a function of W and K. So the number of each writer's last batch
// defines the whole table, and the sum of these numbers is its generation.

constexpr uint64_t kPrefixes = 24;     // announced or withdrawn by each batch
constexpr uint64_t kMarkers = 50;      // prefixes that name the last batches
constexpr uint32_t kObject = 1 << 30;  // ids of the next-hop objects
constexpr uint64_t kWindow = 16;       // unanswered batches of a stream

std::string PrefixOf(uint64_t writer, uint64_t i) {
  return i % 2 == 0 ? absl::StrFormat("2001:db8:%x%02x::/48", writer + 1, i)
                    : absl::StrFormat("10.%d.%d.0/24", writer, i);
}

std::string Marker(uint64_t writer, uint64_t batch) {
  return absl::StrFormat("2001:db8:ff%02x:%x:%x::/80", writer, batch >> 16,
                         batch & 0xffff);
}

// Whether batch K announces prefix I; it withdraws the others.
bool Announces(uint64_t batch, uint64_t i) { return (batch + i) % 4 != 0; }

template <typename Request>
Request Batch(uint64_t writer, uint64_t batch, uint64_t epoch, v1::Ack ack) {
  const auto hop = static_cast<NextHopId>(batch);
  v1::UpdateRoutesRequest updates;
  for (uint64_t i = 0; i < kPrefixes; ++i) {
    AddChange(PrefixOf(writer, i), Announces(batch, i) ? hop : kNoRoute,
              updates);
  }
  AddChange(Marker(writer, batch), hop, updates);
  if (batch > kMarkers) {
    AddChange(Marker(writer, batch - kMarkers), kNoRoute, updates);
  }
  Request request;
  request.mutable_updates()->Swap(updates.mutable_updates());
  v1::NextHop& object = *request.add_next_hops();
  object.set_id(kObject + static_cast<uint32_t>(writer));
  object.set_label(absl::StrCat(batch));
  object.mutable_attributes()->set_origin_as(static_cast<uint32_t>(batch));
  request.set_request_id(absl::StrCat("writer ", writer, " batch ", batch));
  request.set_writer_epoch(epoch);
  request.set_ack(ack);
  return request;
}

// Adds the routes of a writer after its batch K.
void AddRoutesAfter(uint64_t writer, uint64_t batch,
                    std::map<Prefix, NextHopId>& routes) {
  if (batch == 0) return;
  for (uint64_t i = 0; i < kPrefixes; ++i) {
    if (!Announces(batch, i)) continue;
    routes[*Prefix::Parse(PrefixOf(writer, i))] = static_cast<NextHopId>(batch);
  }
  for (uint64_t k = batch; k > 0 && k + kMarkers > batch; --k) {
    routes[*Prefix::Parse(Marker(writer, k))] = static_cast<NextHopId>(k);
  }
}

// What the answers of UpdateRoutes and StreamUpdates have in common.
struct Answer {
  uint64_t generation = 0, added = 0, changed = 0, removed = 0, unchanged = 0;
  uint64_t accepted_nanos = 0;

  friend bool operator==(const Answer&, const Answer&) = default;
};

template <typename Response>
Answer AnswerOf(const Response& response) {
  return {response.generation(), response.added(),
          response.changed(),    response.removed(),
          response.unchanged(),  response.accepted_unix_nanos()};
}

// Sends its batches in order: `acked` <= last batch of the server <= `sent`.
struct Writer {
  uint64_t number = 0;
  v1::Ack ack = v1::ACK_PERSISTED;
  bool durable = true;  // the store syncs each commit
  bool stream = false;
  uint64_t sent = 0, acked = 0;
  Answer last;              // of batch `acked`
  uint64_t last_epoch = 0;  // of batch `acked`

  void Acked(uint64_t batch, uint64_t epoch, const Answer& answer) {
    acked = batch;
    last_epoch = epoch;
    last = answer;
  }

  // Sends batches from `next` to `end` until the server is gone; calls `on`
  // with each answer.
  template <typename OnAnswer>
  void Send(StoredServer& server, uint64_t next, uint64_t end, uint64_t epoch,
            OnAnswer on) {
    if (stream) return SendStream(server, next, end, epoch, on);
    for (; next <= end; ++next) {
      sent = std::max(sent, next);
      v1::UpdateRoutesResponse response;
      const grpc::Status status = server.Update(
          // A repeated batch equals the first one, its epoch included.
          Batch<v1::UpdateRoutesRequest>(
              number, next, next == acked ? last_epoch : epoch, ack),
          &response);
      if (!status.ok()) {
        // Only the end of the server may make an update fail.
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_EQ(ReasonOf(status), "") << status.error_message();
        return;
      }
      ExpectPersisted(response);
      on(next, AnswerOf(response));
    }
  }

 private:
  template <typename Response>
  void ExpectPersisted(const Response& response) const {
    EXPECT_GE(response.persisted_generation(),
              durable ? response.generation() : 0);
  }

  template <typename OnAnswer>
  void SendStream(StoredServer& server, uint64_t next, uint64_t end,
                  uint64_t epoch, OnAnswer on) {
    grpc::ClientContext call;
    const auto calls = server.table().StreamUpdates(&call);
    uint64_t answered = next - 1;
    while (answered < end) {
      if (next <= end && next - answered <= kWindow) {
        auto request =
            Batch<v1::StreamUpdatesRequest>(number, next, epoch, ack);
        request.set_batch_id(next);
        sent = std::max(sent, next);
        if (!calls->Write(request)) break;
        ++next;
        continue;
      }
      v1::StreamUpdatesResponse response;
      if (!calls->Read(&response)) break;
      if (response.batch_id() == 0) continue;  // the first credits
      EXPECT_FALSE(response.has_error()) << response.ShortDebugString();
      EXPECT_EQ(response.batch_id(), answered + 1);
      ExpectPersisted(response);
      on(++answered, AnswerOf(response));
    }
    if (answered == end) {
      calls->WritesDone();
      EXPECT_TRUE(calls->Finish().ok());
    } else {
      EXPECT_EQ(calls->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    }
  }
};

class Kill : public testing::Test {
 protected:
  // Makes the next server start on an empty store.
  void Empty(const std::string& name) {
    store_ = NewStorePath(name);
    disk_ = std::make_unique<LossyDisk>(store_);
    epoch_ = 0;
    const v1::Ack acks[] = {v1::ACK_PERSISTED, v1::ACK_ACCEPTED,
                            v1::ACK_VISIBLE, v1::ACK_ACCEPTED};
    for (uint64_t i = 0; i < writers_.size(); ++i) {
      writers_[i] = {
          .number = i, .ack = acks[i], .durable = Durable(), .stream = i == 3};
      if (!Durable() && i == 0) writers_[i].ack = v1::ACK_VISIBLE;
    }
  }

  bool Durable() const { return sync_ == "full"; }

  StoredServer Start() const {
    return StoredServer(store_, {"--store_sync=" + sync_},
                        disk_->environment());
  }

  absl::Duration Within(absl::Duration most) {
    return most * std::uniform_real_distribution<>()(random_);
  }

  // Sends batches until the server is killed, after `life`.
  void Storm(StoredServer& server, absl::Duration life) {
    std::vector<std::thread> threads;
    for (Writer& writer : writers_) {
      threads.emplace_back([&] {
        writer.Send(server, writer.sent + 1, ~uint64_t{0} >> 1, epoch_,
                    [&](uint64_t batch, const Answer& answer) {
                      EXPECT_GT(answer.generation, writer.last.generation);
                      EXPECT_GT(answer.added, 0U) << "was there already";
                      writer.Acked(batch, epoch_, answer);
                    });
      });
    }
    absl::SleepFor(life);
    server.KillNow();
    for (std::thread& thread : threads) thread.join();
  }

  // The last batch of each writer, as the next-hop objects name it.
  static std::array<uint64_t, 4> Batches(StoredServer& server) {
    grpc::ClientContext call;
    const auto reader = server.table().ListNextHops(&call, {});
    std::array<uint64_t, 4> batches = {};
    v1::ListNextHopsResponse chunk;
    while (reader->Read(&chunk)) {
      for (const v1::NextHop& object : chunk.next_hops()) {
        EXPECT_TRUE(absl::SimpleAtoi(object.label(),
                                     &batches.at(object.id() - kObject)));
      }
    }
    EXPECT_TRUE(reader->Finish().ok());
    return batches;
  }

  // Expects the table that these batches make, in every view of it.
  void ExpectTable(StoredServer& server,
                   const std::array<uint64_t, 4>& batches) const {
    std::map<Prefix, NextHopId> routes;
    uint64_t generation = 0;
    for (uint64_t w = 0; w < batches.size(); ++w) {
      generation += batches[w];
      AddRoutesAfter(w, batches[w], routes);
    }
    for (uint64_t w = 0; w < batches.size(); ++w) {
      const std::string address = absl::StrFormat("10.%d.1.1", w);
      const bool routed = batches[w] > 0 && Announces(batches[w], 1);
      EXPECT_EQ(server.Lookup(address, generation),
                routed ? batches[w] : kNoRoute);
    }
    const v1::Table state = server.State();
    EXPECT_EQ(state.accepted_generation(), generation);
    EXPECT_EQ(state.visible_generation(), generation);
    EXPECT_EQ(state.persisted_generation(), Durable() ? generation : 0);
    EXPECT_EQ(state.store(), "sqlite");
    const Listed listed = server.List();
    EXPECT_EQ(listed.generation, generation);
    EXPECT_EQ(listed.digest, state.digest());
    EXPECT_TRUE(listed.routes == routes)
        << listed.routes.size() << " routes, wanted " << routes.size();
  }

  // Checks all that a restart must keep.
  void CheckRestarted(StoredServer& server) {
    const v1::Table state = server.State();
    EXPECT_EQ(state.writer_epoch(), epoch_);
    if (epoch_ > 0) ExpectOldFenced(server);
    const std::array<uint64_t, 4> batches = Batches(server);
    EXPECT_EQ(Lost(batches), 0U);
    for (const Writer& writer : writers_) {
      EXPECT_LE(batches[writer.number], writer.sent) << writer.number;
      EXPECT_GE(state.persisted_generation(), writer.last.generation);
      unanswered_ += batches[writer.number] - writer.acked;
      lost_ += writer.sent - batches[writer.number];
    }
    ExpectTable(server, batches);
    if (!HasFailure()) Repeat(server, batches, state.accepted_generation());
  }

  // The number of acknowledged batches that the server does not have.
  uint64_t Lost(const std::array<uint64_t, 4>& batches) const {
    uint64_t lost = 0;
    for (const Writer& writer : writers_) {
      lost += writer.acked - std::min(writer.acked, batches[writer.number]);
    }
    return lost;
  }

  // The first answer has the time at which the commit ended. The store has the
  // earlier time at which the batch came.
  static void ExpectSameAnswer(Answer answer, const Answer& first) {
    EXPECT_LE(answer.accepted_nanos, first.accepted_nanos);
    EXPECT_GT(answer.accepted_nanos, 0U);
    answer.accepted_nanos = first.accepted_nanos;
    EXPECT_EQ(answer, first);
  }

  // Repeats, with the same ids, the batch answered last and those not answered.
  void Repeat(StoredServer& server, const std::array<uint64_t, 4>& batches,
              uint64_t generation) {
    std::array<uint64_t, 4> all = {};
    for (Writer& writer : writers_) {
      const uint64_t first = std::max<uint64_t>(writer.acked, 1);
      const uint64_t had = batches[writer.number];
      writer.Send(server, first, writer.sent, epoch_,
                  [&](uint64_t batch, const Answer& answer) {
                    if (batch == writer.acked) {
                      ExpectSameAnswer(answer, writer.last);
                    }
                    EXPECT_EQ(answer.generation <= generation, batch <= had);
                    if (batch == writer.acked) return;
                    writer.Acked(batch, epoch_, answer);
                  });
      EXPECT_EQ(writer.acked, writer.sent);
      all[writer.number] = writer.sent;
    }
    ExpectTable(server, all);
  }

  // Raises the writer epoch, as a new controller does.
  void NextEpoch(StoredServer& server) {
    ++epoch_;
    v1::UpdateRoutesRequest nothing = Announcement(0, 0, 1);
    nothing.set_writer_epoch(epoch_);
    EXPECT_TRUE(server.Update(nothing).ok());
    ExpectOldFenced(server);
  }

  void ExpectOldFenced(StoredServer& server) const {
    v1::UpdateRoutesRequest late = Announcement(1, 1, 1);
    late.set_writer_epoch(epoch_ - 1);
    EXPECT_EQ(ReasonOf(server.Update(late)), "WRITER_FENCED");
  }

  std::mt19937_64 random_{std::random_device{}()};
  std::string sync_ = "full";
  std::string store_;
  std::unique_ptr<LossyDisk> disk_;
  std::array<Writer, 4> writers_;
  uint64_t epoch_ = 0;
  uint64_t unanswered_ = 0, lost_ = 0;
};

// Each round starts a server and kills it; PLANB_KILL_ROUNDS makes it longer.
// More rounds follow until a loss of power has found sectors that were not
// synced: on a busy machine the disk may have caught up each time.
TEST_F(Kill, UnderAStorm) {
  Empty("kill");
  uint64_t sectors = 0;
  const uint64_t rounds = FromEnvironment("PLANB_KILL_ROUNDS", 10);
  uint64_t round = 0;
  for (;; ++round) {
    SCOPED_TRACE(round);
    if (round % 4 == 3) {
      // Killed during its start, or just after.
      StoredServer server = Start();
      absl::SleepFor(Within(absl::Milliseconds(100)));
      server.KillNow();
    }
    if (round % 2 == 1) sectors += disk_->LosePower(random_);
    StoredServer server = Start();
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    CheckRestarted(server);
    NextEpoch(server);
    ASSERT_FALSE(HasFailure());
    if (round >= rounds && (sectors > 0 || round >= 10 * rounds)) break;
    Storm(server, Within(absl::Milliseconds(150)));
  }
  uint64_t sent = 0;
  for (const Writer& writer : writers_) sent += writer.sent;
  EXPECT_GT(sent, rounds);
  EXPECT_GT(sectors, 0U);
  std::cout << round << " rounds, " << sent << " batches sent; when killed, "
            << unanswered_ << " were stored and not answered, " << lost_
            << " not stored; " << sectors << " sectors were not synced\n";
}

// A process that dies leaves commits that the system has and the disk has not.
// Once the next server shows them, a power loss does not take them back.
TEST_F(Kill, WhatARestartServesIsSynced) {
  Empty("resync");
  v1::Table served;
  for (const char* sync : {"off", "full"}) {
    sync_ = sync;
    StoredServer server = Start();
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    if (!Durable()) {
      ASSERT_TRUE(server.Update(Announcement(0, 10, 7)).ok());
    }
    served = server.State();
    server.KillNow();
  }
  EXPECT_GT(served.persisted_generation(), 0U);
  EXPECT_GT(disk_->LosePower(random_, /*kept_percent=*/0), 0U);
  StoredServer server = Start();
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  EXPECT_EQ(server.State().digest(), served.digest());
}

// The batches of a store that syncs at checkpoints only: a power loss takes the
// last ones, and the others make up the table.
TEST_F(Kill, NormalSyncLosesOnlyTheEnd) {
  sync_ = "normal";
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    Empty("normal");
    StoredServer server = Start();
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    Storm(server, absl::Milliseconds(50) + Within(absl::Milliseconds(100)));
    disk_->LosePower(random_);
    StoredServer next = Start();
    ASSERT_TRUE(next.Begins()) << next.process().Log();
    const std::array<uint64_t, 4> batches = Batches(next);
    lost_ += Lost(batches);
    ExpectTable(next, batches);
  }
  std::cout << lost_ << " acknowledged batches were lost\n";
}

// Proves that the power loss of these tests is one. More rounds follow until
// something is lost: on a busy machine a storm may be over before an answer.
TEST_F(Kill, NoSyncLosesAcknowledgedBatches) {
  sync_ = "off";
  uint64_t refused = 0;
  for (int round = 0; round < 6 || (lost_ + refused == 0 && round < 60);
       ++round) {
    Empty("off");
    StoredServer server = Start();
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    Storm(server, absl::Milliseconds(50) + Within(absl::Milliseconds(100)));
    disk_->LosePower(random_);
    StoredServer next = Start();
    if (next.Begins()) {
      lost_ += Lost(Batches(next));
    } else {
      ++refused;
    }
  }
  EXPECT_GT(lost_ + refused, 0U);
  std::cout << lost_ << " acknowledged batches were lost, " << refused
            << " stores were damaged\n";
}

}  // namespace
}  // namespace planb::server
