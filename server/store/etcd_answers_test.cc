// SPDX-License-Identifier: Apache-2.0

// The shared store where answers of etcd are lost, late or errors: a member of
// a real etcd behind a service that does this to its calls.

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/testing/await.h"
#include "etcd.grpc.pb.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/etcd_store.h"
#include "server/table/tables.h"
#include "server/testing/etcd_test.h"
#include "server/testing/noting_follower.h"
#include "server/testing/small_store.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::Key;

// Hands calls on to a member. A test may refuse a call before it, or replace
// its answer. The hooks are set while no call is in progress.
class Between {
 public:
  explicit Between(const std::string& member)
      : kv_(*this), watch_(*this), lease_(*this), auth_(*this) {
    Switch(member);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&kv_);
    builder.RegisterService(&watch_);
    builder.RegisterService(&lease_);
    builder.RegisterService(&auth_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
  }
  ~Between() {
    HoldWatch(false);
    server_->Shutdown(std::chrono::system_clock::now());
  }

  // Later calls go to this member, and watches end.
  void Switch(const std::string& member) {
    const MutexLock lock(mutex_);
    channel_ = grpc::CreateChannel(member, grpc::InsecureChannelCredentials());
    for (grpc::ClientContext* const context : watches_) context->TryCancel();
  }
  std::shared_ptr<grpc::Channel> channel() {
    const MutexLock lock(mutex_);
    return channel_;
  }

  // Answers of watches wait while it is held; those of other calls pass.
  void HoldWatch(bool held) {
    watch_held_ = held;
    watch_held_.notify_all();
  }

  std::string Url(const std::string& prefix) const {
    return absl::StrCat("etcd://127.0.0.1:", port_, "/", prefix);
  }

  std::function<Status(const etcdserverpb::TxnRequest&)> before_txn;
  std::function<Status(const etcdserverpb::TxnRequest&, Status)> after_txn;
  std::function<Status(const etcdserverpb::RangeRequest&)> before_range;
  std::function<void(const etcdserverpb::RangeRequest&)> after_range;
  std::function<void()> before_watch;
  std::function<void()> before_lease;
  std::atomic<int> logins = 0;

 private:
  class Kv final : public etcdserverpb::KV::Service {
   public:
    explicit Kv(Between& between) : between_(between) {}
    Status Range(grpc::ServerContext*,
                 const etcdserverpb::RangeRequest* request,
                 etcdserverpb::RangeResponse* response) override {
      if (between_.before_range) {
        Status status = between_.before_range(*request);
        if (!status.ok()) return status;
      }
      grpc::ClientContext context;
      Status status = Stub().Range(&context, *request, response);
      if (between_.after_range) between_.after_range(*request);
      return status;
    }
    Status DeleteRange(grpc::ServerContext*,
                       const etcdserverpb::DeleteRangeRequest* request,
                       etcdserverpb::DeleteRangeResponse* response) override {
      grpc::ClientContext context;
      return Stub().DeleteRange(&context, *request, response);
    }
    Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
               etcdserverpb::TxnResponse* response) override {
      if (between_.before_txn) {
        Status status = between_.before_txn(*request);
        if (!status.ok()) return status;
      }
      grpc::ClientContext context;
      Status status = Stub().Txn(&context, *request, response);
      return between_.after_txn ? between_.after_txn(*request, status) : status;
    }

   private:
    etcdserverpb::KV::Stub Stub() const {
      return etcdserverpb::KV::Stub(between_.channel());
    }

    Between& between_;
  };

  class Watcher final : public etcdserverpb::Watch::Service {
   public:
    explicit Watcher(Between& between) : between_(between) {}
    Status Watch(
        grpc::ServerContext* server,
        grpc::ServerReaderWriter<etcdserverpb::WatchResponse,
                                 etcdserverpb::WatchRequest>* from) override {
      if (between_.before_watch) between_.before_watch();
      const auto context = grpc::ClientContext::FromServerContext(*server);
      etcdserverpb::Watch::Stub stub(between_.channel());
      {
        const MutexLock lock(between_.mutex_);
        between_.watches_.insert(context.get());
      }
      const auto to = stub.Watch(context.get());
      std::thread requests([&] {
        etcdserverpb::WatchRequest request;
        while (from->Read(&request) && to->Write(request)) continue;
        context->TryCancel();
      });
      etcdserverpb::WatchResponse response;
      while (to->Read(&response)) {
        between_.watch_held_.wait(true);
        if (!from->Write(response)) break;
      }
      {
        const MutexLock lock(between_.mutex_);
        between_.watches_.erase(context.get());
      }
      context->TryCancel();
      server->TryCancel();
      requests.join();
      return to->Finish();
    }

   private:
    Between& between_;
  };

  class Leases final : public etcdserverpb::Lease::Service {
   public:
    explicit Leases(Between& between) : between_(between) {}
    Status LeaseGrant(grpc::ServerContext*,
                      const etcdserverpb::LeaseGrantRequest* request,
                      etcdserverpb::LeaseGrantResponse* response) override {
      if (between_.before_lease) between_.before_lease();
      grpc::ClientContext context;
      etcdserverpb::Lease::Stub stub(between_.channel());
      return stub.LeaseGrant(&context, *request, response);
    }
    Status LeaseRevoke(grpc::ServerContext*,
                       const etcdserverpb::LeaseRevokeRequest* request,
                       etcdserverpb::LeaseRevokeResponse* response) override {
      grpc::ClientContext context;
      etcdserverpb::Lease::Stub stub(between_.channel());
      return stub.LeaseRevoke(&context, *request, response);
    }

   private:
    Between& between_;
  };

  class Auth final : public etcdserverpb::Auth::Service {
   public:
    explicit Auth(Between& between) : between_(between) {}
    Status Authenticate(grpc::ServerContext*,
                        const etcdserverpb::AuthenticateRequest*,
                        etcdserverpb::AuthenticateResponse* response) override {
      response->set_token(absl::StrCat("token ", ++between_.logins));
      return Status::OK;
    }

   private:
    Between& between_;
  };

  Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::set<grpc::ClientContext*> watches_;
  std::atomic<bool> watch_held_ = false;
  Kv kv_;
  Watcher watch_;
  Leases lease_;
  Auth auth_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class EtcdAnswers : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (cluster_ != nullptr) Connect(prefix_);
  }
  // Goes on with this prefix.
  void Connect(const std::string& prefix) {
    prefix_ = prefix;
    between_ = std::make_unique<Between>(cluster_->endpoint(0));
  }

  // No answer is lost but what a test loses, on any machine.
  static EtcdStoreOptions Options(const std::string& url) {
    EtcdStoreOptions options = EtcdTest::Options(url);
    options.etcd.timeout = options.etcd.attempt_timeout = kPatience;
    return options;
  }
  // Of a store that calls through the service between, and soon gives up.
  EtcdStoreOptions Impatient() const {
    EtcdStoreOptions options = Options(between_->Url(prefix_));
    options.etcd.timeout = absl::Seconds(1);
    return options;
  }
  // A store that calls through the service between, or not.
  std::unique_ptr<EtcdStore> OpenBetween() const {
    return Open(Options(between_->Url(prefix_)));
  }
  std::unique_ptr<EtcdStore> OpenDirectly() const {
    return Open(Options(cluster_->Url(prefix_)));
  }

  std::unique_ptr<Between> between_;
};

// Of an append: it puts a record and an entry.
bool Appends(const etcdserverpb::TxnRequest& request) {
  return request.success_size() == 2;
}

// What becomes of an append after the answer to an attempt was lost.
TEST_F(EtcdAnswers, ALostAnswerIsNoRefusal) {
  const Route route = MakeRoute("::/0", 7);
  struct Case {
    const char* what;
    // Ends the second attempt before it reaches etcd.
    std::function<Status()> second;
    const char* reason;  // of the append; null: it succeeds
    bool gives_up = false;
  };
  const auto patient = OpenBetween(), impatient = Open(Impatient());
  uint64_t id = 0;
  std::atomic<bool> readable = true;
  const Status gone(StatusCode::UNAVAILABLE, "gone");
  const std::vector<Case> cases = {
      {"found again", [] { return Status::OK; }, nullptr},
      {"no space",
       [] { return Status(StatusCode::RESOURCE_EXHAUSTED, "no space"); },
       "STORE_UNDECIDED"},
      {"no right", [] { return Status(StatusCode::PERMISSION_DENIED, "no"); },
       "STORE_UNDECIDED"},
      {"no answer again", [&] { return gone; }, "STORE_UNDECIDED",
       /*gives_up=*/true},
      // It finds a conflict, and what it looks for is compacted.
      {"compacted",
       [&] {
         Erase(EntryKey(id, 1));
         return Status::OK;
       },
       "STORE_UNDECIDED"},
      // It finds a conflict, and what it looks for cannot be read.
      {"not to be read",
       [&] {
         readable = false;
         return Status::OK;
       },
       "STORE_UNDECIDED", /*gives_up=*/true},
  };
  std::atomic<const Case*> now = nullptr;
  std::atomic<int> attempts = 0;
  between_->before_range = [&](const auto&) {
    return readable ? Status::OK : gone;
  };
  between_->before_txn = [&](const etcdserverpb::TxnRequest& request) {
    return Appends(request) && ++attempts > 1 ? now.load()->second()
                                              : Status::OK;
  };
  between_->after_txn = [&](const etcdserverpb::TxnRequest& request,
                            Status made) {
    return Appends(request) && attempts == 1
               ? Status(StatusCode::UNAVAILABLE, "lost")
               : made;
  };
  int tables = 0;
  for (const Case& each : cases) {
    const auto& store = each.gives_up ? impatient : patient;
    now = &each;
    // Again if the machine takes all the time of the impatient one.
    EXPECT_TRUE(SucceedsInThree([&] {
      const std::string name = absl::StrCat("table", ++tables);
      const auto created = store->CreateTable(name, 0);
      if (!created.ok()) return false;
      id = *created;
      attempts = 0;
      const absl::Status ended =
          store->Append(name, {Batch(1, {route})}, 0, id);
      readable = true;
      if (each.reason == nullptr) {
        EXPECT_TRUE(ended.ok()) << each.what << ": " << ended;
      } else {
        EXPECT_EQ(ErrorReason(ended), each.reason)
            << each.what << ": " << ended;
      }
      return attempts > 1;
    })) << each.what;
  }
  between_.reset();  // a call of it may yet look at these
}

TEST_F(EtcdAnswers, ARefusalOfTheFirstAttemptChangesNothing) {
  const auto store = OpenBetween();
  const uint64_t id = store->CreateTable("red", 0).value();
  between_->before_txn = [&](const auto&) {
    return Status(StatusCode::RESOURCE_EXHAUSTED, "no space");
  };
  const Route route = MakeRoute("::/0", 7);
  EXPECT_EQ(ErrorReason(store->Append("red", {Batch(1, {route})}, 0, id)),
            "STORE_FULL");
  between_->before_txn = nullptr;
  EXPECT_TRUE(store->Append("red", {Batch(1, {route})}, 0, id).ok());
}

TEST_F(EtcdAnswers, AnAppendThatClosingInterruptsIsUndecided) {
  const auto store = OpenBetween();
  const uint64_t id = store->CreateTable("red", 0).value();
  std::atomic<bool> made = false, closed = false;
  between_->after_txn = [&](const auto&, Status status) {
    made = true;
    made.notify_all();
    closed.wait(false);
    return status;
  };
  std::thread closing([&] {
    made.wait(false);
    store->Close(DrainingError(), SteadyNow());
    closed = true;
    closed.notify_all();
  });
  EXPECT_EQ(ErrorReason(store->Append("red", {Batch(1, {MakeRoute("::/0", 7)})},
                                      0, id)),
            "STORE_UNDECIDED");
  closed = true;
  closed.notify_all();
  closing.join();
  between_.reset();  // a call of it may yet look at `closed`
}

// A batch that no server could apply is not appended.
TEST_F(EtcdAnswers, ABatchMustFollowTheGenerationThatIsThere) {
  const auto store = OpenDirectly();
  const uint64_t id = store->CreateTable("red", 5).value();
  const Route route = MakeRoute("::/0", 7);
  EXPECT_EQ(ErrorReason(store->Append("red", {Batch(8, {route})}, 0, id)),
            "STORE_CORRUPT");
  EXPECT_TRUE(store->Append("red", {Batch(6, {route})}, 0, id).ok());
}

// Large batches that lose against small ones leave nothing behind.
TEST_F(EtcdAnswers, ChunksOfABatchThatWasNotAppendedAreDeleted) {
  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.chunk_bytes = 1000;
  const auto large = Open(options);
  const uint64_t id = large->CreateTable("red", 0).value();
  AcceptedBatch batch = Batch(1, SyntheticTable({.ipv6_routes = 500}));
  // Another server appends when the last chunk is there.
  const auto small = OpenDirectly();
  ASSERT_TRUE(small->Load().ok());
  between_->before_txn = [&](const etcdserverpb::TxnRequest& request) {
    if (Appends(request)) {
      EXPECT_GT(Read("data/chunks/").size(), 2U);
      EXPECT_TRUE(
          small->Append("red", {Batch(1, {MakeRoute("::/0", 1)})}, 0, id).ok());
    }
    return Status::OK;
  };
  EXPECT_EQ(ErrorReason(large->Append("red", {batch}, 0, id)), kStoreConflict);
  EXPECT_TRUE(Await([&] { return Read("data/chunks/").size() == 0; }));
  // As soon as it hears of another one, it puts no more.
  int chunks = 0;
  between_->before_txn = [&](const etcdserverpb::TxnRequest& request) {
    EXPECT_FALSE(Appends(request));
    if (++chunks > 1) return Status(StatusCode::RESOURCE_EXHAUSTED, "full");
    return Status::OK;
  };
  batch = Batch(2, SyntheticTable({.ipv6_routes = 500}));
  EXPECT_EQ(ErrorReason(large->Append("red", {batch}, 1, id)), "STORE_FULL");
  EXPECT_EQ(chunks, 2);
  EXPECT_TRUE(Await([&] { return Read("data/chunks/").size() == 0; }));
  between_->before_txn = nullptr;
  const absl::Status last = large->Append("red", {batch}, 1, id);
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_GT(Read("data/chunks/").size(), 2U);
}

TEST_F(EtcdAnswers, TheFloorOfGenerationsNeverFalls) {
  const auto a = OpenDirectly(), b = OpenDirectly();
  const uint64_t low = a->CreateTable("low", 50).value();
  const uint64_t high = b->CreateTable("high", 1000).value();
  ASSERT_TRUE(b->DeleteTable("high", high, 1000).ok());
  // The first server has not heard of it.
  ASSERT_TRUE(a->DeleteTable("low", low, 50).ok());
  EXPECT_EQ(a->generation_floor(), 1000U);
  const auto later = OpenDirectly();
  ASSERT_TRUE(later->Load().ok());
  EXPECT_EQ(later->generation_floor(), 1000U);
}

TEST_F(EtcdAnswers, ChunksThatCannotBeReadForAWhileAreNoDamage) {
  std::atomic<bool> cut_off = false;
  std::atomic<int> refused = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest&) {
    if (!cut_off) return Status::OK;
    ++refused;
    return Status(StatusCode::UNAVAILABLE, "cut off");
  };
  EtcdStoreOptions options = Options(cluster_->Url(prefix_));
  options.chunk_bytes = 1000;
  Node writer(Open(options)), reader(Open(Impatient()));
  cut_off = true;
  UpdateBatch batch;
  batch.replacement = SyntheticTable({.ipv6_routes = 500});
  const auto outcome = writer.tables.default_table().Apply(batch);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // A call is given up after a second, in which it is tried 50 times at most.
  EXPECT_TRUE(Await([&] { return refused > 150; }));
  const Table& table = reader.tables.default_table();
  EXPECT_EQ(table.replication_error(), "");
  EXPECT_EQ(table.visible(), 0U);
  cut_off = false;
  EXPECT_TRUE(
      table.AwaitVisible(outcome->generation, SteadyAfter(kPatience)).ok());
}

TEST_F(EtcdAnswers, ADamagedTableStopsNoOtherWhenAllIsReadAgain) {
  Node other(OpenDirectly());
  std::vector<uint64_t> ids;
  const auto announce = [&](const std::string& name, NextHopId next_hop) {
    const TableRef table = other.tables.Find(name).value();
    ASSERT_TRUE(table->Apply(Announce("::/0", next_hop)).ok());
  };
  for (const char* name : {"red", "blue", "gone"}) {
    ids.push_back(other.tables.Create(name).value()->store_id());
    announce(name, 1);
  }
  const auto late = OpenDirectly();
  ASSERT_EQ(late->Load()->size(), 4U);
  for (const char* name : {"red", "blue", "default"}) announce(name, 2);
  // An entry of one table and the record of another.
  Put(EntryKey(ids[0], 2), "\x0a\x01\x02 this is damaged");
  Put("state/tables/gone", "\x0a\x01\x02 this is damaged");
  // What the server has missed is compacted, so it reads everything.
  ASSERT_TRUE(cluster_->Compact().ok());
  NotingFollower followed;
  auto following = late->Follow(followed);
  EXPECT_TRUE(Await([&] { return followed.whole().size() == 2; }));
  EXPECT_THAT(followed.whole(), ElementsAre(Key("blue"), Key("default")));
  EXPECT_THAT(followed.failed(), ElementsAre(Key("gone"), Key("red")));
  for (const auto& [name, why] : followed.failed()) {
    EXPECT_EQ(ErrorReason(why), "STORE_CORRUPT") << name;
  }
  const Route route = MakeRoute("::/0", 3);
  for (const size_t damaged : {0, 2}) {
    EXPECT_EQ(ErrorReason(late->Append(damaged == 0 ? "red" : "gone",
                                       {Batch(2, {route})}, 1, ids[damaged])),
              "STORE_CORRUPT");
  }
  EXPECT_TRUE(late->Append("blue", {Batch(3, {route})}, 2, ids[1]).ok());
  EXPECT_EQ(ErrorReason(OpenDirectly()->Load().status()), "STORE_CORRUPT");
}

// Its table stops while it is on the way: a snapshot replaces other entries.
TEST_F(EtcdAnswers, AnAppendIsAnsweredByWhatBecameOfItIfItsTableStops) {
  const auto store = OpenBetween();
  ASSERT_TRUE(store->Load().ok());
  NotingFollower followed;
  std::string name, snapshot;
  std::atomic<bool> stops = false, refused = false;
  between_->before_txn = [&](const etcdserverpb::TxnRequest& request) {
    if (!stops || !absl::StrContains(request.success(0).request_put().key(),
                                     "/state/logs/")) {
      return Status::OK;
    }
    Put(snapshot, "\x08\x02");  // the next entry after it is number 2
    EXPECT_TRUE(Await([&] { return followed.failed().contains(name); }));
    return refused ? Status(StatusCode::RESOURCE_EXHAUSTED, "no space")
                   : Status::OK;
  };
  const Following following = store->Follow(followed);
  for (const char* table : {"blue", "red"}) {
    name = table;
    refused = name == "red";
    const uint64_t id = store->CreateTable(name, 0).value();
    const std::string key = absl::StrCat(absl::Hex(id, absl::kZeroPad16));
    snapshot = "state/snapshots/" + key;
    const Route route = MakeRoute("::/0", 7);
    ASSERT_TRUE(store->Append(name, {Batch(1, {route})}, 0, id).ok());
    stops = true;
    const absl::Status ended =
        store->Append(name, {Batch(2, {MakeRoute("::/0", 8)})}, 1, id);
    stops = false;
    EXPECT_EQ(Read(absl::StrCat("state/logs/", key, "/")).size(),
              refused ? 1U : 2U);
    EXPECT_EQ(ended.ok(), !refused) << ended;
    EXPECT_EQ(ErrorReason(ended), refused ? "STORE_FULL" : "") << ended;
    EXPECT_EQ(ErrorReason(store->Append(name, {Batch(2, {route})}, 1, id)),
              "STORE_CORRUPT");
  }
  store->Close(DrainingError(), SteadyNow());
}

// Its answer is lost, and its table is read before the watch tells of it.
TEST_F(EtcdAnswers, AnAppendIsItsOwnAlsoWhereItsTableIsReadAgain) {
  const auto store = OpenBetween();
  ASSERT_TRUE(store->Load().ok());
  const uint64_t id = store->CreateTable("red", 0).value();
  NotingFollower followed("red");
  const Following following = store->Follow(followed);
  std::atomic<int> attempts = 0;
  between_->after_txn = [&](const etcdserverpb::TxnRequest& request,
                            Status made) {
    const std::string& key = request.success(0).request_put().key();
    if (!absl::StrContains(key, "/state/logs/") || ++attempts > 1) return made;
    followed.wanted = StoreFollower::Wants::kWhole;
    // What is wanted is asked once a second.
    for (int i = 0; i < 750 && !followed.whole().contains("red"); ++i) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    return Status(StatusCode::UNAVAILABLE, "lost");
  };
  between_->HoldWatch(true);
  const absl::Status ended =
      store->Append("red", {Batch(1, {MakeRoute("::/0", 7)})}, 0, id);
  EXPECT_TRUE(ended.ok()) << ended;
  between_->HoldWatch(false);
  // And it is read once nothing is on the way.
  EXPECT_TRUE(Await([&] { return followed.whole().contains("red"); }));
  between_.reset();  // a call of it may yet sleep
  store->Close(DrainingError(), SteadyNow());
}

TEST_F(EtcdAnswers, ATableThatThereIsNoMemoryToReadIsReadAgain) {
  const auto store = OpenDirectly();
  ASSERT_TRUE(store->Load().ok());
  NotingFollower followed("default");
  followed.wanted = StoreFollower::Wants::kWhole;
  followed.no_memory = 2;
  const Following following = store->Follow(followed);
  EXPECT_TRUE(Await([&] { return followed.whole().contains("default"); }));
  EXPECT_EQ(followed.no_memory, 0);
  store->Close(DrainingError(), SteadyNow());
}

// A table that takes long to read again holds up no other, and no append. What
// comes meanwhile comes after it, once and in order.
TEST_F(EtcdAnswers, ATableIsReadAgainBesideTheOthers) {
  NotingFollower follower("red");
  Node other(OpenDirectly());
  const TableRef red = other.tables.Create("red").value();
  const TableRef blue = other.tables.Create("blue").value();
  const auto announce = [](const TableRef& table, NextHopId next_hop) {
    ASSERT_TRUE(table->Apply(Announce("::/0", next_hop)).ok());
  };
  announce(red, 1);

  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.silence = absl::Milliseconds(300);
  const auto store = Open(options);
  ASSERT_TRUE(store->Load().ok());
  std::atomic<bool> held = true;
  std::atomic<int> waiting = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    const std::string log =
        absl::StrCat(prefix_, "/", EntriesOf(red->store_id()));
    // The read of the whole log, not that of its later entries.
    if (request.key() != log) return Status::OK;
    ++waiting;
    held.wait(true);
    return Status::OK;
  };
  const Following following = store->Follow(follower);
  follower.wanted = StoreFollower::Wants::kWhole;
  EXPECT_TRUE(Await([&] { return waiting == 1; }));
  announce(blue, 1);
  announce(red, 2);
  announce(red, 3);
  announce(blue, 2);
  EXPECT_TRUE(Await([&] { return follower.Notes().size() == 2; }));
  absl::SleepFor(3 * options.silence);
  EXPECT_TRUE(Await([&] { return store->lag() < 2 * options.silence; }));
  EXPECT_TRUE(store
                  ->Append("blue", {Batch(3, {MakeRoute("::/0", 7)})}, 2,
                           blue->store_id())
                  .ok());
  held = false;
  held.notify_all();
  announce(red, 4);
  EXPECT_TRUE(Await([&] { return follower.Notes().back() == "red at 4"; }));
  EXPECT_EQ(follower.Notes(), (std::vector<std::string>{
                                  "blue at 1", "blue at 2", "whole red at 1",
                                  "red at 2", "red at 3", "red at 4"}));
  EXPECT_EQ(waiting, 1);

  // It ends while a table is read.
  held = true;
  follower.wanted = StoreFollower::Wants::kWhole;
  EXPECT_TRUE(Await([&] { return waiting == 2; }));
  store->Close(DrainingError(), SteadyNow());
  held = false;
  held.notify_all();
  between_.reset();  // a call of it may yet wait
}

// The watch is so late that etcd has compacted the chunks of an entry.
TEST_F(EtcdAnswers, ATableWhoseChunksAreGoneIsReadBesideTheOthers) {
  struct Follower final : StoreFollower {
    void Appended(const std::string& table, uint64_t, uint64_t position,
                  std::vector<AcceptedBatch>) override {
      (table == "blue" ? blue : red) = position;
    }
    void Replaced(StoredTable table) override {
      (table.name == "blue" ? blue : red) = table.position;
    }
    void Deleted(const std::string&, uint64_t) override {}
    void Failed(const std::string& table, uint64_t,
                const absl::Status& why) override {
      ADD_FAILURE() << table << " failed: " << why;
    }
    std::atomic<uint64_t> red = 0, blue = 0;
  } follower;
  EtcdStoreOptions chunked = Options(cluster_->Url(prefix_));
  chunked.chunk_bytes = 1000;
  Node other(Open(chunked));
  const TableRef red = other.tables.Create("red").value();
  const TableRef blue = other.tables.Create("blue").value();
  std::atomic<bool> held = true;
  std::atomic<int> waiting = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    // The read of the whole log.
    if (request.key() !=
        absl::StrCat(prefix_, "/state/logs/",
                     absl::Hex(red->store_id(), absl::kZeroPad16), "/")) {
      return Status::OK;
    }
    ++waiting;
    held.wait(true);
    return Status::OK;
  };
  const auto store = OpenBetween();
  held = false;
  ASSERT_TRUE(store->Load().ok());
  held = true;
  waiting = 0;
  Following following = store->Follow(follower);
  ASSERT_TRUE(blue->Apply(Announce("::/0", 1)).ok());
  Await([&] { return follower.blue == 1; });

  between_->HoldWatch(true);
  UpdateBatch large;
  large.replacement = SyntheticTable({.ipv6_routes = 500});
  ASSERT_TRUE(red->Apply(large).ok());
  ASSERT_TRUE(blue->Apply(Announce("::/0", 2)).ok());
  ASSERT_TRUE(cluster_->Compact().ok());
  between_->HoldWatch(false);
  Await([&] { return waiting == 1; });
  ASSERT_TRUE(blue->Apply(Announce("::/0", 3)).ok());
  Await([&] { return follower.blue == 3; });
  EXPECT_EQ(follower.red, 0U);
  held = false;
  held.notify_all();
  Await([&] { return follower.red == 1; });
  ASSERT_TRUE(red->Apply(Announce("::/0", 3)).ok());
  Await([&] { return follower.red == 2; });
  following = {};
}

// The watch of the second server is late; its calls are not.
TEST_F(EtcdAnswers, NoAnswerIsOfAHeadThatTheWatchHasLeftBehind) {
  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.silence = kPatience;
  Node first(OpenDirectly()), second(Open(options));
  Table& a = first.tables.default_table();
  Table& b = second.tables.default_table();
  const UpdateBatch withdraw = Change(RouteChange::Op::kDelete, "::/0");
  const UpdateBatch insert = Change(RouteChange::Op::kInsert, "::/0", 9);
  between_->HoldWatch(true);
  ASSERT_TRUE(a.Apply(Announce("::/0", 7)).ok());
  EXPECT_EQ(ErrorReason(b.Apply(insert).status()), "ROUTE_EXISTS");
  ASSERT_TRUE(a.Apply(Announce("::/0", 8)).ok());
  auto outcome = b.Apply(withdraw);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->counts.removed, 1U);
  EXPECT_EQ(outcome->generation, 3U);
  UpdateBatch fence = Announce("::/1", 1);
  fence.writer_epoch = 5;
  ASSERT_TRUE(a.Apply(fence).ok());
  EXPECT_EQ(ErrorReason(b.Apply(withdraw).status()), "WRITER_FENCED");
  // Each of the two that make a table, or delete it, hears of the other.
  ASSERT_TRUE(first.tables.Create("red").ok());
  EXPECT_EQ(ErrorReason(second.tables.Create("red").status()), "TABLE_EXISTS");
  between_->HoldWatch(false);
  EXPECT_TRUE(second.tables.FindToUpdate("red").ok());
  EXPECT_TRUE(a.AwaitVisible(4, SteadyAfter(kPatience)).ok());
  EXPECT_TRUE(b.AwaitVisible(4, SteadyAfter(kPatience)).ok());
  EXPECT_EQ(a.state().digest(), b.state().digest());
}

// Another server writes before each read of this one.
TEST_F(EtcdAnswers, WhatChangesNothingIsAnsweredBesideSteadyWriters) {
  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.silence = kPatience;
  Node first(OpenDirectly()), second(Open(options));
  Table& a = first.tables.default_table();
  Table& b = second.tables.default_table();
  std::atomic<NextHopId> writes = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest&) {
    EXPECT_TRUE(a.Apply(Announce("::/0", ++writes)).ok());
    return Status::OK;
  };
  between_->HoldWatch(true);
  const auto outcome = b.Apply(Change(RouteChange::Op::kDelete, "::/1"));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GE(outcome->generation, 1U);
  const UpdateBatch strict = Change(RouteChange::Op::kDeleteStrict, "::/1");
  EXPECT_EQ(ErrorReason(b.Apply(strict).status()), "ROUTE_NOT_FOUND");
  EXPECT_LE(writes, 8U);
  between_->HoldWatch(false);
}

// One read confirms a table for all that changes nothing, and a change needs
// none.
TEST_F(EtcdAnswers, WhatChangesNothingIsAnsweredAfterOneRead) {
  const auto store = OpenBetween();
  const uint64_t id = store->CreateTable("red", 0).value();
  std::atomic<int> reads = 0;
  std::atomic<bool> away = false;
  between_->before_range = [&](const etcdserverpb::RangeRequest&) {
    ++reads;
    return away ? Status(StatusCode::UNAVAILABLE, "away") : Status::OK;
  };
  ASSERT_TRUE(
      store->Append("red", {Batch(1, {MakeRoute("::/0", 7)})}, 0, id).ok());
  EXPECT_EQ(reads, 0);
  EXPECT_TRUE(store->Append("red", {}, 1, id).ok());
  EXPECT_EQ(reads, 1);
  // What was staged before the watch told of more.
  const absl::Status ahead = store->Append("red", {}, 0, id);
  EXPECT_TRUE(IsStoreConflict(ahead)) << ahead;
  EXPECT_EQ(ConflictPosition(ahead), 1U);
  EXPECT_EQ(reads, 2);
  const auto impatient = Open(Impatient());
  ASSERT_TRUE(impatient->Load().ok());
  away = true;
  EXPECT_EQ(ErrorReason(impatient->Append("red", {}, 1, id)), "STORE_FAILED");
  away = false;
  // Another server deletes it and makes another one of its name.
  const auto other = OpenDirectly();
  ASSERT_TRUE(other->Load().ok());
  ASSERT_TRUE(other->DeleteTable("red", id, 1).ok());
  EXPECT_EQ(ErrorReason(store->Append("red", {}, 1, id)), "TABLE_NOT_FOUND");
  EXPECT_EQ(store->FindTable("red").value(), TableLog::kAnyTable);
  const uint64_t later = other->CreateTable("red", 2).value();
  for (const absl::Status& gone :
       {store->Append("red", {}, 1, id),
        store->Append("red", {Batch(2, {MakeRoute("::/1", 7)})}, 1, id)}) {
    EXPECT_EQ(gone, DeletedRemotely());
    EXPECT_FALSE(IsStoreConflict(gone));  // nothing is staged again
  }
  EXPECT_EQ(store->FindTable("red").value(), later);
}

// Calls that want the reports of servers share a read, whether it ends well or
// not: a second one is for those that came after the first had begun.
TEST_F(EtcdAnswers, CallsThatWaitForReportsShareARead) {
  constexpr int kCalls = 16;
  std::atomic<int> reads = 0;
  std::atomic<bool> hangs = true;
  const std::string reports = prefix_ + "/replicas/";
  Status answer;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    if (request.key() != reports) return Status::OK;
    ++reads;
    hangs.wait(true);
    return answer;
  };
  Node server(OpenBetween());
  for (const Status& each :
       {Status(StatusCode::INTERNAL, "damaged"), Status::OK}) {
    answer = each;
    // Again if the machine held up calls until the first read had begun.
    EXPECT_TRUE(SucceedsInThree([&] {
      reads = 0;
      hangs = true;
      std::atomic<int> calls = 0;
      std::vector<std::thread> threads;
      for (int i = 0; i < kCalls; ++i) {
        threads.emplace_back([&] {
          ++calls;
          const auto replicas = server.tables.Replicas();
          EXPECT_EQ(replicas.ok(), each.ok()) << replicas.status();
        });
      }
      EXPECT_TRUE(Await([&] { return calls == kCalls && reads > 0; }));
      absl::SleepFor(absl::Milliseconds(100));
      hangs = false;
      hangs.notify_all();
      for (std::thread& thread : threads) thread.join();
      // One more, if a call came late.
      return reads <= (each.ok() ? 3 : 2);
    }));
  }
}

// Both would make the last one, after the same count.
TEST_F(EtcdAnswers, CreationsAtTheSameMomentKeepTheLimit) {
  std::atomic<int> counts = 0;
  between_->after_range = [&](const etcdserverpb::RangeRequest& request) {
    counts += request.count_only() ? 1 : 0;
    for (int i = 0; request.count_only() && i < 100 && counts < 2; ++i) {
      absl::SleepFor(absl::Milliseconds(2));
    }
  };
  const auto store = OpenBetween();
  Tables tables({.max_tables = 2}, store.get());
  ASSERT_TRUE(tables.Restore().ok());
  absl::Status red, blue;
  std::thread other([&] { red = tables.Create("red").status(); });
  blue = tables.Create("blue").status();
  other.join();
  EXPECT_NE(red.ok(), blue.ok());
  EXPECT_EQ(ErrorReason(red.ok() ? blue : red), "TOO_MANY_TABLES");
  EXPECT_EQ(Read("state/tables/").size(), 2U);
  tables.Drain(SteadyNow());
}

// No call waits for a store that has been silent for long: calls that make or
// delete tables wait one for another.
TEST_F(EtcdAnswers, TablesAreNotAskedForWhileEtcdIsSilent) {
  std::atomic<int> asked = 0;
  const std::string table = prefix_ + "/state/tables/default";
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    if (request.count_only() || request.key() == table) ++asked;
    return Status::OK;
  };
  between_->before_txn = [&](const etcdserverpb::TxnRequest& request) {
    if (request.compare_size() > 0) ++asked;
    return Status::OK;
  };
  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.silence = absl::Milliseconds(300);
  Node server(Open(options));
  const uint64_t id = server.tables.default_table().store_id();
  between_->HoldWatch(true);
  EXPECT_TRUE(Await([&] { return server.store->lag() > 2 * options.silence; }));
  asked = 0;
  for (const absl::Status& refused :
       {server.store->FindTable("default").status(),
        server.store->CountTables().status(),
        server.store->CreateTable("red", 0).status(),
        server.store->DeleteTable("default", id, 0)}) {
    EXPECT_EQ(ErrorReason(refused), "STORE_FAILED") << refused;
  }
  EXPECT_EQ(asked, 0);
}

// A server that starts from a copy, however new: the tables that it has may be
// those of another store.
TEST_F(EtcdAnswers, NoTableIsMadeOrDeletedBeforeThoseOfACopyAreCompared) {
  const Node other(OpenDirectly());
  const uint64_t id = other.store->CreateTable("blue", 0).value();
  std::atomic<bool> readable = false;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    return readable || request.limit() == 0
               ? Status::OK
               : Status(StatusCode::INTERNAL, "not now");
  };
  EtcdStoreOptions options = Options(between_->Url(prefix_));
  options.patience = -absl::Seconds(1);  // Load() ends at once
  const auto store = Open(options);
  Tables tables({}, store.get());
  ASSERT_TRUE(tables
                  .Restore([&]() -> absl::StatusOr<StoredCopy> {
                    StoredCopy copy = {.as_of = absl::Now()};
                    copy.tables.push_back(
                        {.name = "default",
                         .id = other.tables.default_table().store_id()});
                    copy.tables.push_back({.name = "blue", .id = id});
                    return copy;
                  })
                  .ok());
  for (const absl::Status& refused :
       {store->CreateTable("red", 0).status(),
        store->DeleteTable("blue", id, 0), tables.Create("red").status(),
        tables.Delete("blue"),
        tables.default_table().Apply(UpdateBatch()).status()}) {
    EXPECT_EQ(ErrorReason(refused), "STORE_FAILED") << refused;
  }
  EXPECT_EQ(Read("state/tables/").size(), 2U);
  readable = true;
  EXPECT_TRUE(Await([&] { return store->FindTable("red").ok(); }));
  EXPECT_TRUE(tables.Create("red").ok());
  EXPECT_TRUE(tables.Delete("blue").ok());
  tables.Drain(SteadyNow());
}

// Not past it and back to the one that failed.
TEST_F(EtcdAnswers, CallsThatFailTogetherGoOnToTheNextMember) {
  constexpr int kCalls = 2;
  const Status away(StatusCode::UNAVAILABLE, "away");
  Between other(cluster_->endpoint(0));
  std::atomic<bool> together = false;
  std::atomic<int> calls = 0;
  between_->before_range = [&](const auto&) {
    return together ? Status::OK : away;
  };
  other.before_range = [&](const auto&) {
    if (!together) return Status::OK;
    ++calls;
    calls.notify_all();
    for (int seen = calls; seen < kCalls; seen = calls) calls.wait(seen);
    return away;
  };
  EtcdOptions options = ParseEtcdUrl(between_->Url(prefix_)).value();
  options.timeout = options.attempt_timeout = kPatience;
  options.endpoints.push_back(
      ParseEtcdUrl(other.Url(prefix_)).value().endpoints[0]);
  const auto client = EtcdClient::Create(options).value();
  etcdserverpb::RangeRequest request;
  request.set_key("any");
  ASSERT_TRUE(client->Range(request).ok());  // at the other one
  together = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < kCalls; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(client->Range(request).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, kCalls);
}

// By a slow network, or because its keys have more bytes than those before.
TEST_F(EtcdAnswers, APageThatDoesNotComeIsAskedForWithFewerKeys) {
  EtcdOptions options = ParseEtcdUrl(between_->Url(prefix_)).value();
  options.attempt_timeout = absl::Milliseconds(200);
  options.timeout = absl::Seconds(20);
  const auto client = EtcdClient::Create(options).value();
  constexpr int kKeys = 20;
  for (int i = 0; i < kKeys; ++i) {
    Put(absl::StrCat(absl::Hex(i, absl::kZeroPad4)), "a value");
  }
  std::atomic<bool> late = false;
  std::atomic<int> failed = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    if (request.limit() <= 2) return Status::OK;
    ++failed;
    if (!late) return Status(StatusCode::RESOURCE_EXHAUSTED, "too large");
    absl::SleepFor(absl::Milliseconds(400));
    return Status::OK;
  };
  for (const bool is_late : {true, false}) {
    late = is_late;
    failed = 0;
    int keys = 0;
    const auto read = client->ReadPrefix(
        absl::StrCat(prefix_, "/"), 0, [&](const etcdserverpb::KeyValue& kv) {
          EXPECT_EQ(kv.key(), absl::StrCat(prefix_, "/",
                                           absl::Hex(keys, absl::kZeroPad4)));
          ++keys;
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(keys, kKeys);
    EXPECT_EQ(failed, 1);
  }
  between_.reset();  // a call of it may yet sleep
}

// No member answered for a moment.
TEST_F(EtcdAnswers, PagesGrowAgainAfterOneThatDidNotCome) {
  EtcdOptions options = ParseEtcdUrl(between_->Url(prefix_)).value();
  options.attempt_timeout = absl::Milliseconds(200);
  const auto client = EtcdClient::Create(options).value();
  constexpr int kKeys = 300;
  for (int i = 0; i < kKeys; ++i) {
    Put(absl::StrCat(i), "");
  }
  std::atomic<int> pages = 0;
  between_->before_range = [&](const etcdserverpb::RangeRequest& request) {
    if (pages == 0 && request.limit() > 1) {
      return Status(StatusCode::UNAVAILABLE, "away");
    }
    ++pages;
    return Status::OK;
  };
  int keys = 0;
  const auto read = client->ReadPrefix(absl::StrCat(prefix_, "/"), 0,
                                       [&](const etcdserverpb::KeyValue&) {
                                         ++keys;
                                         return absl::OkStatus();
                                       });
  EXPECT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(keys, kKeys);
  EXPECT_LT(pages, kKeys / 3);
  between_.reset();  // a call of it may yet be on the way
}

TEST_F(EtcdAnswers, NoTableBeginsBelowTheFloor) {
  const auto a = OpenDirectly(), b = OpenDirectly();
  ASSERT_TRUE(a->Load().ok());
  const uint64_t high = b->CreateTable("high", 1000).value();
  ASSERT_TRUE(b->DeleteTable("high", high, 1000).ok());
  // The first server has not heard of it, and then has.
  for (const uint64_t read_before : {0, 1000}) {
    EXPECT_TRUE(IsStoreConflict(a->CreateTable("red", read_before).status()));
    EXPECT_EQ(a->generation_floor(), 1000U);
  }
  EXPECT_TRUE(a->CreateTable("red", 1001).ok());
}

// Writes all keys of `from` to another etcd, as one that is made of a backup.
// Its revisions and its cluster are others.
void Restore(const EtcdCluster& from, const EtcdCluster& to,
             const std::string& prefix) {
  const auto client = to.Client("");
  etcdserverpb::DeleteRangeRequest erase;
  erase.set_key(prefix);
  erase.set_range_end(EndOfPrefix(prefix));
  ASSERT_TRUE(client->DeleteRange(erase).ok());
  const auto read = from.Client("")->ReadPrefix(
      prefix, 0, [&](const etcdserverpb::KeyValue& kv) {
        if (kv.lease() != 0) return absl::OkStatus();
        etcdserverpb::PutRequest put;
        put.set_key(kv.key());
        put.set_value(kv.value());
        return client->Put(put);
      });
  ASSERT_TRUE(read.ok()) << read.status();
}

// etcd is put back from a backup under a server that runs.
TEST_F(EtcdAnswers, ABackupOfEtcdIsFollowedOnlyIfItLeadsOn) {
  const EtcdCluster restored(1);
  enum class Case { kOfNow, kOlder, kOlderAndWrittenTo };
  for (const Case each :
       {Case::kOfNow, Case::kOlder, Case::kOlderAndWrittenTo}) {
    Connect(absl::StrCat("backup", static_cast<int>(each)));
    Node server(OpenBetween());
    Table& table = server.tables.default_table();
    ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
    if (each != Case::kOfNow) Restore(*cluster_, restored, prefix_);
    for (NextHopId i = 2; i <= 20; ++i) {
      ASSERT_TRUE(table.Apply(Announce("::/0", i)).ok());
    }
    if (each == Case::kOfNow) Restore(*cluster_, restored, prefix_);
    if (each == Case::kOlderAndWrittenTo) {
      Node later(Open(Options(restored.Url(prefix_))));
      for (NextHopId i = 2; i <= 30; ++i) {
        ASSERT_TRUE(
            later.tables.default_table().Apply(Announce("::/1", i)).ok());
      }
    }
    between_->Switch(restored.endpoint(0));
    if (each == Case::kOfNow) {
      // Until the tables are compared, a call may be refused.
      EXPECT_TRUE(
          Await([&] { return table.Apply(Announce("::/0", 77)).ok(); }));
      EXPECT_EQ(table.replication_error(), "");
      Node other(Open(Options(restored.Url(prefix_))));
      EXPECT_EQ(other.tables.default_table().state().digest(),
                table.state().digest());
      ASSERT_TRUE(other.tables.default_table().Apply(Announce("::/2", 5)).ok());
      EXPECT_TRUE(Await([&] { return table.state().routes_v6() == 2; }));
      continue;
    }
    EXPECT_TRUE(Await([&] { return !table.replication_error().empty(); }));
    EXPECT_EQ(table.visible(), 20U);
    EXPECT_EQ(ErrorReason(table.Apply(Announce("::/3", 1)).status()),
              "STORE_CORRUPT");
  }
}

TEST_F(EtcdAnswers, ATokenThatIsRefusedIsRenewed) {
  for (const char* message : {"etcdserver: revision of auth store is old",
                              "etcdserver: user name is empty"}) {
    EtcdStoreOptions options = Options(between_->Url(prefix_));
    options.etcd.user = "planb";
    const auto store = Open(options);
    ASSERT_TRUE(store->Load().ok());
    const int logins = between_->logins;
    std::atomic<int> attempts = 0;
    between_->before_txn = [&](const auto&) {
      return ++attempts == 1 ? Status(StatusCode::INVALID_ARGUMENT, message)
                             : Status::OK;
    };
    EXPECT_TRUE(store->CreateTable(absl::StrCat("red", logins), 0).ok());
    EXPECT_EQ(between_->logins, logins + 1);
    // Not for ever.
    between_->before_txn = [&](const auto&) {
      return Status(StatusCode::INVALID_ARGUMENT, message);
    };
    EXPECT_FALSE(store->CreateTable("other", 0).ok());
    between_->before_txn = nullptr;
  }
}

// Another server's updates are acknowledged by all servers that there are, and
// the watch of this one, which starts, is late.
TEST_F(EtcdAnswers, AServerThatStartsHasWhatWasAcknowledgedBeforeItCounted) {
  constexpr uint64_t kUpdates = 20;
  Node writer(OpenDirectly());
  // On a slow machine the server asks again meanwhile, and waits as well.
  Mutex mutex;
  int leases = 0;
  between_->before_lease = [&] {
    const MutexLock lock(mutex);
    for (uint64_t i = 1; leases == 0 && i <= kUpdates; ++i) {
      const UpdateBatch batch =
          Announce("2001:db8::/32", static_cast<NextHopId>(i));
      EXPECT_TRUE(writer.tables.default_table().Apply(batch).ok());
    }
    ++leases;
    const auto replicas = writer.store->Replicas(absl::ZeroDuration());
    ASSERT_TRUE(replicas.ok()) << replicas.status();
    EXPECT_EQ(replicas->size(), 1U);  // it does not count yet
  };
  between_->before_watch = [] { absl::SleepFor(absl::Milliseconds(200)); };
  const Node starts(OpenBetween());
  EXPECT_EQ(starts.tables.default_table().visible(), kUpdates);
  EXPECT_GE(leases, 1);
}

}  // namespace
}  // namespace planb::server
