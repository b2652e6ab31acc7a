// SPDX-License-Identifier: Apache-2.0

// Writers whose batches can be told by what they leave behind. Writers own
// disjoint prefixes, and the state that batch K of writer W makes is a function
// of W and K alone: all its parts name K. So one number a writer says what the
// whole table must be, and the generation, which every batch raises by one, is
// the sum of these numbers.

#ifndef PLANB_SERVER_TESTING_NUMBERED_WRITER_H_
#define PLANB_SERVER_TESTING_NUMBERED_WRITER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/testing/running_server.h"
#include "server/testing/stored_server.h"

namespace planb::server {

constexpr uint64_t kPrefixes = 24;     // that a batch announces or withdraws
constexpr uint64_t kMarkers = 50;      // the last batches' own prefixes
constexpr uint32_t kObject = 1 << 30;  // ids of the next-hop objects
constexpr uint64_t kWindow = 16;       // batches on the way in the stream

inline std::string PrefixOf(uint64_t writer, uint64_t i) {
  return i % 2 == 0 ? absl::StrFormat("2001:db8:%x%02x::/48", writer + 1, i)
                    : absl::StrFormat("10.%d.%d.0/24", writer, i);
}

inline std::string Marker(uint64_t writer, uint64_t batch) {
  return absl::StrFormat("2001:db8:ff%02x:%x:%x::/80", writer, batch >> 16,
                         batch & 0xffff);
}

// Whether batch K announces prefix I; it withdraws the others.
inline bool Announces(uint64_t batch, uint64_t i) {
  return (batch + i) % 4 != 0;
}

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
  request.set_request_id(absl::StrCat("writer ", writer, " batch ", batch));
  request.set_writer_epoch(epoch);
  request.set_ack(ack);
  return request;
}

// What batch K of a writer leaves of its routes.
inline void AddRoutesAfter(uint64_t writer, uint64_t batch,
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

// What both kinds of answers say of a batch.
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

// One at a time: `acked` <= what the server has <= `sent`.
struct Writer {
  uint64_t number = 0;
  v1::Ack ack = v1::ACK_PERSISTED;
  bool stream = false;
  uint64_t sent = 0, acked = 0;
  Answer last;              // of batch `acked`
  uint64_t last_epoch = 0;  // with which it was sent

  void Acked(uint64_t batch, uint64_t epoch, const Answer& answer) {
    acked = batch;
    last_epoch = epoch;
    last = answer;
  }

  // Sends batches from `next` to `end` until the server breaks off; calls `on`
  // with each answer. Returns the number of the last that was answered.
  template <typename OnAnswer>
  void Send(StoredServer& server, uint64_t next, uint64_t end, uint64_t epoch,
            OnAnswer on) {
    if (stream) return SendStream(server, next, end, epoch, on);
    for (; next <= end; ++next) {
      sent = std::max(sent, next);
      v1::UpdateRoutesResponse response;
      const grpc::Status status = server.Update(
          // A repeated batch is the same to the letter.
          Batch<v1::UpdateRoutesRequest>(
              number, next, next == acked ? last_epoch : epoch, ack),
          &response);
      if (!status.ok()) {
        // Nobody refuses a batch here: only the connection may break.
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_EQ(ReasonOf(status), "") << status.error_message();
        return;
      }
      EXPECT_GE(response.persisted_generation(), response.generation());
      on(next, AnswerOf(response));
    }
  }

 private:
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
      EXPECT_GE(response.persisted_generation(), response.generation());
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

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_NUMBERED_WRITER_H_
