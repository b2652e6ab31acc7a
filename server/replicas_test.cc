// SPDX-License-Identifier: Apache-2.0

// Several real servers that share their tables through a real etcd of three
// members, while servers and members are killed, paused and started again.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/testing/test_certificates.h"
#include "base/testing/wire.h"
#include "grpcpp/client_context.h"
#include "server/testing/etcd_cluster.h"
#include "server/testing/running_server.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

class Replicas : public testing::Test {
 protected:
  // One member of etcd is enough where none is killed beside others that stay.
  explicit Replicas(int members = 1) : members_(members) {}

  void SetUp() override {
    if (!EtcdCluster::Available()) GTEST_SKIP() << "there is no program etcd";
    cluster_ = std::make_unique<EtcdCluster>(members_);
  }

  std::unique_ptr<StoredServer> Start(std::vector<std::string> more = {}) {
    auto server =
        std::make_unique<StoredServer>(cluster_->Url("planb"), std::move(more));
    EXPECT_TRUE(server->Begins()) << server->process().Log();
    return server;
  }

  std::vector<std::unique_ptr<StoredServer>> StartAll(size_t count) {
    std::vector<std::unique_ptr<StoredServer>> servers(count);
    for (auto& server : servers) server = Start();
    return servers;
  }

  void KillMembers() {
    for (int i = 0; i < members_; ++i) cluster_->Kill(i);
  }

  void StartMembers() {
    for (int i = 0; i < members_; ++i) cluster_->Start(i);
    ASSERT_TRUE(cluster_->AwaitAnswer());
  }

  // Waits until all servers show one generation and digest, and expects that.
  static void ExpectSame(
      const std::vector<std::unique_ptr<StoredServer>>& servers) {
    std::vector<v1::Table> states;
    Await([&] {
      states.clear();
      for (const auto& server : servers) states.push_back(server->State());
      return std::all_of(states.begin(), states.end(), [&](const auto& state) {
        return state.visible_generation() == states[0].accepted_generation() &&
               state.accepted_generation() == states[0].accepted_generation();
      });
    });
    for (const v1::Table& state : states) {
      EXPECT_EQ(state.accepted_generation(), states[0].accepted_generation());
      EXPECT_EQ(state.visible_generation(), states[0].accepted_generation());
      EXPECT_EQ(state.digest(), states[0].digest());
      EXPECT_EQ(state.routes_v6(), states[0].routes_v6());
      EXPECT_EQ(state.complete_since_unix_nanos(),
                states[0].complete_since_unix_nanos());
    }
  }

  const int members_;
  std::unique_ptr<EtcdCluster> cluster_;
};

// Repeats the update until etcd takes it again.
void UpdateOnceTaken(StoredServer& server,
                     const v1::UpdateRoutesRequest& request,
                     v1::UpdateRoutesResponse* response = nullptr) {
  grpc::Status status;
  EXPECT_TRUE(Await([&] {
    status = server.Update(request, response);
    return status.ok();
  })) << status.error_message();
}

class ReplicasOnAQuorum : public Replicas {
 protected:
  ReplicasOnAQuorum() : Replicas(3) {}
};

TEST_F(Replicas, WriteToOneAndReadFromAnother) {
  std::vector<std::unique_ptr<StoredServer>> servers = StartAll(3);
  for (uint32_t i = 0; i < 30; ++i) {
    v1::UpdateRoutesResponse response;
    ASSERT_TRUE(
        servers[i % 3]->Update(Announcement(i * 4, 4, i + 1), &response).ok());
    // A lookup on another server that waits for the generation.
    EXPECT_EQ(servers[(i + 1) % 3]->Lookup(
                  absl::StrCat("2001:db8:", absl::Hex(i * 4), "::1"),
                  response.generation()),
              i + 1);
  }
  ExpectSame(servers);
  v1::UpdateRoutesRequest word;
  word.set_complete(true);
  ASSERT_TRUE(servers[0]->Update(word).ok());
  ExpectSame(servers);
  // And one that reads it from the store.
  servers.push_back(Start());
  ExpectSame(servers);
  EXPECT_NE(servers[3]->State().complete_since_unix_nanos(), 0U);
}

// A server that reads its initial routes while others write already, also with
// a writer's epoch, which would refuse them for itself.
TEST_F(Replicas, InitialRoutesReplaceNothingThatWasWrittenMeanwhile) {
  const std::string routes = TempPath("initial_routes");
  for (const uint64_t epoch : {0, 5}) {
    const std::string url = cluster_->Url(absl::StrCat("epoch", epoch));
    unlink(routes.c_str());
    ASSERT_EQ(mkfifo(routes.c_str(), 0600), 0);
    StoredServer slow(url, {"--routes=" + routes});
    // It opens once the server reads, which has found the table empty.
    int file = -1;
    ASSERT_TRUE(Await([&] {
      file = open(routes.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      return file >= 0;
    })) << slow.process().Log();
    StoredServer writer(url);
    ASSERT_TRUE(writer.Begins()) << writer.process().Log();
    v1::UpdateRoutesRequest update = Announcement(0, 3, 7);
    update.set_writer_epoch(epoch);
    ASSERT_TRUE(writer.Update(update).ok());
    const Listed before = writer.List();
    constexpr absl::string_view kRoute = "2001:db8:ffff::/48 9\n";
    EXPECT_EQ(write(file, kRoute.data(), kRoute.size()),
              static_cast<ssize_t>(kRoute.size()));
    close(file);
    ASSERT_TRUE(slow.Begins()) << slow.process().Log();
    EXPECT_EQ(slow.List(), before);
    EXPECT_EQ(writer.List(), before);
    EXPECT_TRUE(absl::StrContains(slow.process().Log(), "kept what is stored"));
  }
}

// The servers that `server` knows of, with what is visible there.
std::map<std::string, uint64_t> Known(StoredServer& server) {
  grpc::ClientContext call;
  v1::ListReplicasResponse response;
  const grpc::Status status = server.table().ListReplicas(&call, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::map<std::string, uint64_t> known;
  int selves = 0;
  for (const v1::Replica& replica : response.replicas()) {
    EXPECT_FALSE(replica.version().empty());
    selves += replica.self() ? 1 : 0;
    known[replica.name()] =
        replica.tables().empty() ? 0 : replica.tables(0).generation();
  }
  EXPECT_EQ(selves, 1);
  return known;
}

// Takes 10 s: the lease of a server that is killed.
TEST_F(Replicas, AnAckWaitsForAsManyServersAsItNames) {
  std::vector<std::unique_ptr<StoredServer>> servers;
  for (const char* name : {"a", "b", "c"}) {
    servers.push_back(Start({absl::StrCat("--replica_name=", name)}));
  }
  Await([&] { return Known(*servers[0]).size() == 3; });
  v1::UpdateRoutesResponse response;
  for (uint32_t i = 0; i < 20; ++i) {
    v1::UpdateRoutesRequest request = Announcement(i, 1, i + 1);
    request.set_ack(v1::ACK_REPLICATED);
    ASSERT_TRUE(servers[i % 3]->Update(request, &response).ok());
    // Without a generation to wait for.
    for (const auto& server : servers) {
      EXPECT_EQ(server->Lookup(absl::StrCat("2001:db8:", absl::Hex(i), "::1")),
                i + 1);
    }
  }
  const uint64_t generation = response.generation();
  const std::map<std::string, uint64_t> all_there = {
      {"a", generation}, {"b", generation}, {"c", generation}};
  // The server that was written to counts before it reports.
  EXPECT_TRUE(Await([&] { return Known(*servers[0]) == all_there; }));

  // One that is paused is waited for, by calls that want it.
  servers[2]->process().Kill(SIGSTOP);
  v1::UpdateRoutesRequest request = Announcement(100, 1, 7);
  request.set_ack(v1::ACK_REPLICATED);
  request.set_ack_replicas(2);
  ASSERT_TRUE(servers[0]->Update(request, &response).ok());
  EXPECT_EQ(servers[1]->Lookup("2001:db8:64::1"), 7U);
  request.set_ack_replicas(3);
  request.set_request_id("three");
  AddChange("2001:db8:65::/48", 8, request);
  {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() +
                      std::chrono::seconds(1));
    EXPECT_EQ(servers[0]
                  ->table()
                  .UpdateRoutes(&call, request, &response)
                  .error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  servers[2]->process().Kill(SIGCONT);
  ASSERT_TRUE(servers[0]->Update(request, &response).ok());
  EXPECT_EQ(servers[2]->Lookup("2001:db8:65::1"), 8U);

  // One that ends is forgotten at once, and one that is killed with its lease.
  EXPECT_EQ(servers[2]->End(), 0);
  EXPECT_EQ(Known(*servers[0]).size(), 2U);
  servers[1]->KillNow();
  EXPECT_EQ(Known(*servers[0]).size(), 2U);
  v1::UpdateRoutesRequest all = Announcement(200, 1, 9);
  all.set_ack(v1::ACK_REPLICATED);
  ASSERT_TRUE(servers[0]->Update(all, &response).ok());
  EXPECT_EQ(Known(*servers[0]).size(), 1U);
}

TEST_F(Replicas, AnAckWaitsNoLongerThanTheServerAllows) {
  const auto server = Start({"--max_replication_wait=100ms"});
  v1::UpdateRoutesRequest request = Announcement(0, 1, 7);
  request.set_ack(v1::ACK_REPLICATED);
  request.set_ack_replicas(2);
  grpc::Status status = server->Update(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ReasonOf(status), "NOT_REPLICATED") << status.error_message();
  EXPECT_EQ(server->Lookup("2001:db8::1"), 7U);
  request.set_ack_replicas(1);
  UpdateOnceTaken(*server, request);
}

// Of a stream, batches that were accepted together wait together.
TEST_F(Replicas, BatchesOfAStreamWaitTogether) {
  constexpr uint32_t kBatches = 200;
  const auto server = Start({"--max_replication_wait=1s"});
  grpc::ClientContext call;
  call.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  const auto stream = server->table().StreamUpdates(&call);
  v1::StreamUpdatesRequest request;
  request.set_ack(v1::ACK_REPLICATED);
  request.set_ack_replicas(2);
  ASSERT_TRUE(stream->Write(request));
  v1::StreamUpdatesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  request.Clear();
  *request.mutable_updates() = Announcement(0, 1, 1).updates();
  for (uint32_t i = 1; i <= kBatches; ++i) {
    request.set_batch_id(i);
    request.mutable_updates(0)->set_next_hop_id(i);
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  for (uint32_t i = 1; i <= kBatches; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << stream->Finish().error_message();
    EXPECT_EQ(response.batch_id(), i);
    EXPECT_EQ(response.error().reason(), "NOT_REPLICATED");
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server->Lookup("2001:db8::1"), kBatches);
}

TEST_F(Replicas, CallsThatWaitForOthersLeaveRoomForOtherCalls) {
  constexpr size_t kCalls = 300;  // more than --max_control_calls
  const auto server = Start({"--max_replication_wait=1h", kMetrics});
  struct Call {
    grpc::ClientContext context;
    v1::UpdateRoutesRequest request;
    v1::UpdateRoutesResponse response;
  };
  std::vector<std::unique_ptr<Call>> calls;
  Mutex mutex;
  std::vector<grpc::Status> ended;
  for (uint32_t i = 0; i < kCalls; ++i) {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.request = Announcement(i, 1, 7);
    call.request.set_ack(v1::ACK_REPLICATED);
    call.request.set_ack_replicas(2);
    server->table().async()->UpdateRoutes(&call.context, &call.request,
                                          &call.response,
                                          [&](const grpc::Status& status) {
                                            const MutexLock lock(mutex);
                                            ended.push_back(status);
                                          });
  }
  const auto await = [&](size_t count) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (;;) {
      {
        const MutexLock lock(mutex);
        if (ended.size() >= count || absl::Now() > deadline) return ended;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  };
  // One client has three quarters of 32.
  const auto refused = await(kCalls - 24);
  EXPECT_EQ(refused.size(), kCalls - 24);
  for (const grpc::Status& status : refused) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    // gRPC refuses calls by itself while all its threads have one, as on a busy
    // machine.
    if (status.error_message() == "Server Threadpool Exhausted") continue;
    EXPECT_EQ(ReasonOf(status), "TOO_MANY_PENDING") << status.error_message();
  }
  EXPECT_EQ(server->Metric("planb_control_streams{kind=\"replicated\"}"), 24);
  // Those that wait for others were accepted.
  EXPECT_TRUE(
      Await([&] { return server->State().accepted_generation() == 24; }));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::UpdateRoutesResponse response;
  EXPECT_TRUE(server->table()
                  .UpdateRoutes(&context, Announcement(1000, 1, 7), &response)
                  .ok());
  // A refused batch changed nothing.
  EXPECT_EQ(response.generation(), 25U);
  for (const auto& call : calls) call->context.TryCancel();
  EXPECT_EQ(await(kCalls).size(), kCalls);
}

// Acknowledged batches of a writer that repeats what was not answered.
class Writer {
 public:
  // Each batch announces a prefix of its own.
  Writer(uint32_t number, std::vector<StoredServer*> servers)
      : number_(number), servers_(std::move(servers)) {}

  void Run(const std::atomic<bool>& stop) {
    std::mt19937_64 random(number_);
    for (uint32_t i = 0; !stop; ++i) {
      v1::UpdateRoutesRequest request;
      request.set_ack(v1::ACK_ACCEPTED);
      request.set_request_id(absl::StrCat("writer ", number_, " ", i));
      const std::string prefix = absl::StrCat(
          "2001:db8:", absl::Hex(number_), ":", absl::Hex(i % 65536), "::/64");
      AddChange(prefix, i + 1, request);
      for (;;) {
        StoredServer* const server = servers_[random() % servers_.size()];
        v1::UpdateRoutesResponse response;
        grpc::ClientContext call;
        call.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(15));
        const grpc::Status status =
            server->table().UpdateRoutes(&call, request, &response);
        if (status.ok()) {
          const absl::Time now = absl::Now();
          longest_ = std::max(longest_, now - last_);
          last_ = now;
          acked_[prefix] = i + 1;
          ++answered_;
          newest_ = std::max(newest_, response.generation());
          break;
        }
        if (stop) {
          undecided_ = prefix;
          return;
        }
        switch (status.error_code()) {
          case grpc::StatusCode::UNAVAILABLE:
          case grpc::StatusCode::DEADLINE_EXCEEDED:
          case grpc::StatusCode::ABORTED:
            break;
          default:
            ADD_FAILURE() << status.error_message();
            return;
        }
        absl::SleepFor(absl::Milliseconds(10));
      }
    }
  }

  // How many batches were acknowledged; also while Run() runs.
  size_t answered() const { return answered_; }
  const std::map<std::string, uint32_t>& acked() const { return acked_; }
  // The prefix of a batch that was never answered; empty if there is none.
  const std::string& undecided() const { return undecided_; }
  // The longest time between two acknowledgements.
  absl::Duration longest() const { return longest_; }

 private:
  const uint32_t number_;
  const std::vector<StoredServer*> servers_;
  std::map<std::string, uint32_t> acked_;
  std::atomic<size_t> answered_ = 0;
  std::string undecided_;
  absl::Time last_ = absl::Now();
  absl::Duration longest_;
  uint64_t newest_ = 0;
};

// Expects that every acknowledged batch, and no other, is in the table.
void ExpectAcked(const std::vector<std::unique_ptr<Writer>>& writers,
                 const StoredServer& server) {
  const Listed listed = server.List();
  size_t acked = 0;
  size_t undecided = 0;
  for (const auto& writer : writers) {
    for (const auto& [prefix, next_hop] : writer->acked()) {
      const auto found = listed.routes.find(Prefix::Parse(prefix).value());
      ASSERT_NE(found, listed.routes.end()) << prefix;
      EXPECT_EQ(found->second, next_hop) << prefix;
    }
    acked += writer->acked().size();
    undecided += writer->undecided().empty() ? 0 : 1;
  }
  EXPECT_GE(listed.routes.size(), acked);
  EXPECT_LE(listed.routes.size(), acked + undecided);
}

// Takes some seconds, in which etcd elects another leader.
TEST_F(ReplicasOnAQuorum, LoseNothingWhenTheLeaderOfEtcdIsKilled) {
  std::vector<std::unique_ptr<StoredServer>> servers = StartAll(2);
  UpdateOnceTaken(*servers[0], Announcement(0, 10, 7));
  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < 2; ++w) {
    writers.push_back(std::make_unique<Writer>(
        w + 0x1000, std::vector<StoredServer*>{servers[w].get()}));
    // Not writers[w]: the vector grows while threads run.
    threads.emplace_back([&stop, &writer = *writers[w]] { writer.Run(stop); });
  }
  std::atomic<int> lookups = 0;
  threads.emplace_back([&] {
    // Lookups never ask etcd.
    while (!stop) {
      EXPECT_EQ(servers[0]->Lookup("2001:db8:1::1"), 7U);
      ++lookups;
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  const auto expect_answers = [&] {
    for (const auto& writer : writers) {
      const size_t before = writer->answered();
      EXPECT_TRUE(Await([&] { return writer->answered() > before + 10; }));
    }
  };
  expect_answers();
  int leader = -1;
  EXPECT_TRUE(Await([&] {
    leader = cluster_->Leader();
    return leader >= 0;
  }));
  if (leader >= 0) {
    cluster_->Kill(leader);
    expect_answers();
    cluster_->Start(leader);
    expect_answers();
  }
  EXPECT_TRUE(Await([&] { return lookups > 100; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ExpectSame(servers);
  for (const auto& server : servers) {
    Listed listed = server->List();
    EXPECT_EQ(listed.digest, servers[0]->State().digest());
  }
  // Without the ten routes of the beginning.
  v1::UpdateRoutesRequest withdraw = Announcement(0, 10, 7);
  for (auto& update : *withdraw.mutable_updates()) {
    update.set_op(v1::RouteUpdate::OP_DELETE);
    update.set_next_hop_id(0);
  }
  UpdateOnceTaken(*servers[1], withdraw);
  ExpectSame(servers);
  ExpectAcked(writers, *servers[0]);
  for (const auto& writer : writers) {
    RecordProperty(
        "longest_pause_ms",
        static_cast<int>(absl::ToInt64Milliseconds(writer->longest())));
  }
}

TEST_F(Replicas, CatchUpAfterAPauseDuringWhichEtcdCompacts) {
  std::vector<std::unique_ptr<StoredServer>> servers = StartAll(2);
  ASSERT_TRUE(servers[0]->Update(Announcement(0, 1, 1)).ok());
  ExpectSame(servers);
  servers[1]->process().Kill(SIGSTOP);
  for (uint32_t i = 1; i < 200; ++i) {
    v1::UpdateRoutesRequest request = Announcement(i, 1, i);
    ASSERT_TRUE(servers[0]->Update(request).ok());
  }
  ASSERT_TRUE(cluster_->Compact().ok());
  servers[1]->process().Kill(SIGCONT);
  ExpectSame(servers);
  // It also writes again.
  ASSERT_TRUE(servers[1]->Update(Announcement(500, 1, 1)).ok());
  ExpectSame(servers);
}

// Takes 10 s: updates are refused at once when etcd was silent for 6 s.
TEST_F(Replicas, AnswerLookupsAndRefuseUpdatesWithoutEtcd) {
  auto server = Start({kMetrics, "--max_staleness=4s"});
  ASSERT_TRUE(server->Update(Announcement(0, 1, 5)).ok());
  EXPECT_TRUE(
      Await([&] { return server->Metric("planb_store_lag_seconds") < 3; }));
  KillMembers();
  // The first update may be on its way to etcd.
  grpc::Status refused = server->Update(Announcement(1, 1, 5));
  EXPECT_TRUE(refused.error_code() == grpc::StatusCode::UNAVAILABLE ||
              refused.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
      << refused.error_message();
  Await([&] { return server->Metric("planb_store_lag_seconds") >= 7; });
  // Long before a try at etcd ends, unless the machine holds it up.
  EXPECT_TRUE(SucceedsInThree([&] {
    const absl::Time before = absl::Now();
    refused = server->Update(Announcement(2, 1, 5));
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(absl::StrContains(refused.error_message(), "etcd"))
        << refused.error_message();
    return absl::Now() - before < absl::Seconds(5);
  }));
  EXPECT_EQ(server->Lookup("2001:db8:0::1"), 5U);
  StartMembers();
  UpdateOnceTaken(*server, Announcement(3, 1, 6));
  EXPECT_EQ(server->Lookup("2001:db8:3::1"), 6U);
}

void CreateTable(StoredServer& server, const std::string& name) {
  grpc::ClientContext call;
  v1::CreateTableRequest request;
  request.set_table(name);
  v1::Table response;
  EXPECT_TRUE(server.table().CreateTable(&call, request, &response).ok());
}

void DeleteTable(StoredServer& server, const std::string& name) {
  grpc::ClientContext call;
  v1::DeleteTableRequest request;
  request.set_table(name);
  v1::DeleteTableResponse response;
  EXPECT_TRUE(server.table().DeleteTable(&call, request, &response).ok());
}

std::vector<std::string> TableNames(StoredServer& server) {
  grpc::ClientContext call;
  v1::ListTablesResponse response;
  EXPECT_TRUE(server.table().ListTables(&call, {}, &response).ok());
  std::vector<std::string> names;
  for (const v1::Table& table : response.tables()) {
    names.push_back(table.name());
  }
  return names;
}

// Takes 20 s: each of its starts gives etcd 3 s, and an update the store's
// time.
TEST_F(Replicas, StartFromTheirCacheWithoutEtcd) {
  const std::string cache = "--cache=" + TempPath("replica_cache");
  v1::UpdateRoutesResponse response;
  const auto other = Start();
  {
    auto server = Start({cache, kMetrics});
    ASSERT_TRUE(server->Update(Announcement(0, 100, 5), &response).ok());
    CreateTable(*server, "old");
    CreateTable(*server, "again");
    EXPECT_EQ(server->End(), 0);
  }
  // Changes that the copy does not have.
  DeleteTable(*other, "old");
  DeleteTable(*other, "again");
  CreateTable(*other, "again");
  CreateTable(*other, "new");
  ASSERT_TRUE(other->Update(Announcement(0, 1, 6)).ok());
  ASSERT_TRUE(other->Update(Announcement(200, 1, 7)).ok());
  KillMembers();

  auto server = Start({cache, kMetrics, "--max_staleness=1s"});
  EXPECT_EQ(server->Lookup("2001:db8:0::1"), 5U);
  EXPECT_EQ(server->State().visible_generation(), response.generation());
  EXPECT_GT(server->Metric("planb_store_lag_seconds"), 1);
  EXPECT_GT(server->Metric("planb_cache_timestamp_seconds"), 1e9);
  const grpc::Status refused = server->Update(Announcement(300, 1, 8));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "etcd"))
      << refused.error_message();
  // A start without etcd leaves the copy as it was.
  server->KillNow();
  server = Start({cache, kMetrics});
  EXPECT_EQ(server->Lookup("2001:db8:1::1"), 5U);
  EXPECT_EQ(TableNames(*server),
            (std::vector<std::string>{"again", "default", "old"}));

  StartMembers();
  UpdateOnceTaken(*server, Announcement(300, 1, 8), &response);
  EXPECT_EQ(server->Lookup("2001:db8:0::1", response.generation()), 6U);
  EXPECT_EQ(server->Lookup("2001:db8:c8::1"), 7U);
  EXPECT_EQ(other->Lookup("2001:db8:12c::1", response.generation()), 8U);
  EXPECT_TRUE(
      Await([&] { return server->Metric("planb_store_lag_seconds") < 5; }));
  EXPECT_EQ(server->List(), other->List());
  EXPECT_EQ(TableNames(*server),
            (std::vector<std::string>{"again", "default", "new"}));

  // Written while the server runs, so that it survives kill -9.
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  Await([&] { return server->Metric("planb_cache_timestamp_seconds") >= now; });
  server->KillNow();
  KillMembers();
  server = Start({cache});
  EXPECT_EQ(server->Lookup("2001:db8:12c::1", response.generation()), 8U);
}

// etcd's own proxies carry the watches of many servers in one.
TEST_F(Replicas, ShareATableThroughProxiesOfEtcd) {
  cluster_->StartProxy(0);
  cluster_->StartProxy(1);
  std::vector<std::unique_ptr<StoredServer>> servers;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(std::make_unique<StoredServer>(
        cluster_->ProxyUrl("planb"), std::vector<std::string>{kMetrics}));
    ASSERT_TRUE(servers.back()->Begins()) << servers.back()->process().Log();
  }
  servers.push_back(Start());  // without a proxy
  v1::UpdateRoutesResponse response;
  const auto write = [&](uint32_t number) {
    UpdateOnceTaken(*servers[number % servers.size()],
                    Announcement(number, 3, number + 1), &response);
    const auto& other = servers[(number + 1) % servers.size()];
    EXPECT_EQ(other->Lookup(absl::StrCat("2001:db8:", absl::Hex(number), "::1"),
                            response.generation()),
              number + 1);
  };
  uint32_t number = 0;
  for (; number < 40; ++number) write(number);
  // Idle for longer than the silence that ends a watch: none ends, unless the
  // machine silences the proxies themselves.
  const auto begun_anew = [&] {
    std::ptrdiff_t count = 0;
    for (int i = 0; i < 3; ++i) {
      const std::vector<std::string> parts =
          absl::StrSplit(servers[i]->process().Log(), "began anew");
      count += std::ssize(parts) - 1;
    }
    return count;
  };
  std::ptrdiff_t seen = 0;
  EXPECT_TRUE(SucceedsInThree([&] {
    absl::SleepFor(absl::Seconds(5));
    const std::ptrdiff_t before = std::exchange(seen, begun_anew());
    return seen == before;
  }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Await(
        [&] { return servers[i]->Metric("planb_store_lag_seconds") < 3; }));
  }
  for (size_t proxy : {0, 1}) {
    cluster_->KillProxy(proxy);
    for (int i = 0; i < 20; ++i) write(number++);
    cluster_->StartProxy(proxy);
    for (int i = 0; i < 20; ++i) write(number++);
  }
  // An entry that etcd has in parts.
  UpdateOnceTaken(*servers[0], Announcement(1000, 60'000, 9));
  ExpectSame(servers);
}

// `cut` is cut off from etcd for `away`, and from no caller, while `near` takes
// updates: it answers from what it has, and catches up once `heal` is called.
void CutAndHeal(StoredServer& near, StoredServer& cut, absl::Duration away,
                const std::function<void()>& cut_off,
                const std::function<void()>& heal) {
  v1::UpdateRoutesResponse response;
  ASSERT_TRUE(near.Update(Announcement(0, 1, 5), &response).ok());
  ASSERT_EQ(cut.Lookup("2001:db8:0::1", response.generation()), 5U);
  cut_off();
  const absl::Time end = absl::Now() + away;
  for (uint32_t i = 0; absl::Now() < end; ++i) {
    ASSERT_TRUE(
        near.Update(Announcement(1 + i % 500, 1, i % 90 + 1), &response).ok());
    EXPECT_EQ(cut.Lookup("2001:db8:0::1"), 5U);
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_LT(cut.State().visible_generation(), response.generation());
  heal();
  const absl::Time healed = absl::Now();
  Await([&] {
    return cut.State().visible_generation() >= response.generation();
  });
  const absl::Duration caught_up = absl::Now() - healed;
  EXPECT_EQ(cut.List(), near.List());
  // It takes updates again.
  UpdateOnceTaken(cut, Announcement(600, 1, 6), &response);
  EXPECT_EQ(near.Lookup(absl::StrCat("2001:db8:", absl::Hex(600), "::1"),
                        response.generation()),
            6U);
  testing::Test::RecordProperty(
      "caught_up_ms", static_cast<int>(absl::ToInt64Milliseconds(caught_up)));
}

// By forwarders that hold back what is sent, for longer than the lease of a
// server, 10 s.
TEST_F(Replicas, CatchUpWhenTheNetworkIsBack) {
  auto near = Start({"--replica_name=near"});
  std::vector<std::unique_ptr<Wire>> wires;
  std::string members;
  for (int i = 0; i < members_; ++i) {
    wires.push_back(std::make_unique<Wire>(cluster_->endpoint(i)));
    absl::StrAppend(&members, i == 0 ? "" : ",", wires.back()->address());
  }
  StoredServer cut(absl::StrCat("etcd://", members, "/planb"),
                   {"--replica_name=cut"});
  ASSERT_TRUE(cut.Begins()) << cut.process().Log();
  CutAndHeal(
      *near, cut, absl::Seconds(13),
      [&] {
        for (const auto& wire : wires) wire->Cut();
      },
      [&] {
        for (const auto& wire : wires) wire->Heal();
      });
}

// A network namespace, joined to this one by a pair of interfaces.
class Namespace {
 public:
  Namespace()
      : name_(absl::StrCat("planb", getpid())),
        here_(absl::StrCat("pb", getpid(), "h")),
        subnet_(absl::StrCat("10.231.", getpid() % 250, ".")) {
    const std::string there = absl::StrCat("pb", getpid(), "n");
    made_ = Ip("netns add " + name_) &&
            Ip("link add " + here_ + " type veth peer name " + there) &&
            Ip("link set " + there + " netns " + name_) &&
            Ip("addr add " + host() + "/30 dev " + here_) &&
            Ip("link set " + here_ + " up") &&
            Ip("-n " + name_ + " addr add " + subnet_ + "2/30 dev " + there) &&
            Ip("-n " + name_ + " link set " + there + " up") &&
            Ip("-n " + name_ + " link set lo up");
  }
  ~Namespace() {
    Ip("link del " + here_);
    Ip("netns del " + name_);
  }
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  // False where the user may not make one.
  bool made() const { return made_; }
  // The address of this side.
  std::string host() const { return subnet_ + "1"; }

  // Calls `run` on this thread in the namespace. Processes that it starts stay
  // there.
  void Within(const std::function<void()>& run) const {
    const int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int other =
        open(("/var/run/netns/" + name_).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(setns(other, CLONE_NEWNET), 0);
    run();
    EXPECT_EQ(setns(own, CLONE_NEWNET), 0);
    close(own);
    close(other);
  }

  void Cut() const { EXPECT_TRUE(Ip("link set " + here_ + " down")); }
  void Heal() const {
    // An address may go with the link.
    Ip("addr add " + host() + "/30 dev " + here_);
    EXPECT_TRUE(Ip("link set " + here_ + " up"));
  }

 private:
  static bool Ip(const std::string& arguments) {
    return std::system(("ip " + arguments + " 2> /dev/null").c_str()) == 0;
  }

  const std::string name_, here_, subnet_;
  bool made_ = false;
};

// By the kernel: packets are lost, and nothing says so.
TEST(ReplicasInNamespaces, CatchUpWhenTheNetworkIsBack) {
  const Namespace there;
  if (!EtcdCluster::Available() || !there.made()) {
    GTEST_SKIP() << "needs etcd, and a user who may make network namespaces";
  }
  const EtcdCluster cluster(1, {}, there.host());
  StoredServer near(cluster.Url("planb"), {"--replica_name=near"});
  ASSERT_TRUE(near.Begins()) << near.process().Log();
  std::unique_ptr<StoredServer> cut;
  there.Within([&] {
    cut = std::make_unique<StoredServer>(
        cluster.Url("planb"), std::vector<std::string>{"--replica_name=cut"});
  });
  ASSERT_TRUE(cut->Begins()) << cut->process().Log();
  CutAndHeal(
      near, *cut, absl::Seconds(4), [&] { there.Cut(); },
      [&] { there.Heal(); });
}

TEST_F(Replicas, NeedTheRightPassword) {
  ASSERT_NE(cluster_->Ctl("user add root:right"), "");
  ASSERT_NE(cluster_->Ctl("user grant-role root root"), "");
  ASSERT_NE(cluster_->Ctl("auth enable"), "");
  const std::string wrong = TempPath("wrong_password");
  const std::string right = TempPath("right_password");
  std::ofstream(wrong) << "wrong\n";
  std::ofstream(right) << "right\n";
  const std::string url = cluster_->Url("planb");
  {
    StoredServer server(url);
    EXPECT_FALSE(server.Begins());
  }
  {
    StoredServer server(url,
                        {"--etcd_user=root", "--etcd_password_file=" + wrong});
    EXPECT_FALSE(server.Begins());
    EXPECT_TRUE(absl::StrContains(server.process().Log(), "password"))
        << server.process().Log();
  }
  StoredServer server(url,
                      {"--etcd_user=root", "--etcd_password_file=" + right});
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  v1::UpdateRoutesRequest request = Announcement(0, 1, 5);
  request.set_ack(v1::ACK_REPLICATED);
  EXPECT_TRUE(server.Update(request).ok());
  EXPECT_EQ(Known(server).size(), 1U);
}

TlsFiles Files(const TestTlsFiles& files) {
  return {.cert = {"", files.cert()},
          .key = {"", files.key()},
          .ca = {"", files.ca()}};
}

// Takes 10 s: a start is refused when etcd was tried for some seconds.
TEST(SecureReplicas, SpeakMutualTlsWithEtcd) {
  if (!EtcdCluster::Available()) GTEST_SKIP() << "there is no program etcd";
  TestAuthority authority;
  TestAuthority other;
  TestTlsFiles files;
  files.SetAuthority(authority.certificate());
  files.SetIdentity(authority.Issue());
  TestTlsFiles foreign;
  foreign.SetAuthority(other.certificate());
  foreign.SetIdentity(other.Issue());
  TestTlsFiles expired;
  expired.SetIdentity(
      authority.Issue({.ends = absl::Now() - absl::Minutes(1)}));
  EtcdCluster cluster(1, Files(files));
  const std::string url = cluster.Url("planb");
  const auto flags = [](const TestTlsFiles& ca, const TestTlsFiles& identity) {
    return std::vector<std::string>{"--etcd_ca=" + ca.ca(),
                                    "--etcd_cert=" + identity.cert(),
                                    "--etcd_key=" + identity.key()};
  };
  const std::vector<std::vector<std::string>> refused = {
      {},                           // without TLS
      {"--etcd_ca=" + files.ca()},  // without a certificate
      flags(files, foreign),        // of another authority
      flags(files, expired),
      flags(foreign, files),  // etcd's certificate is of another authority
  };
  std::vector<std::unique_ptr<StoredServer>> strangers;
  for (const std::vector<std::string>& wrong : refused) {
    strangers.push_back(std::make_unique<StoredServer>(url, wrong));
  }
  for (const auto& stranger : strangers) EXPECT_FALSE(stranger->Begins());
  StoredServer one(url, flags(files, files));
  StoredServer two(url, flags(files, files));
  ASSERT_TRUE(one.Begins()) << one.process().Log();
  ASSERT_TRUE(two.Begins()) << two.process().Log();
  v1::UpdateRoutesResponse response;
  ASSERT_TRUE(one.Update(Announcement(0, 1, 5), &response).ok());
  EXPECT_EQ(two.Lookup("2001:db8::1", response.generation()), 5U);
}

// All certificates and the authority change, then etcd starts again.
TEST(SecureReplicas, TakeNewCertificatesWithoutARestart) {
  if (!EtcdCluster::Available()) GTEST_SKIP() << "there is no program etcd";
  TestTlsFiles of_etcd, of_server;
  const auto replace = [&] {
    TestAuthority authority;
    for (TestTlsFiles* files : {&of_etcd, &of_server}) {
      files->SetAuthority(authority.certificate());
      files->SetIdentity(authority.Issue());
    }
  };
  replace();
  EtcdCluster cluster(1, Files(of_etcd));
  StoredServer server(
      cluster.Url("planb"),
      {"--etcd_ca=" + of_server.ca(), "--etcd_cert=" + of_server.cert(),
       "--etcd_key=" + of_server.key(), "--tls_reload_interval=1h"});
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  ASSERT_TRUE(server.Update(Announcement(0, 1, 5)).ok());

  cluster.Kill(0);
  replace();
  server.process().Kill(SIGHUP);
  cluster.Start(0);
  EXPECT_TRUE(cluster.AwaitAnswer());
  UpdateOnceTaken(server, Announcement(0, 1, 6));
  EXPECT_EQ(server.Lookup("2001:db8::1"), 6U) << server.process().Log();
}

// How long `server` takes to have what `other` has now.
absl::Duration CatchUpTime(const StoredServer& server,
                           const StoredServer& other) {
  const absl::Time begin = absl::Now();
  const uint64_t there = other.State().visible_generation();
  Await([&] { return server.State().visible_generation() >= there; });
  return absl::Now() - begin;
}

// Writers at all servers, while servers and members of etcd are killed, paused
// and started. PLANB_STORM_SECONDS makes it longer; from five minutes on, some
// pauses of servers take 30 s.
TEST_F(ReplicasOnAQuorum, AgreeAfterAStorm) {
  const absl::Duration length =
      absl::Seconds(FromEnvironment("PLANB_STORM_SECONDS", 1));
  std::vector<std::unique_ptr<StoredServer>> servers;
  std::vector<StoredServer*> all;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(Start());
    all.push_back(servers.back().get());
  }
  // A third server, which is killed, is not written to by these.
  std::vector<StoredServer*> stay = {all[0], all[1]};
  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < 3; ++w) {
    writers.push_back(std::make_unique<Writer>(w + 0x2000, stay));
    // Not writers[w]: the vector grows while threads run.
    threads.emplace_back([&stop, &writer = *writers[w]] { writer.Run(stop); });
  }
  std::mt19937_64 random(9);
  // Longer on a machine on which little is acknowledged in that time.
  const absl::Time end = absl::Now() + length;
  const auto goes_on = [&] {
    size_t acked = 0;
    for (const auto& writer : writers) acked += writer->answered();
    return absl::Now() < (acked > 10 ? end : end + kPatience);
  };
  int faults = 0;
  int long_pauses = 0;
  absl::Duration caught_up;  // after a pause of 30 s, at most
  while (goes_on()) {
    absl::SleepFor(absl::Milliseconds(300 + random() % 700));
    ++faults;
    switch (random() % 4) {
      case 0: {  // any member, the leader as well
        const auto member = static_cast<int>(random() % members_);
        cluster_->Kill(member);
        absl::SleepFor(absl::Milliseconds(random() % 1500));
        cluster_->Start(member);
        break;
      }
      case 1: {
        const auto member = static_cast<int>(random() % members_);
        cluster_->Pause(member);
        absl::SleepFor(absl::Milliseconds(random() % 2500));
        cluster_->Resume(member);
        break;
      }
      case 2:
        servers[2]->KillNow();
        servers[2] = nullptr;
        ASSERT_TRUE(cluster_->AwaitAnswer());
        servers[2] = std::make_unique<StoredServer>(cluster_->Url("planb"));
        break;
      default: {
        const size_t paused = random() % 2;
        const bool longer = length >= absl::Minutes(5) && random() % 8 == 0;
        all[paused]->process().Kill(SIGSTOP);
        absl::SleepFor(longer ? absl::Seconds(30)
                              : absl::Milliseconds(random() % 2000));
        all[paused]->process().Kill(SIGCONT);
        if (!longer) break;
        ++long_pauses;
        caught_up =
            std::max(caught_up, CatchUpTime(*all[paused], *all[1 - paused]));
      }
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(cluster_->AwaitAnswer());
  if (!servers[2]->Begins()) servers[2] = Start();
  ExpectSame(servers);
  for (const auto& server : servers) ExpectAcked(writers, *server);
  size_t acked = 0;
  for (const auto& writer : writers) acked += writer->acked().size();
  EXPECT_GT(acked, 10U);
  RecordProperty("faults", faults);
  RecordProperty("acked", static_cast<int>(acked));
  RecordProperty("long_pauses", long_pauses);
  RecordProperty("caught_up_ms",
                 static_cast<int>(absl::ToInt64Milliseconds(caught_up)));
}

}  // namespace
}  // namespace planb::server
