// SPDX-License-Identifier: Apache-2.0

// The store that servers share, on a real etcd: what one server writes, all of
// them have, in one order.

#include "server/store/etcd_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/testing/await.h"
#include "base/testing/wire.h"
#include "etcd_records.pb.h"
#include "lpm/io/table_file.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/store_entry.h"
#include "server/table/tables.h"
#include "server/testing/etcd_test.h"
#include "server/testing/fake_store.h"
#include "server/testing/noting_follower.h"
#include "server/testing/small_store.h"
#include "server/testing/store_script.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

class EtcdStoreTest : public EtcdTest {
 protected:
  using EtcdTest::Options;
  // Of a server that reaches etcd over `wire`, and waits while it is cut.
  EtcdStoreOptions Options(const Wire& wire) const {
    EtcdStoreOptions options = Options();
    options.etcd.endpoints = {wire.address()};
    options.etcd.timeout = kPatience;
    return options;
  }
  // Offers a snapshot of the table until `store`, or another one, wrote one.
  void AwaitSnapshot(const StoredTable& table, EtcdStore& store) const {
    const std::string key =
        absl::StrCat("state/snapshots/", absl::Hex(table.id, absl::kZeroPad16));
    ASSERT_TRUE(Await([&] {
      if (!Read(key).empty()) return true;
      store.OfferSnapshot(table.name, [&] { return MakeVersion(table); });
      return false;
    })) << key;
  }
};

// Waits until `a` and `b` have the same accepted and visible generation.
void AwaitSame(const Tables& a, const Tables& b,
               absl::string_view name = "default") {
  v1::Table of_a, of_b;
  EXPECT_TRUE(Await([&] {
    const auto table_a = a.Find(name);
    const auto table_b = b.Find(name);
    if (!table_a.ok() || !table_b.ok()) return false;
    of_a = (*table_a)->state();
    of_b = (*table_b)->state();
    return of_a.accepted_generation() == of_b.accepted_generation() &&
           of_a.visible_generation() == of_a.accepted_generation() &&
           of_b.visible_generation() == of_b.accepted_generation() &&
           of_a.accepted_generation() != 0;
  }));
  EXPECT_EQ(of_a.digest(), of_b.digest());
  EXPECT_EQ(of_a.writer_epoch(), of_b.writer_epoch());
}

TEST(EtcdUrl, NamesMembersAndPrefix) {
  const auto options = ParseEtcdUrl("etcd://a:1,[::1]:2/planb/x");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->endpoints, (std::vector<std::string>{"a:1", "[::1]:2"}));
  EXPECT_EQ(options->prefix, "planb/x/");
  for (const char* wrong :
       {"", "etcd:", "etcd://", "etcd:///p", "etcd://a:1", "etcd://a:1/",
        "etcd://a/p", "etcd://a:b/p", "http://a:1/p"}) {
    EXPECT_FALSE(ParseEtcdUrl(wrong).ok()) << wrong;
  }
}

TEST(EtcdUrl, CredentialsAreRefusedAndNotRepeated) {
  for (const char* wrong :
       {"etcd://root:secret@a:1/p", "etcd://secret@a:1/p",
        "etcd://a:1,root:secret@b:1/p", "etcd://root,secret:s@a:1/p"}) {
    const absl::Status refused = ParseEtcdUrl(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << wrong;
    EXPECT_TRUE(absl::StrContains(refused.message(), "--etcd_password_file"))
        << refused;
    EXPECT_FALSE(absl::StrContains(refused.message(), "secret")) << refused;
  }
  EXPECT_TRUE(ParseEtcdUrl("etcd://a:1/p@q").ok());
}

TEST(EtcdUrl, EndOfPrefixIsTheNextKey) {
  EXPECT_EQ(EndOfPrefix("ab"), "ac");
  EXPECT_EQ(EndOfPrefix("a\xff"), "b");
  EXPECT_EQ(EndOfPrefix("\xff"), std::string(1, '\0'));
}

TEST_F(EtcdStoreTest, KeepsARandomHistory) {
  StoreScript script({.seed = 3});
  auto options = Options();
  auto store = Open(options);
  ASSERT_TRUE(store->Load().ok());
  for (int step = 1; step <= 300; ++step) {
    const absl::Status status = script.Step(store.get());
    ASSERT_TRUE(status.ok()) << status;
    if (step % 50 == 0) {
      store.reset();
      store = Open(options);
      ASSERT_NE(store, nullptr);
    }
    if (step % 25 == 0) {
      auto loaded = store->Load();
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      // The script has no default table.
      std::erase_if(*loaded,
                    [](const StoredTable& t) { return t.name == "default"; });
      ASSERT_EQ(StoreDifference(script.Tables(), *loaded), "");
      ASSERT_EQ(store->generation_floor(), script.generation_floor());
    }
  }
}

// Writers on all servers at once, of few prefixes: most appends conflict.
TEST_F(EtcdStoreTest, WritersOnAllServersAreOrdered) {
  constexpr int kNodes = 3;
  constexpr int kBatches = 60;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int n = 0; n < kNodes; ++n) {
    nodes.push_back(std::make_unique<Node>(Open()));
  }
  std::vector<std::thread> writers;
  std::vector<std::vector<uint64_t>> generations(kNodes);
  for (int n = 0; n < kNodes; ++n) {
    writers.emplace_back([&, n] {
      std::mt19937_64 random(static_cast<uint64_t>(n));
      for (int i = 0; i < kBatches; ++i) {
        // Each batch changes something: the next hop is new.
        const UpdateBatch changes =
            Announce(absl::StrCat("2001:db8:", random() % 5, "::/48"),
                     static_cast<NextHopId>(1 + n * kBatches + i));
        const auto outcome =
            nodes[static_cast<size_t>(n)]->tables.default_table().Apply(
                changes);
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        generations[static_cast<size_t>(n)].push_back(outcome->generation);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::vector<uint64_t> all;
  for (const auto& each : generations) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.size(), size_t{kNodes * kBatches});
  EXPECT_EQ(all.back(), all.size());
  AwaitSame(nodes[0]->tables, nodes[1]->tables);
  AwaitSame(nodes[0]->tables, nodes[2]->tables);
}

TEST_F(EtcdStoreTest, ConditionsHoldAcrossServers) {
  Node a(Open()), b(Open());
  UpdateBatch first = Announce("2001:db8::/32", 1);
  first.expected_generation = 0;
  first.request_id = "once";
  first.fingerprint = 7;
  first.writer_epoch = 5;
  const auto outcome = a.tables.default_table().Apply(first);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_TRUE(
      b.tables.default_table().AwaitVisible(1, SteadyAfter(kPatience)).ok());
  // The same request again, to the other server.
  const auto again = b.tables.default_table().Apply(first);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->generation, 1U);
  EXPECT_EQ(again->counts, outcome->counts);
  UpdateBatch late = Announce("2001:db8::/32", 2);
  late.expected_generation = 0;
  late.writer_epoch = 5;
  EXPECT_EQ(ErrorReason(b.tables.default_table().Apply(late).status()),
            "GENERATION_MISMATCH");
  late.expected_generation.reset();
  late.writer_epoch = 4;
  EXPECT_EQ(ErrorReason(b.tables.default_table().Apply(late).status()),
            "WRITER_FENCED");
}

// Both expect the same generation: one wins, on whichever server.
TEST_F(EtcdStoreTest, OneOfTwoThatExpectAGenerationWins) {
  Node a(Open()), b(Open());
  for (uint64_t round = 0; round < 20; ++round) {
    const auto apply = [round](Node& node, NextHopId next_hop) {
      UpdateBatch batch = Announce("2001:db8::/32", next_hop);
      batch.expected_generation = round;
      return node.tables.default_table().Submit(std::move(batch));
    };
    const auto next = static_cast<NextHopId>(2 * round + 1);
    auto by_a = apply(a, next);
    auto by_b = apply(b, next + 1);
    const auto of_a = by_a.get();
    const auto of_b = by_b.get();
    EXPECT_NE(of_a.ok(), of_b.ok()) << of_a.status() << of_b.status();
    EXPECT_EQ(ErrorReason((of_a.ok() ? of_b : of_a).status()),
              "GENERATION_MISMATCH");
    AwaitSame(a.tables, b.tables);
  }
}

TEST_F(EtcdStoreTest, NextHopsAndGroupsFollow) {
  Node a(Open()), b(Open());
  UpdateBatch batch = Announce("2001:db8::/32", 9);
  batch.next_hops = {{.id = 1, .label = "one"}, {.id = 2, .label = "two"}};
  batch.groups = {
      {.id = 9, .members = {{.next_hop = 1, .weight = 1}, {.next_hop = 2}}}};
  ASSERT_TRUE(a.tables.default_table().Apply(batch).ok());
  AwaitSame(a.tables, b.tables);
  // A replacement may leave routes without their object.
  UpdateBatch replacement;
  replacement.replacement = std::vector<Route>{MakeRoute("2001:db8::/48", 9)};
  replacement.replace_next_hops = true;
  ASSERT_TRUE(b.tables.default_table().Apply(replacement).ok());
  AwaitSame(a.tables, b.tables);
  EXPECT_EQ(a.tables.default_table().state().next_hops(), 0U);
  EXPECT_EQ(a.tables.default_table().state().routes_v6(), 1U);
}

// `late` still has the table that another server has deleted and made anew.
TEST_F(EtcdStoreTest, ATableMadeAnewIsNotTheOneOfThatNameBefore) {
  const std::unique_ptr<EtcdStore> made = Open();
  const uint64_t before = made->CreateTable("red", 0).value();
  const std::unique_ptr<EtcdStore> late = Open();
  ASSERT_EQ(late->Load()->size(), 2U);
  NotingFollower follower;
  auto following = late->Follow(follower);
  ASSERT_TRUE(made->DeleteTable("red", before, 1).ok());
  const uint64_t anew = made->CreateTable("red", 2).value();
  const Route route = MakeRoute("::/0", 7);
  follower.AwaitTable(anew);
  EXPECT_EQ(late->Append("red", {Batch(1, {route})}, 0, before),
            DeletedRemotely());
  EXPECT_TRUE(late->DeleteTable("red", before, 1).ok());
  EXPECT_TRUE(late->Append("red", {Batch(3, {route})}, 0, anew).ok());
  const auto loaded = Open()->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 2U);  // "default" as well
  EXPECT_EQ(loaded->at(1).id, anew);
  EXPECT_EQ(loaded->at(1).generation, 3U);
}

TEST_F(EtcdStoreTest, TablesComeAndGoOnAllServers) {
  Node a(Open()), b(Open());
  for (int round = 0; round < 3; ++round) {
    const auto made = a.tables.Create("red", {.prefix_lengths = true});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE((*made)->Apply(Announce("::/0", 1)).ok());
    AwaitSame(a.tables, b.tables, "red");
    EXPECT_TRUE((*b.tables.Find("red"))->fib_options().prefix_lengths);
    EXPECT_EQ(b.tables.Create("red").status().code(),
              absl::StatusCode::kAlreadyExists);
    const uint64_t last = (*made)->state().accepted_generation();
    ASSERT_TRUE(b.tables.Delete("red").ok());
    EXPECT_TRUE(Await([&] { return !a.tables.Find("red").ok(); }));
    // The floor may come a moment later than the deletion.
    EXPECT_TRUE(Await([&] { return a.store->generation_floor() >= last; }));
  }
}

TEST_F(EtcdStoreTest, LargeBatchesAreCutIntoChunks) {
  EtcdStoreOptions options = Options();
  options.chunk_bytes = 10'000;
  Node a(Open(options)), b(Open(options));
  UpdateBatch batch;
  batch.replacement = SyntheticTable({.ipv6_routes = 30'000});
  ASSERT_TRUE(a.tables.default_table().Apply(batch).ok());
  AwaitSame(a.tables, b.tables);
  Node c(Open(options));
  AwaitSame(a.tables, c.tables);
}

TEST_F(EtcdStoreTest, SnapshotsReplaceTheLog) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 20'000;
  Node a(Open(options)), b(Open(options));
  std::mt19937_64 random(5);
  const absl::Time deadline = absl::Now() + kPatience;
  for (uint32_t i = 1; Read("state/snapshots/").empty(); ++i) {
    ASSERT_LT(absl::Now(), deadline);
    UpdateBatch changes;
    for (int c = 0; c < 200; ++c) {
      const Route route = MakeRoute(
          absl::StrCat("2001:db8:", absl::Hex(c * 16 + random() % 16), "::/48"),
          static_cast<NextHopId>(1 + random() % 100));
      changes.changes.push_back(
          {RouteChange::Op::kUpsert, route.prefix, route.next_hop});
    }
    Node& writer = i % 2 == 0 ? a : b;
    ASSERT_TRUE(writer.tables.default_table().Apply(changes).ok());
  }
  AwaitSame(a.tables, b.tables);
  Node c(Open(options));
  AwaitSame(a.tables, c.tables);
}

// Adds a route to the table and appends that.
void Grow(StoredTable& table, EtcdStore& store) {
  table.routes.push_back(MakeRoute(
      absl::StrCat("2001:db8:", absl::Hex(++table.generation), "::/48"), 1));
  ++table.position;
  const absl::Status status =
      store.Append(table.name, {Batch(table.generation, table.routes)});
  ASSERT_TRUE(status.ok()) << status;
}

// Two tables and their first entries, made by `store`.
void MakeTables(EtcdStore& store, StoredTable& table, StoredTable& last) {
  const auto loaded = store.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  table = {.name = "default", .id = loaded->at(0).id};
  last = {.name = "last", .id = store.CreateTable("last", 0).value()};
  Grow(table, store);
  Grow(last, store);
}

// Each step of a snapshot comes after another server has written a later one
// and has deleted the entries between them.
TEST_F(EtcdStoreTest, AnOlderSnapshotDoesNotReplaceALaterOne) {
  for (const char* step : {"/state/snapshots/", "/compactor"}) {
    prefix_ += "x";  // another store
    Wire wire(cluster_->endpoint(0));
    EtcdStoreOptions options = Options(wire);
    options.log_bytes = 1;
    const auto late = Open(options);
    StoredTable table, last;
    MakeTables(*late, table, last);
    wire.CutBefore(step);
    late->OfferSnapshot(table.name, [&] { return MakeVersion(table); });
    ASSERT_TRUE(Await([&] { return wire.cut(); }));
    options.etcd = Options().etcd;
    const auto ahead = Open(options);
    ASSERT_TRUE(ahead->Load().ok());
    for (int i = 0; i < 3; ++i) Grow(table, *ahead);
    AwaitSnapshot(table, *ahead);
    wire.Heal();
    AwaitSnapshot(last, *late);  // then the offer before it has ended
    const auto loaded = Open()->Load();
    ASSERT_TRUE(loaded.ok()) << step << loaded.status();
    EXPECT_EQ(StoreDifference({table, last}, *loaded), "") << step;
  }
}

// The same generation at the same entry, but another table.
TEST_F(EtcdStoreTest, ASnapshotOfOtherContentsReplacesNothing) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 0;
  const std::unique_ptr<EtcdStore> store = Open(options);
  StoredTable right;
  right.name = "red";
  right.id = store->CreateTable("red", 0).value();
  right.position = 1;
  right.generation = 1;
  right.routes = {MakeRoute("::/0", 7)};
  ASSERT_TRUE(store->Append("red", {Batch(1, right.routes)}, 0).ok());
  StoredTable wrong = right;
  wrong.routes = {MakeRoute("::/0", 8)};
  store->OfferSnapshot("red", [&] { return MakeVersion(wrong); });
  AwaitSnapshot(right, *store);
  const auto loaded = Open()->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->back().routes, right.routes);
}

// As before, but written by hand, with checksums that are right.
TEST_F(EtcdStoreTest, ASnapshotOfOtherContentsIsRefused) {
  Node node(Open());
  const Table& table = node.tables.default_table();
  ASSERT_TRUE(node.tables.default_table().Apply(Announce("::/0", 7)).ok());
  etcd::TableRecord head;
  ASSERT_TRUE(head.ParseFromString(Read("state/tables/default").at(0).value()));
  const std::string id = absl::StrCat(absl::Hex(head.id(), absl::kZeroPad16));
  StoredTable other = {.name = "default", .id = head.id(), .position = 1};
  other.generation = 1;
  other.routes = {MakeRoute("::/0", 8)};
  etcd::SnapshotRecord snapshot;
  snapshot.set_next(2);
  snapshot.set_generation(1);
  snapshot.set_chain(head.chain());
  const TableVersion version = MakeVersion(other);
  const auto put = [&](absl::string_view part) {
    Put(absl::StrCat("data/snapshots/", id, "/0000000000000002/",
                     absl::Hex(snapshot.parts(), absl::kZeroPad16)),
        std::string(part));
    snapshot.set_parts(snapshot.parts() + 1);
    snapshot.set_bytes(snapshot.bytes() + part.size());
    snapshot.set_checksum(Xxh3(part, snapshot.checksum()));
    return absl::OkStatus();
  };
  ASSERT_TRUE(ForEachPart(ContentsOf(version), 1000, put).ok());
  Erase(EntryKey(head.id(), 1));
  // It says what it has, or says that it has what was there.
  for (const auto& [digest, wrong] :
       {std::pair{MakeVersion(other).rib.digest(),
                  std::string("/state/tables/default")},
        std::pair{head.digest(), "/state/snapshots/" + id}}) {
    snapshot.set_digest(digest);
    Put("state/snapshots/" + id, snapshot.SerializeAsString());
    const absl::Status refused = Open()->Load().status();
    EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT") << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(),
                                  wrong + " has another digest than the "))
        << refused;
  }
  // Servers that run have the entries that it replaces.
  EXPECT_TRUE(Await([&] { return !table.replication_error().empty(); }));
  EXPECT_TRUE(absl::StrContains(table.replication_error(),
                                "is of other contents than the entries"))
      << table.replication_error();
  EXPECT_EQ(table.visible(), 1U);
}

TEST_F(EtcdStoreTest, ATableThatStoppedChangesNothing) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 0;
  const std::unique_ptr<EtcdStore> store = Open(options);
  const uint64_t id = store->CreateTable("red", 0).value();
  const Route route = MakeRoute("::/0", 7);
  ASSERT_TRUE(store->Append("red", {Batch(1, {route})}, 0).ok());
  store->StopTable("red", id,
                   Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "why"));
  EXPECT_EQ(ErrorReason(store->Append("red", {Batch(2, {route})}, 1)),
            "STORE_CORRUPT");
  EXPECT_EQ(ErrorReason(store->Append("red", {}, 1)), "STORE_CORRUPT");
  store->OfferSnapshot("red", []() -> TableVersion {
    ADD_FAILURE() << "nothing is written of it";
    return MakeVersion({});
  });
}

// A server pauses while it writes a snapshot, until its turn has ended and
// another server has written one of the same entries, with other bytes.
TEST_F(EtcdStoreTest, ASnapshotIsNotWrittenOver) {
  Wire wire(cluster_->endpoint(0));
  EtcdStoreOptions options = Options(wire);
  options.log_bytes = 1;
  const auto paused = Open(options);
  StoredTable table, last;
  MakeTables(*paused, table, last);
  wire.CutBefore(absl::StrCat("data/snapshots/",
                              absl::Hex(table.id, absl::kZeroPad16),
                              "/0000000000000002/"));  // the first part
  paused->OfferSnapshot(table.name, [&] { return MakeVersion(table); });
  ASSERT_TRUE(Await([&] { return wire.cut(); }));
  options.etcd = Options().etcd;
  const auto other = Open(options);
  ASSERT_TRUE(other->Load().ok());
  ASSERT_EQ(Read("compactor").size(), 1U);
  ASSERT_TRUE(
      cluster_->Client("")->RevokeLease(Read("compactor")[0].lease()).ok());
  table.requests = {{.request_id = "known"}};
  AwaitSnapshot(table, *other);
  wire.Heal();
  AwaitSnapshot(last, *paused);  // then the snapshot before it has ended
  EXPECT_EQ(Read("data/snapshots/").size(), 2U);
  const auto loaded = Open()->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(StoreDifference({table, last}, *loaded), "");
}

// As of servers that ended while they wrote one.
TEST_F(EtcdStoreTest, PartsOfUnfinishedSnapshotsDoNoHarmAndAreRemoved) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 1;
  const auto store = Open(options);
  StoredTable table, last;
  MakeTables(*store, table, last);
  const std::string parts =
      absl::StrCat("data/snapshots/", absl::Hex(table.id, absl::kZeroPad16));
  for (const char* left :
       {"1/0000000000000000", "2/0000000000000000", "2/0000000000000009",
        "2/00000000000000ff/0000000000000001", "3/0000000000000000"}) {
    Put(absl::StrCat(parts, "/", std::string(15, '0'), left), "");
  }
  AwaitSnapshot(table, *store);
  EXPECT_EQ(Read(parts).size(), 1U);
  const auto loaded = Open()->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(StoreDifference({table, last}, *loaded), "");
}

TEST_F(EtcdStoreTest, AFollowerThatHasEndedIsCalledNoMore) {
  const std::unique_ptr<EtcdStore> writer = Open(), store = Open();
  ASSERT_TRUE(writer->Load().ok());
  ASSERT_TRUE(store->Load().ok());
  {
    NotingFollower follower;
    auto following = store->Follow(follower);
    follower.AwaitTable(writer->CreateTable("red", 0).value());
    following = {};
    const uint64_t blue = writer->CreateTable("blue", 0).value();
    // Follows all the same, for its own appends.
    absl::Status appended;
    EXPECT_TRUE(Await([&] {
      appended = store->Append("blue", {Batch(1, {MakeRoute("::/0", 7)})},
                               TableLog::kAnyPosition, blue);
      return appended != DeletedRemotely();
    }));
    EXPECT_TRUE(appended.ok()) << appended;
    EXPECT_EQ(follower.whole().size(), 1U);
  }
  ASSERT_TRUE(writer->CreateTable("green", 0).ok());
}

// An entry that changes no route keeps the generation. A server that has been
// told of it, and has not applied it yet, offers a snapshot.
TEST_F(EtcdStoreTest, ASnapshotReplacesNoEntryThatItLacks) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 1;
  const auto slow = Open(options);
  StoredTable table, last;
  MakeTables(*slow, table, last);
  const auto other = Open(options);
  ASSERT_TRUE(other->Load().ok());
  const StoredTable before = table;
  AcceptedBatch raised;
  raised.writer_epoch = table.writer_epoch = 5;
  // Longer than half the snapshot, so that the next one is due.
  raised.request = {.request_id = std::string(500, 'r')};
  EtcdStore& writer = *other;
  ASSERT_TRUE(writer.Append(table.name, {raised}).ok());
  AwaitSnapshot(before, *other);  // of the first entry
  NotingFollower follower;
  const auto following = slow->Follow(follower);
  const uint64_t red = other->CreateTable("red", 0).value();
  follower.AwaitTable(red);  // then it has been told of the second entry
  slow->OfferSnapshot(before.name, [&] { return MakeVersion(before); });
  AwaitSnapshot(last, *slow);  // then the offer before it has ended
  const auto loaded = Open()->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->at(0).writer_epoch, 5U);
}

// More of them than etcd takes in one value. Their ids are UUIDs, as it were.
TEST_F(EtcdStoreTest, SnapshotsHaveAllRequestsOfAWindow) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 1;
  const auto store = Open(options);
  StoredTable table, last;
  MakeTables(*store, table, last);
  for (uint64_t i = 0; i < 13'000; ++i) {
    AnsweredRequest& request = table.requests.emplace_back();
    request.request_id =
        absl::StrCat(absl::Dec(i, absl::kZeroPad16), "-4bcd-8def-123456789012");
    request.outcome.digest = std::string(16, 'd');
    request.outcome.generation = i;
  }
  AwaitSnapshot(table, *store);
  const auto loaded = Open(options)->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(StoreDifference({table, last}, *loaded), "");
}

// A server that missed what etcd has compacted reads everything again.
TEST_F(EtcdStoreTest, ReadsAgainWhatWasCompacted) {
  Node a(Open());
  UpdateBatch batch = Announce("2001:db8::/32", 1);
  ASSERT_TRUE(a.tables.default_table().Apply(batch).ok());
  auto late = Open();
  ASSERT_TRUE(late->Load().ok());
  batch = Announce("2001:db8:1::/48", 2);
  batch.request_id = "known";
  batch.fingerprint = 3;
  ASSERT_TRUE(a.tables.default_table().Apply(batch).ok());
  ASSERT_TRUE(a.tables.Create("red").ok());
  // Nothing of the log is left before this.
  ASSERT_TRUE(cluster_->Compact().ok());
  // The table as it was loaded; the watch begins before the compaction.
  NotingFollower follower;
  auto following = late->Follow(follower);
  EXPECT_TRUE(Await([&] { return follower.whole().size() == 2; }));
  following = {};
  const auto whole = follower.whole();
  ASSERT_TRUE(whole.contains("default") && whole.contains("red"));
  const StoredTable& table = whole.at("default");
  EXPECT_EQ(table.generation, 2U);
  EXPECT_EQ(table.routes.size(), 2U);

  // What a table does with it.
  FakeStore store;
  Table behind(StoredTable(), {.store = &store});
  behind.Follow({.whole = std::make_unique<StoredTable>(table)});
  ASSERT_TRUE(behind.AwaitVisible(2, SteadyAfter(kPatience)).ok());
  EXPECT_EQ(behind.state().digest(), a.tables.default_table().state().digest());
}

// A follower that takes no entries for a while, and one that has lost a table.
TEST_F(EtcdStoreTest, WhatAFollowerHasNoRoomForIsReadOnceItHas) {
  NotingFollower follower("default");
  follower.wanted = StoreFollower::Wants::kNothing;
  // The last note, once there are so many and no more.
  const auto last_of = [&](size_t count) {
    const std::vector<std::string> notes = follower.Notes(count);
    return notes.size() == count ? notes.back() : absl::StrJoin(notes, ", ");
  };
  Node a(Open());
  EtcdStoreOptions options = Options();
  options.log_bytes = 0;
  const auto other = Open(options);
  const auto late = Open();
  ASSERT_TRUE(late->Load().ok());
  const Following following = late->Follow(follower);
  const auto announce = [&](NextHopId next_hop) {
    EXPECT_TRUE(
        a.tables.default_table().Apply(Announce("::/0", next_hop)).ok());
  };
  for (const NextHopId next_hop : {1, 2, 3}) announce(next_hop);
  // Other tables are followed meanwhile.
  ASSERT_TRUE(a.tables.Create("red").ok());
  EXPECT_EQ(last_of(1), "whole red at 0");
  EXPECT_GE(follower.asked, 1);
  follower.wanted = StoreFollower::Wants::kNext;
  EXPECT_EQ(last_of(4), "default at 3");
  announce(4);
  EXPECT_EQ(last_of(5), "default at 4");
  follower.wanted = StoreFollower::Wants::kWhole;
  EXPECT_EQ(last_of(6), "whole default at 4");
  announce(5);
  EXPECT_EQ(last_of(7), "default at 5");
  // The first, and those that were not the last of what was skipped.
  EXPECT_EQ(follower.missed, 3);
  // A snapshot replaces what it has no room for.
  follower.wanted = StoreFollower::Wants::kNothing;
  announce(6);
  announce(7);
  AwaitSnapshot(other->Load()->front(), *other);
  EXPECT_TRUE(Read("state/logs/").empty());
  follower.wanted = StoreFollower::Wants::kNext;
  EXPECT_EQ(last_of(8), "whole default at 7");
  announce(8);
  EXPECT_EQ(last_of(9), "default at 8");
}

TEST_F(EtcdStoreTest, DamagedEntriesStopTheirTableAndNoOther) {
  etcd::LogRecord huge;
  huge.set_chunks(1);
  huge.set_bytes(uint64_t{1} << 63);
  const std::string own;  // the first server's, and of none of its appends
  for (std::string entry : {std::string("\x0a\x01\x02 this is no entry"),
                            huge.SerializeAsString(), own}) {
    prefix_ += "x";  // another store
    Node a(Open());
    ASSERT_TRUE(a.tables.Create("red").ok());
    if (entry == own) {
      const auto servers = Read("replicas/");
      ASSERT_EQ(servers.size(), 1U);
      uint64_t writer = 0;
      ASSERT_TRUE(absl::SimpleHexAtoi(
          absl::string_view(servers[0].key()).substr(prefix_.size() + 10),
          &writer));
      etcd::LogRecord record;
      record.set_writer(writer);
      entry = record.SerializeAsString();
    }
    Node b(Open());
    const uint64_t id = a.tables.default_table().store_id();
    ASSERT_TRUE(
        a.tables.default_table().Apply(Announce("2001:db8::/32", 1)).ok());
    AwaitSame(a.tables, b.tables);
    const std::string key = EntryKey(id, 2);
    Put(key, entry);
    // Without an append in progress.
    EXPECT_TRUE(Await(
        [&] { return !a.tables.default_table().replication_error().empty(); }));
    for (Node* node : {&a, &b}) {
      Table& table = node->tables.default_table();
      absl::Status refused;
      EXPECT_TRUE(Await([&] {
        refused = table.Apply(Announce("2001:db8::/32", 2)).status();
        return absl::IsDataLoss(refused);
      })) << refused;
      EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT");
      EXPECT_TRUE(absl::StrContains(refused.message(), key)) << refused;
      // Lookups go on, and so do other tables.
      EXPECT_EQ(table.visible(), 1U);
      ASSERT_TRUE((*node->tables.Find("red"))->Apply(Announce("::/0", 1)).ok());
    }
    AwaitSame(a.tables, b.tables, "red");
    // A new server refuses to start with such a table.
    const auto loaded = Open()->Load();
    EXPECT_EQ(ErrorReason(loaded.status()), "STORE_CORRUPT");
    EXPECT_TRUE(absl::StrContains(loaded.status().message(), key));
  }
}

// An operator deletes all keys and starts one server anew, and not the other.
TEST_F(EtcdStoreTest, ADefaultTableThatIsDeletedFailsWithTheOldServers) {
  Node old(Open());
  Table& table = old.tables.default_table();
  for (NextHopId i = 1; i <= 3; ++i) {
    ASSERT_TRUE(table.Apply(Announce("::/0", i)).ok());
  }
  etcdserverpb::DeleteRangeRequest erase;
  erase.set_key(prefix_ + "/");
  erase.set_range_end(EndOfPrefix(prefix_ + "/"));
  ASSERT_TRUE(cluster_->Client("")->DeleteRange(erase).ok());
  Node anew(Open());
  const Table& other = anew.tables.default_table();
  ASSERT_NE(other.store_id(), table.store_id());
  EXPECT_TRUE(Await([&] { return !table.replication_error().empty(); }));
  const absl::Status refused = table.Apply(Announce("::/0", 4)).status();
  EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT") << refused;
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_TRUE(
      absl::StrContains(refused.message(), "/state/tables/default was deleted"))
      << refused;
  // Lookups go on, and there is one table of that name.
  EXPECT_EQ(table.visible(), 3U);
  EXPECT_EQ(old.tables.All().size(), 1U);
  ASSERT_TRUE(anew.tables.default_table().Apply(Announce("::/0", 5)).ok());
  // Other tables are followed.
  const auto red = anew.tables.Create("red");
  ASSERT_TRUE(red.ok()) << red.status();
  ASSERT_TRUE((*red)->Apply(Announce("::/0", 1)).ok());
  AwaitSame(old.tables, anew.tables, "red");
  EXPECT_EQ(old.tables.All().size(), 2U);
  // The report of the old server, which was deleted too, is there again, so
  // that the server counts. It has the table that both have, and not the one
  // that has stopped. Takes some seconds: a lease is kept so often.
  const auto reported = [&] {
    const auto replicas = anew.tables.Replicas();
    return replicas.ok() &&
           std::any_of(replicas->begin(), replicas->end(),
                       [](const StoreReplica& replica) {
                         return !replica.self &&
                                !replica.visible.contains("default") &&
                                replica.visible.contains("red");
                       });
  };
  EXPECT_TRUE(Await(reported));
}

// Another record stands where that of a table was.
TEST_F(EtcdStoreTest, ATableThatIsReplacedFails) {
  Node node(Open());
  for (const char* name : {"default", "red"}) {
    if (name != std::string("default")) {
      ASSERT_TRUE(node.tables.Create(name).ok());
    }
    const TableRef table = *node.tables.Find(name);
    ASSERT_TRUE(table->Apply(Announce("::/0", 1)).ok());
    etcd::TableRecord record;
    record.set_id(7);
    record.set_next(1);
    Put(absl::StrCat("state/tables/", name), record.SerializeAsString());
    EXPECT_TRUE(Await([&] { return !table->replication_error().empty(); }));
    EXPECT_EQ(ErrorReason(table->Apply(Announce("::/0", 2)).status()),
              "STORE_CORRUPT");
    EXPECT_TRUE(table->AwaitVisible(1, SteadyAfter(kPatience)).ok());
    EXPECT_EQ(table->visible(), 1U);
  }
  EXPECT_EQ(node.tables.All().size(), 2U);
}

// A server that runs counts them, says why to calls that write, and goes on.
TEST_F(EtcdStoreTest, WhatIsNoNewTableIsCountedAndRefused) {
  Node node(Open());
  const TableRef blue = node.tables.Create("blue").value();
  const auto await_missing = [&](size_t missing) {
    EXPECT_TRUE(Await([&] { return node.tables.missing() == missing; }));
  };
  etcd::TableRecord without_id, with_other_id, with_entries;
  for (auto* record : {&without_id, &with_other_id, &with_entries}) {
    record->set_next(1);
    record->set_digest(std::string(16, 0));
  }
  with_other_id.set_id(blue->store_id());
  with_entries.set_id(7);
  with_entries.set_next(5);
  const std::string no_record = "\x0a\x01\x02 this is no record";
  for (const auto& [value, why] :
       {std::pair{no_record, "is not a table's record"},
        std::pair{without_id.SerializeAsString(), "is not a table's record"},
        std::pair{with_other_id.SerializeAsString(),
                  "has the id of another table"},
        std::pair{with_entries.SerializeAsString(),
                  "is not the record of a new table"}}) {
    Put("state/tables/red", value);
    await_missing(1);
    for (const absl::Status& refused :
         {node.tables.FindToUpdate("red").status(),
          node.tables.Delete("red")}) {
      EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
      EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT");
      EXPECT_TRUE(absl::StrContains(refused.message(),
                                    absl::StrCat("/state/tables/red ", why)))
          << refused;
    }
    Erase("state/tables/red");
    await_missing(0);
  }
  EXPECT_TRUE(node.tables.Create("red").ok());
  // What stands in the place of a table's record stops that table.
  Put("state/tables/blue", no_record);
  EXPECT_TRUE(Await([&] { return !blue->replication_error().empty(); }));
  EXPECT_EQ(ErrorReason(blue->Apply(Announce("::/0", 2)).status()),
            "STORE_CORRUPT");
}

// A server that reads all again finds a table that it has not, damaged.
TEST_F(EtcdStoreTest, ADamagedTableThatIsNotHereIsRefusedByItsReason) {
  Node node(Open());
  const auto late = Open();
  ASSERT_TRUE(late->Load().ok());
  const TableRef red = node.tables.Create("red").value();
  ASSERT_TRUE(red->Apply(Announce("::/0", 1)).ok());
  const std::string entry = EntryKey(red->store_id(), 1);
  Put(entry, "no entry");
  const TableRef blue = node.tables.Create("blue").value();
  ASSERT_TRUE(cluster_->Compact().ok());
  NotingFollower follower;
  const auto following = late->Follow(follower);
  follower.AwaitTable(blue->store_id());
  EXPECT_EQ(late->missing(), 1U);
  const absl::Status refused = late->FindTable("red").status();
  EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT") << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), entry)) << refused;
  EXPECT_EQ(*late->FindTable("blue"), blue->store_id());
  EXPECT_EQ(*late->CountTables(), 3U);
}

// No checksum covers the numbers of bytes in these records.
TEST_F(EtcdStoreTest, RecordsWithAnotherNumberOfBytesAreRefused) {
  EtcdStoreOptions options = Options();
  options.log_bytes = 1;
  options.chunk_bytes = 100;
  const auto store = Open(options);
  StoredTable table, last;
  MakeTables(*store, table, last);
  AwaitSnapshot(table, *store);
  for (int i = 0; i < 9; ++i) Grow(table, *store);
  ASSERT_TRUE(Open()->Load().ok());
  const auto with_bytes = [&](const etcdserverpb::KeyValue& kv, auto record) {
    const std::string key = kv.key().substr(prefix_.size() + 1);
    ASSERT_TRUE(record.ParseFromString(kv.value()));
    for (const uint64_t bytes :
         {uint64_t{0}, record.bytes() - 1, record.bytes() + 1, ~uint64_t{0}}) {
      record.set_bytes(bytes);
      Put(key, record.SerializeAsString());
      EXPECT_EQ(ErrorReason(Open()->Load().status()), "STORE_CORRUPT")
          << key << " with " << bytes;
    }
    Put(key, kv.value());
  };
  with_bytes(Read("state/snapshots/").at(0), etcd::SnapshotRecord());
  const auto entries = Read("state/logs/");
  ASSERT_EQ(entries.size(), 10U);  // and one of the other table
  for (const auto& entry : entries) with_bytes(entry, etcd::LogRecord());
  ASSERT_TRUE(Open()->Load().ok());
}

// No server makes them. They would become names of files, for example.
TEST_F(EtcdStoreTest, NamesThatNoTableMayHaveAreIgnoredAndRefused) {
  Node running(Open());
  const auto late = Open();  // reads all again
  ASSERT_TRUE(late->Load().ok());
  uint64_t id = 0;
  for (const std::string name :
       {"", "a b", "a\nb", "Red", "a\xff", "../../x"}) {
    etcd::TableRecord record;
    record.set_id(++id);
    record.set_next(1);
    Put("state/tables/" + name, record.SerializeAsString());
    const auto loaded = Open()->Load();
    EXPECT_EQ(ErrorReason(loaded.status()), "STORE_CORRUPT") << name;
    EXPECT_TRUE(absl::StrContains(
        loaded.status().message(),
        absl::StrCat("/state/tables/", absl::CHexEscape(name), " ")))
        << loaded.status();
    if (name != "../../x") Erase("state/tables/" + name);
  }
  const auto red = running.tables.Create("red");
  ASSERT_TRUE(red.ok()) << red.status();
  ASSERT_TRUE((*red)->Apply(Announce("::/0", 1)).ok());
  EXPECT_EQ(running.tables.All().size(), 2U);

  ASSERT_TRUE(cluster_->Compact().ok());
  NotingFollower follower;
  auto following = late->Follow(follower);
  follower.AwaitTable((*red)->store_id());
  EXPECT_EQ(follower.whole().size(), 1U);
}

TEST_F(EtcdStoreTest, OtherFormatsAreRefused) {
  Put("format", "planb store 4");
  EXPECT_EQ(ErrorReason(Open()->Load().status()), "STORE_TOO_NEW");
  Put("format", "planb store 2");
  const absl::Status old = Open()->Load().status();
  EXPECT_EQ(ErrorReason(old), "STORE_TOO_OLD");
  EXPECT_TRUE(absl::IsFailedPrecondition(old)) << old;
}

// What a server has of a table that it kept, if etcd answers later.
TEST_F(EtcdStoreTest, ACopyIsFollowedOnlyIfTheStoreLeadsOnFromIt) {
  Node other(Open());
  Table& table = other.tables.default_table();
  ASSERT_TRUE(table.Apply(Announce("2001:db8:1::/48", 5)).ok());
  const auto second = table.Apply(Announce("2001:db8:2::/48", 6));
  ASSERT_TRUE(second.ok());
  struct Case {
    const char* what;
    uint64_t id, generation;
    std::vector<Route> routes;
    bool followed;
  };
  const Route first = {Prefix::Parse("2001:db8:1::/48").value(), 5};
  const Route wrong = {Prefix::Parse("2001:db8:1::/48").value(), 7};
  for (const Case& each : {
           Case{"older", table.store_id(), second->generation - 1, {first}, 1},
           {"as new, but not the same",
            table.store_id(),
            second->generation,
            {wrong},
            false},
           {"newer", table.store_id(), second->generation + 1, {first}, false},
           {"of another store", 1, second->generation - 1, {first}, false},
       }) {
    EtcdStoreOptions options = Options();
    options.patience = -absl::Seconds(1);  // Load() ends at once
    const auto store = Open(options);
    Tables tables({}, store.get());
    ASSERT_TRUE(tables
                    .Restore([&]() -> absl::StatusOr<StoredCopy> {
                      StoredCopy copy;
                      copy.as_of = absl::Now();
                      StoredTable& kept = copy.tables.emplace_back();
                      kept.name = "default";
                      kept.id = each.id;
                      kept.generation = each.generation;
                      kept.routes = each.routes;
                      return copy;
                    })
                    .ok());
    EXPECT_EQ(tables.All().size(), 1U) << each.what;
    const Table& copied = tables.default_table();
    if (each.followed) {
      AwaitSame(tables, other.tables);
    } else {
      EXPECT_TRUE(Await([&] { return !copied.replication_error().empty(); }))
          << each.what;
      EXPECT_EQ(copied.state().visible_generation(), each.generation)
          << each.what;
      EXPECT_TRUE(absl::IsDataLoss(tables.default_table()
                                       .Apply(Announce("2001:db8:3::/48", 1))
                                       .status()))
          << each.what;
    }
    tables.Drain(SteadyNow());
  }
}

TEST(EtcdStore, IsUnavailableWithoutEtcd) {
  EtcdStoreOptions options;
  options.etcd = ParseEtcdUrl("etcd://127.0.0.1:1/p").value();
  options.etcd.timeout = absl::Milliseconds(300);
  const auto store = EtcdStore::Open(options);
  ASSERT_TRUE(store.ok());
  const absl::Status status = (*store)->Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(status), "STORE_FAILED");
}

}  // namespace
}  // namespace planb::server
