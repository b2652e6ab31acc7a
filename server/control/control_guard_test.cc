// SPDX-License-Identifier: Apache-2.0

// Clients that hold what is scarce: threads and streams by doing nothing,
// memory by large requests.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "server/testing/control_calls.h"
#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(300);

// Servers that wait for nothing longer than kShort. What they let go on has
// tests of attempts: one during which the machine holds up the test or the
// server for that long ends, and proves nothing.
ServerOptions Impatient() {
  ServerOptions options;
  options.control.timeouts = {.first_message = kShort, .progress = kShort};
  return options;
}

// The server tells the reason in the message alone.
void ExpectEnded(const grpc::Status& status, Code code, const char* reason) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_TRUE(absl::StartsWith(status.error_message(), reason))
      << status.error_message();
}

v1::ReplaceRoutesRequest ManyRoutes(uint32_t first, uint32_t count) {
  v1::ReplaceRoutesRequest request;
  for (uint32_t i = first; i < first + count; ++i) {
    v1::Route& route = *request.add_routes();
    SetPrefix(*Prefix::Create(Address::V4(i << 8), 24),
              *route.mutable_prefix());
    route.set_next_hop_id(1);
  }
  return request;
}

v1::UpdateRoutesRequest ManyUpdates(uint32_t count, uint32_t next_hop = 1) {
  v1::UpdateRoutesRequest request;
  for (uint32_t i = 0; i < count; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), next_hop,
              request);
  }
  return request;
}

TEST(ControlGuard, StreamsMustBegin) {
  RunningServer running(Impatient());
  v1::ReplaceRoutesResponse response;
  CallContext replacing, importing, updating;
  const auto replacement = running.table().ReplaceRoutes(&replacing, &response);
  const auto import = running.table().ImportSnapshot(&importing, &response);
  const auto updates = running.table().StreamUpdates(&updating);
  ExpectEnded(replacement->Finish(), Code::DEADLINE_EXCEEDED, "STREAM_IDLE: ");
  ExpectEnded(import->Finish(), Code::DEADLINE_EXCEEDED, "STREAM_IDLE: ");
  ExpectEnded(updates->Finish(), Code::DEADLINE_EXCEEDED, "STREAM_IDLE: ");
}

TEST(ControlGuard, ReplacementsMustGoOn) {
  ServerOptions options = Impatient();
  options.control.max_replacements = 1;
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  EXPECT_TRUE(SucceedsInThree([&] {
    bool taken = true;
    grpc::Status status;
    // The place of an attempt before may be taken for a moment yet.
    EXPECT_TRUE(Await([&] {
      CallContext context;
      v1::ReplaceRoutesResponse response;
      const auto writer = running.table().ReplaceRoutes(&context, &response);
      taken = true;
      // Longer than one message may take.
      for (uint32_t i = 0; i < 4 && taken; ++i) {
        taken = writer->Write(ManyRoutes(i, 1));
        absl::SleepFor(kShort / 3);
      }
      status = writer->Finish();
      return status.error_code() != Code::RESOURCE_EXHAUSTED;
    }));
    ExpectEnded(status, Code::DEADLINE_EXCEEDED, "STREAM_IDLE: ");
    return taken;
  }));
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
  // Its place is free again.
  v1::ReplaceRoutesRequest all = ManyRoutes(0, 1);
  all.set_commit(true);
  EXPECT_TRUE(Await(
      [&] { return Call(running, &Stub::ReplaceRoutes, {all}).status.ok(); }));
}

TEST(ControlGuard, UpdateStreamsMayBeIdle) {
  RunningServer running(Impatient());
  v1::StreamUpdatesRequest hello;
  hello.set_ack(v1::ACK_VISIBLE);
  EXPECT_TRUE(SucceedsInThree([&] {
    CallContext context;
    const auto stream = running.table().StreamUpdates(&context);
    v1::StreamUpdatesResponse reply;
    bool well = stream->Write(hello) && stream->Read(&reply);
    absl::SleepFor(2 * kShort);
    well = well && stream->Write(StreamBatch(1, {{"::/0", 1}})) &&
           stream->Read(&reply) && reply.generation() == 1;
    absl::SleepFor(2 * kShort);
    stream->WritesDone();
    return stream->Finish().ok() && well;
  }));
}

// Waiting for visibility is not being idle.
TEST(ControlGuard, WatchesMayBeIdle) {
  ServerOptions options = Impatient();
  options.control.bookmark_interval = absl::Hours(1);
  RunningServer running(options);
  uint32_t next_hop = 0;
  EXPECT_TRUE(SucceedsInThree([&] {
    CallContext context;
    const auto watch = running.table().WatchRoutes(&context, {});
    v1::WatchRoutesResponse message;
    bool well = watch->Read(&message);
    absl::SleepFor(2 * kShort);
    const uint64_t generation = running.Announce({{"::/0", ++next_hop}});
    while (well && message.generation() != generation) {
      well = watch->Read(&message);
    }
    context.TryCancel();
    return well;
  }));
}

TEST(ControlGuard, ReadersMustGoOn) {
  ServerOptions options = Impatient();
  options.control.max_lists = 1;
  options.initial.generate_v6 = 20'000;  // half a mebibyte
  RunningServer running(options);
  const auto client = NarrowClient(running);
  CallContext context;
  const auto list = client->ListRoutes(&context, {});
  v1::ListRoutesResponse chunk;
  ASSERT_TRUE(list->Read(&chunk));
  // The call ends though nothing more is read, and gives back its place and
  // its generation.
  EXPECT_TRUE(Await(
      [&] { return Call(running, &Stub::ListNextHops, {}).status.ok(); }));
  while (list->Read(&chunk)) continue;
  ExpectEnded(list->Finish(), Code::RESOURCE_EXHAUSTED, "READER_STALLED: ");
}

TEST(ControlGuard, WatchersMustGoOn) {
  ServerOptions options = Impatient();
  options.control.max_watchers = 1;
  RunningServer running(options);
  const auto client = NarrowClient(running);
  CallContext context;
  const auto watch = client->WatchRoutes(&context, {});
  v1::WatchRoutesResponse message;
  ASSERT_TRUE(watch->Read(&message));
  ASSERT_TRUE(
      Call(running, &Stub::UpdateRoutes, ManyUpdates(20'000)).status.ok());
  // The watch ends though nothing more is read, and gives back its place.
  v1::WatchRoutesRequest from;
  from.set_start_generation(1);
  EXPECT_TRUE(Await([&] {
    CallContext again;
    const bool taken =
        running.table().WatchRoutes(&again, from)->Read(&message);
    again.TryCancel();
    return taken;
  }));
  while (watch->Read(&message)) continue;
  ExpectEnded(watch->Finish(), Code::RESOURCE_EXHAUSTED, "READER_STALLED: ");
}

// A reader that is slow, but reads. The whole takes longer than one message
// may.
TEST(ControlGuard, SlowReadersMayGoOn) {
  ServerOptions options;
  options.control.timeouts.progress = absl::Seconds(1);
  options.initial.generate_v6 = 40'000;
  RunningServer running(options);
  const auto client = NarrowClient(running);
  EXPECT_TRUE(SucceedsInThree([&] {
    CallContext context;
    const auto list = client->ListRoutes(&context, {});
    v1::ListRoutesResponse chunk;
    int routes = 0;
    while (list->Read(&chunk)) {
      routes += chunk.routes_size();
      absl::SleepFor(absl::Milliseconds(75));
    }
    return list->Finish().ok() && routes == 40'000;
  }));
}

// Not even the reply to a unary call may hold a thread for ever.
TEST(ControlGuard, RepliesMustBeTaken) {
  ServerOptions options = Impatient();
  options.control.max_lists = options.control.max_watchers = 1;
  options.control.max_replacements = options.control.max_update_streams = 1;
  options.control.max_replicated_calls = 1;
  options.transport.max_control_calls = 69;
  RunningServer running(options);
  http2::RawConnection connection(absl::StrCat("unix://", running.socket()));
  connection.Send(http2::Preface(http2::Setting(http2::kInitialWindowSize, 0)) +
                  http2::SettingsAck());
  for (uint32_t stream = 1; stream < 400; stream += 2) {
    const char* const path = stream % 4 == 1 ? "/planb.v1.RouteTable/GetTable"
                                             : "/grpc.health.v1.Health/Check";
    ASSERT_TRUE(connection.Send(http2::OpenCall(stream, path) +
                                http2::Frame(http2::kData, http2::kEndStream,
                                             stream, http2::Message(""))));
  }
  ASSERT_TRUE(connection.AwaitRead(absl::Now() + kPatience));
  grpc::Status status;
  EXPECT_TRUE(Await([&] {
    CallContext context;
    v1::Table table;
    status = running.table().GetTable(&context, {}, &table);
    return status.ok();
  })) << status.error_message();
  EXPECT_TRUE(connection.open());
}

// One client opens as many streams as it can. Others are served meanwhile.
TEST(ControlGuard, OneClientLeavesRoomForOthers) {
  ServerOptions options;
  options.control.timeouts.first_message = kPatience;
  RunningServer running(options);
  struct Opened {
    CallContext context;
    v1::ReplaceRoutesResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::ReplaceRoutesRequest>> writer;
  };
  std::vector<std::unique_ptr<Opened>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(std::make_unique<Opened>());
    Opened& call = *calls.back();
    call.writer = running.table().ReplaceRoutes(&call.context, &call.response);
  }
  EXPECT_EQ(GetTable(running).accepted_generation(), 0U);
  UpdateStream updates(running);
  const auto other = v1::RouteTable::NewStub(running.unix_socket());
  CallContext context;
  v1::ReplaceRoutesResponse response;
  const auto writer = other->ReplaceRoutes(&context, &response);
  v1::ReplaceRoutesRequest all = ManyRoutes(0, 1);
  all.set_commit(true);
  EXPECT_TRUE(writer->Write(all));
  writer->WritesDone();
  const grpc::Status replaced = writer->Finish();
  EXPECT_TRUE(replaced.ok()) << replaced.error_message();
  // Those that have ended take no message.
  EXPECT_TRUE(Await([&] {
    return 188 == std::count_if(calls.begin(), calls.end(), [](auto& call) {
             return !call->writer->Write(ManyRoutes(0, 1));
           });
  }));
  int open = 0, refused = 0;
  for (const auto& call : calls) {
    call->writer->WritesDone();
    const grpc::Status status = call->writer->Finish();
    if (status.error_code() == Code::INVALID_ARGUMENT) {  // no commit
      ++open;
    } else {
      ++refused;
      ExpectQuota(status, "TOO_MANY_STREAMS", true);
    }
  }
  EXPECT_EQ(open, 12);
  EXPECT_EQ(refused, 188);
}

TEST(ControlGuard, StreamsLeaveThreadsForOtherCalls) {
  ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  options.transport.max_control_calls = 192 + 64;
  EXPECT_TRUE(Server::Start(options).ok());
  options.transport.max_control_calls = 192 + 63;
  const absl::Status status = Server::Start(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  options.transport.max_control_calls = 256;
  options.control.max_lists = std::numeric_limits<size_t>::max();
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start(options).status()));
}

// Memory.

constexpr size_t kMemory = 1 << 20;

TEST(ControlMemory, OneRequestMayTakeAllOfIt) {
  ServerOptions options;
  options.control.update_memory_bytes = kMemory;
  RunningServer running(options);
  EXPECT_TRUE(
      Call(running, &Stub::UpdateRoutes, ManyUpdates(3000)).status.ok());
  ExpectQuota(Call(running, &Stub::UpdateRoutes, ManyUpdates(30'000)).status,
              "REQUEST_TOO_LARGE", false);
  v1::UpdateNextHopsRequest hops;
  for (uint32_t i = 1; i <= 20'000; ++i) hops.add_upserts()->set_id(i);
  ExpectQuota(Call(running, &Stub::UpdateNextHops, hops).status,
              "REQUEST_TOO_LARGE", false);
  ExpectQuota(
      Call(running, &Stub::ReplaceRoutes, {ManyRoutes(0, 30'000)}).status,
      "REQUEST_TOO_LARGE", false);
  v1::ImportSnapshotRequest import;
  import.set_data(std::string(kMemory, 'x'));
  ExpectQuota(Call(running, &Stub::ImportSnapshot, {import}).status,
              "REQUEST_TOO_LARGE", false);
  UpdateStream stream(running);
  v1::StreamUpdatesRequest batch;
  *batch.mutable_updates() = ManyUpdates(30'000).updates();
  stream.Write(batch);
  ExpectQuota(stream.Finish(), "REQUEST_TOO_LARGE", false);
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

// A replacement holds most of the memory. Meanwhile large updates are refused
// or wait, and small ones are applied. Returns false if one came before the
// replacement, sent `head_start` before, had all of it: that one is refused.
bool SharesWithAReplacement(absl::Duration head_start) {
  ServerOptions options;
  options.control.update_memory_bytes = kMemory;
  RunningServer running(options);
  const auto large = [&] {
    return Call(running, &Stub::UpdateRoutes, ManyUpdates(2500)).status;
  };
  EXPECT_TRUE(large().ok());
  CallContext context;
  v1::ReplaceRoutesResponse response;
  const auto writer = running.table().ReplaceRoutes(&context, &response);
  for (uint32_t i = 0; i < 40'000; i += 2000) {
    EXPECT_TRUE(writer->Write(ManyRoutes(i, 2000)));
  }
  absl::SleepFor(head_start);
  const grpc::Status status = large();
  if (status.ok()) return false;
  ExpectQuota(status, "TOO_MANY_PENDING", true);
  EXPECT_TRUE(Call(running, &Stub::UpdateRoutes, ManyUpdates(10)).status.ok());
  UpdateStream stream(running);
  v1::StreamUpdatesRequest batch;
  batch.set_batch_id(7);
  *batch.mutable_updates() = ManyUpdates(2500, 2).updates();
  EXPECT_TRUE(stream.Write(batch));
  absl::SleepFor(absl::Milliseconds(100));
  if (GetTable(running).accepted_generation() != 1) return false;
  context.TryCancel();
  const v1::StreamUpdatesResponse reply = stream.Read();
  EXPECT_EQ(reply.batch_id(), 7U);
  EXPECT_EQ(reply.changed(), 2500U) << reply.ShortDebugString();
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(large().ok());
  return true;
}

TEST(ControlMemory, IsSharedByUpdates) {
  absl::Duration head_start = absl::Milliseconds(250);
  EXPECT_TRUE(
      SucceedsInThree([&] { return SharesWithAReplacement(head_start *= 2); }));
}

TEST(ControlMemory, MalformedMessagesEndTheirCalls) {
  RunningServer running;
  UpdateStream stream(running);
  v1::StreamUpdatesRequest bad = StreamBatch(2, {});
  bad.GetReflection()->MutableUnknownFields(&bad)->AddLengthDelimited(
      5, "\x12\x05x");
  ASSERT_TRUE(stream.Write(StreamBatch(1, {{"::/0", 1}})));
  ASSERT_TRUE(stream.Write(bad));
  EXPECT_EQ(stream.Read().generation(), 1U);  // the batch before is answered
  ExpectError(stream.Finish(), Code::INVALID_ARGUMENT, "MESSAGE_MALFORMED", "");
  v1::UpdateRoutesRequest update;
  update.GetReflection()->MutableUnknownFields(&update)->AddLengthDelimited(
      2, "\x12\x05x");
  ExpectError(Call(running, &Stub::UpdateRoutes, update).status,
              Code::INVALID_ARGUMENT, "MESSAGE_MALFORMED", "");
  v1::ReplaceRoutesRequest replace;
  replace.GetReflection()->MutableUnknownFields(&replace)->AddLengthDelimited(
      5, "\x12\x05x");
  ExpectError(Call(running, &Stub::ReplaceRoutes, {replace}).status,
              Code::INVALID_ARGUMENT, "MESSAGE_MALFORMED", "");
}

}  // namespace
}  // namespace planb::server
