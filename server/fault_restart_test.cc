// SPDX-License-Identifier: Apache-2.0

// A start on a million routes: the server is ready only when the routes are
// visible, and can be stopped before. A server without a store says so.
// Requests that are repeated are known, before a restart and after.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/store/sqlite_store.h"
#include "server/testing/running_server.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

using grpc::health::v1::HealthCheckResponse;
constexpr uint64_t kRoutes = 1'000'000;

bool Logs(StoredServer& server, absl::string_view event) {
  return absl::StrContains(server.process().Log(), event);
}

bool AwaitLog(StoredServer& server, absl::string_view event) {
  return Await([&] { return Logs(server, event); });
}

// REQUIRES: the server has ended.
void ExpectStoppedBeforeServing(StoredServer& server) {
  EXPECT_TRUE(Logs(server, "stopped before serving"));
  EXPECT_FALSE(Logs(server, " serving\n")) << server.process().Log();
}

// The answer to a health check; nullopt if there is none.
std::optional<HealthCheckResponse::ServingStatus> Health(
    grpc::health::v1::Health::Stub& health) {
  grpc::ClientContext call;
  call.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  HealthCheckResponse response;
  const grpc::Status status = health.Check(&call, {}, &response);
  if (status.ok()) return response.status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << status.error_message();
  return std::nullopt;
}

// A channel that reconnects at once.
std::shared_ptr<grpc::Channel> Impatient(const StoredServer& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10);
  return grpc::CreateCustomChannel(absl::StrCat("unix://", server.socket()),
                                   grpc::InsecureChannelCredentials(),
                                   arguments);
}

// Fixture with a store of a million routes, which is made once.
class MillionRoutes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    store_ = NewStorePath("million");
    StoredServer server(store_, {absl::StrCat("--generate=", kRoutes)});
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    state_ = server.State();
    ASSERT_EQ(state_.routes_v6(), kRoutes);
    ASSERT_EQ(state_.accepted_generation(), 1U);
    // A host route, so that no other route answers for its address.
    v1::UpdateRoutesRequest request;
    AddChange("2001:db8::1/128", 7, request);
    ASSERT_TRUE(server.Update(request).ok());
    state_ = server.State();
    server.KillNow();
  }

  static inline std::string store_;
  static inline v1::Table state_;
};

TEST_F(MillionRoutes, SignalsEndTheServerDuringTheRestore) {
  for (const int signal : {SIGTERM, SIGINT}) {
    // Once more if the machine held up the signal until the restore was over.
    EXPECT_TRUE(SucceedsInThree([&] {
      StoredServer server(store_);
      EXPECT_TRUE(AwaitLog(server, "tables are stored"));
      server.process().Kill(signal);
      EXPECT_EQ(server.process().Wait(), 0);
      if (Logs(server, " serving\n")) return false;
      ExpectStoppedBeforeServing(server);
      return true;
    }));
  }
}

// Takes 5 s, of which the first test of the fixture stores the routes.
TEST_F(MillionRoutes, AreVisibleOnceTheServerIsReady) {
  // Once more if the machine held up all health checks until the end.
  EXPECT_TRUE(SucceedsInThree([&] {
    const absl::Time start = absl::Now();
    StoredServer server(store_);
    const auto health = grpc::health::v1::Health::NewStub(Impatient(server));
    int not_ready = 0;
    EXPECT_TRUE(Await([&] {
      const bool ready = Health(*health) == HealthCheckResponse::SERVING;
      if (!ready) ++not_ready;
      return ready;
    })) << server.process().Log();
    const absl::Duration took = absl::Now() - start;
    EXPECT_EQ(server.Lookup("2001:db8::1"), 7U);
    const v1::Table state = server.State();
    EXPECT_EQ(state.visible_generation(), state_.accepted_generation());
    EXPECT_EQ(state.accepted_generation(), state_.accepted_generation());
    EXPECT_EQ(state.persisted_generation(), state_.accepted_generation());
    EXPECT_EQ(state.digest(), state_.digest());
    EXPECT_EQ(state.routes_v6(), kRoutes + 1);
    EXPECT_EQ(state.store_path(), store_);
    std::cout << "ready after " << took << " with " << state.routes_v6()
              << " routes; asked " << not_ready << " times before\n";
    RecordProperty("ready_ms",
                   static_cast<int>(absl::ToInt64Milliseconds(took)));
    return not_ready > 0;
  })) << "no health check came during the start";
}

// What a table was created with is stored. Of the default table the flag tells,
// at each start.
TEST(FaultRestart, TablesKeepTheirPrefixLengths) {
  const std::string path = NewStorePath("lengths");
  for (const bool restarted : {false, true}) {
    ServerOptions options;
    options.store = SqliteStore::Open({.path = path}).value();
    options.tables.default_fib.prefix_lengths = restarted;
    options.lookup.max_lookup_addresses = 1;
    RunningServer running(options);
    if (!restarted) running.Announce({{"2001:db8::/32", 7}});
    for (const auto& [name, kept] : std::map<std::string, bool>{
             {"default", restarted}, {"kept", true}, {"plain", false}}) {
      SCOPED_TRACE(name);
      if (!restarted && name != "default") {
        v1::CreateTableRequest create;
        create.set_table(name);
        create.set_prefix_lengths(kept);
        v1::Table created;
        grpc::ClientContext call;
        ASSERT_TRUE(running.table().CreateTable(&call, create, &created).ok());
        v1::UpdateRoutesRequest update;
        update.set_table(name);
        AddChange("2001:db8::/32", 7, update);
        v1::UpdateRoutesResponse updated;
        grpc::ClientContext second;
        ASSERT_TRUE(
            running.table().UpdateRoutes(&second, update, &updated).ok());
      }
      v1::GetTableRequest get;
      get.set_table(name);
      v1::Table state;
      grpc::ClientContext call;
      ASSERT_TRUE(running.table().GetTable(&call, get, &state).ok());
      EXPECT_EQ(state.prefix_lengths(), kept);
      // More addresses than a table may be asked for that does not keep them.
      v1::BatchLookupRequest batch;
      batch.set_table(name);
      batch.set_want_prefix_lengths(true);
      batch.set_addresses_v6(Address::Parse("2001:db8::1")->ToPacked() +
                             Address::Parse("::1")->ToPacked());
      v1::BatchLookupResponse found;
      grpc::ClientContext stream_context;
      const auto stream = running.lookup().BatchLookup(&stream_context);
      ASSERT_TRUE(stream->Write(batch));
      ASSERT_TRUE(stream->Read(&found));
      EXPECT_EQ(found.prefix_lengths(), kept ? "\x20\xff" : "");
      EXPECT_EQ(found.error().reason(), kept ? "" : "BATCH_TOO_LARGE");
      stream->WritesDone();
      EXPECT_TRUE(stream->Finish().ok());
    }
  }
}

// A pipe that stays open stands for a slow source of routes.
TEST(FaultRestart, SignalsEndTheServerWhileItReadsRoutes) {
  const std::string store = NewStorePath("reading");
  const std::string pipe = TempPath("routes");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const int signal : {SIGTERM, SIGINT}) {
    StoredServer server(store, {absl::StrCat("--routes=", pipe)});
    const int file = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    const std::string routes = "2001:db8::/32 1\n2001:db8:1::/48 2\n";
    EXPECT_EQ(write(file, routes.data(), routes.size()),
              static_cast<ssize_t>(routes.size()));
    EXPECT_EQ(Health(*grpc::health::v1::Health::NewStub(Impatient(server))),
              std::nullopt);
    server.process().Kill(signal);
    EXPECT_EQ(server.process().Wait(), 0);
    ExpectStoppedBeforeServing(server);
    close(file);
  }
  unlink(pipe.c_str());
  // No part of the file was stored.
  StoredServer server(store);
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  EXPECT_EQ(server.State().accepted_generation(), 0U);
  EXPECT_TRUE(server.List().routes.empty());
}

// A client that lost the answer to a crash gets it from the next process.
TEST(FaultRestart, AReplacementIsRepeatedAfterACrash) {
  const std::string store = NewStorePath("repeat");
  v1::ReplaceRoutesRequest request;
  request.set_request_id("once");
  request.set_ack(v1::ACK_PERSISTED);
  request.set_commit(true);
  v1::Route& route = *request.add_routes();
  route.mutable_prefix()->set_text("2001:db8::/32");
  route.set_next_hop_id(1);
  const auto replace = [&](StoredServer& server,
                           v1::ReplaceRoutesResponse& response) {
    grpc::ClientContext call;
    const auto stream = server.table().ReplaceRoutes(&call, &response);
    stream->Write(request);
    stream->WritesDone();
    return stream->Finish();
  };
  v1::ReplaceRoutesResponse first;
  {
    StoredServer server(store);
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    ASSERT_TRUE(server.Update(Announcement(0, 3, 2)).ok());
    const grpc::Status status = replace(server, first);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(first.generation(), 2U);
    EXPECT_EQ(first.removed(), 3U);
    ASSERT_TRUE(server.Update(Announcement(0, 1, 3)).ok());
    server.KillNow();
  }
  StoredServer server(store);
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  v1::ReplaceRoutesResponse again;
  const grpc::Status status = replace(server, again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.generation(), 2U);
  EXPECT_EQ(again.added(), 1U);
  EXPECT_EQ(again.removed(), 3U);
  EXPECT_EQ(again.digest(), first.digest());
  EXPECT_EQ(server.State().accepted_generation(), 3U);
  EXPECT_EQ(server.Lookup("2001:db8::1"), 3U);
  request.mutable_routes(0)->set_next_hop_id(2);
  EXPECT_EQ(ReasonOf(replace(server, again)), "REQUEST_ID_REUSED");
}

// The watch goes on from the generation that the client has, without the whole
// table.
TEST(FaultRestart, AWatchContinuesAcrossACrash) {
  const std::string store = NewStorePath("watch");
  std::string digest;
  {
    StoredServer server(store);
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    ASSERT_TRUE(server.Update(Announcement(0, 5, 1)).ok());
    digest = server.State().digest();
    ASSERT_TRUE(server.Update(Announcement(2, 3, 2)).ok());
    ASSERT_TRUE(server.Update(Announcement(9, 1, 3)).ok());
    server.KillNow();
  }
  StoredServer server(store);
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  v1::WatchRoutesRequest request;
  request.set_start_generation(1);
  request.set_start_digest(digest);
  grpc::ClientContext call;
  const auto watch = server.table().WatchRoutes(&call, request);
  v1::WatchRoutesResponse message;
  std::map<uint64_t, int> updates;  // of each generation
  while (!updates.contains(3) && watch->Read(&message)) {
    EXPECT_FALSE(message.reset());
    if (message.updates_size() == 0) continue;
    updates[message.generation()] += message.updates_size();
  }
  EXPECT_EQ(updates, (std::map<uint64_t, int>{{2, 3}, {3, 1}}));
  EXPECT_EQ(message.digest(), server.State().digest());
  // And with what is accepted now.
  ASSERT_TRUE(server.Update(Announcement(20, 2, 4)).ok());
  while (message.generation() < 4 && watch->Read(&message)) continue;
  EXPECT_EQ(message.updates_size(), 2);
  call.TryCancel();
}

// Each batch costs 257 of 200,000 credits, and one client has 12 streams.
constexpr uint64_t kStreams = 12;
constexpr uint64_t kNamed = 778;

using Updates = grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                         v1::StreamUpdatesResponse>;

// Sends as many named batches on each stream as are allowed without an answer.
class NamedBatches {
 public:
  explicit NamedBatches(StoredServer& server) {
    for (uint64_t s = 0; s < kStreams; ++s) {
      Open(server);
      if (streams_.size() <= s) return;
      for (uint64_t i = 1; i <= kNamed; ++i) {
        v1::StreamUpdatesRequest batch;
        batch.set_batch_id(i);
        batch.set_request_id(absl::StrCat(s, "/", i));
        v1::RouteUpdate& update = *batch.add_updates();
        update.set_op(v1::RouteUpdate::OP_UPSERT);
        update.mutable_prefix()->set_text("::/0");
        update.set_next_hop_id(static_cast<uint32_t>(s * kNamed + i));
        EXPECT_TRUE(streams_.back()->Write(batch));
      }
    }
  }

  // Reads all answers.
  void ExpectAccepted() {
    for (const auto& stream : streams_) {
      stream->WritesDone();
      v1::StreamUpdatesResponse answer;
      for (uint64_t i = 1; i <= kNamed; ++i) {
        ASSERT_TRUE(stream->Read(&answer)) << i;
        EXPECT_FALSE(answer.has_error()) << answer.ShortDebugString();
      }
      EXPECT_TRUE(stream->Finish().ok());
    }
  }

  // Breaks the streams without having read an answer.
  void Break() {
    for (const auto& call : calls_) call->TryCancel();
    for (const auto& stream : streams_) {
      v1::StreamUpdatesResponse answer;
      while (stream->Read(&answer)) {
      }
      EXPECT_FALSE(stream->Finish().ok());
    }
  }

 private:
  // A stream that was broken counts until the server has noticed it; until then
  // the server refuses the client's next one.
  void Open(StoredServer& server) {
    const absl::Time deadline = absl::Now() + kPatience;
    v1::StreamUpdatesRequest hello;
    hello.set_ack(v1::ACK_ACCEPTED);
    while (true) {
      auto call = std::make_unique<grpc::ClientContext>();
      auto stream = server.table().StreamUpdates(call.get());
      v1::StreamUpdatesResponse answer;
      if (stream->Write(hello) && stream->Read(&answer)) {
        calls_.push_back(std::move(call));
        streams_.push_back(std::move(stream));
        return;
      }
      ASSERT_EQ(ReasonOf(stream->Finish()), "TOO_MANY_STREAMS");
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  std::vector<std::unique_ptr<grpc::ClientContext>> calls_;
  std::vector<std::unique_ptr<Updates>> streams_;
};

// All that a client may have on the way is repeated after a broken connection,
// and again after a kill.
TEST(RepeatedRequests, AreAppliedOnce) {
  constexpr uint64_t kAll = kStreams * kNamed;
  const std::string store = NewStorePath("named");
  std::string digest;
  {
    StoredServer server(store, {"--store_sync=off"});
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    NamedBatches first(server);
    ASSERT_TRUE(
        Await([&] { return server.State().accepted_generation() >= kAll; }));
    digest = server.State().digest();
    first.Break();
    NamedBatches(server).ExpectAccepted();
    EXPECT_EQ(server.State().accepted_generation(), kAll);
    EXPECT_EQ(server.State().digest(), digest);
    server.KillNow();
  }
  StoredServer server(store, {"--store_sync=off"});
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  NamedBatches(server).ExpectAccepted();
  EXPECT_EQ(server.State().accepted_generation(), kAll);
  EXPECT_EQ(server.State().digest(), digest);
}

}  // namespace
}  // namespace planb::server
