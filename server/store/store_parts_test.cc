// SPDX-License-Identifier: Apache-2.0

// The parts of the store on their own: columns, merged batches, the mark, the
// schema.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/store_files.h"
#include "server/store/store_schema.h"
#include "server/store/store_writer.h"
#include "server/testing/store_place.h"

namespace planb::server {
namespace {

TEST(StoreRows, PrefixesRoundTrip) {
  std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 2000, .ipv4_routes = 2000});
  for (const char* text :
       {"0.0.0.0/0", "::/0", "::/128", "255.255.255.255/32", "0.0.0.1/32",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "::1/128"}) {
    routes.push_back({Prefix::Parse(text).value(), 1});
  }
  for (const Route& route : routes) {
    const PackedAddress address(route.prefix.address());
    const auto prefix =
        UnpackPrefix(static_cast<int64_t>(route.prefix.family()),
                     address.bytes(), route.prefix.length());
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    ASSERT_EQ(*prefix, route.prefix);
  }
}

// SQLite returns a null pointer for an empty BLOB.
TEST(StoreRows, AnEmptyAddressIsZero) {
  EXPECT_EQ(UnpackPrefix(4, absl::string_view(), 0).value(),
            Prefix::Parse("0.0.0.0/0").value());
}

// The primary key of routes must have the order of prefixes.
TEST(StoreRows, PackedAddressesAreOrderedLikeAddresses) {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 5000, .ipv4_routes = 0});
  for (size_t i = 1; i < routes.size(); ++i) {
    const PackedAddress a(routes[i - 1].prefix.address());
    const PackedAddress b(routes[i].prefix.address());
    ASSERT_EQ(a.bytes() < b.bytes(),
              routes[i - 1].prefix.address() < routes[i].prefix.address());
  }
}

TEST(StoreRows, InvalidPrefixesAreRefused) {
  const absl::string_view net("\x0a\x01", 2);  // 10.1.0.0
  EXPECT_TRUE(UnpackPrefix(4, net, 16).ok());
  const std::pair<absl::StatusOr<Prefix>, const char*> wrong[] = {
      {UnpackPrefix(5, net, 16), "family 5"},
      {UnpackPrefix(4, net, 15), "10.1.0.0/15"},  // a host bit
      {UnpackPrefix(4, net, 33), "length"},
      {UnpackPrefix(6, net, 129), "length"},
      {UnpackPrefix(6, net, -1), "length"},
      {UnpackPrefix(6, net, 1LL << 32 | 16), "length"},
      {UnpackPrefix(4, absl::string_view("\x0a\0", 2), 16), "0a00"},
      {UnpackPrefix(4, "12345", 32), "3132333435"},
      {UnpackPrefix(6, "12345678901234567", 128), "IPv6 address"},
  };
  for (const auto& [prefix, part] : wrong) {
    EXPECT_EQ(prefix.status().code(), absl::StatusCode::kDataLoss) << part;
    EXPECT_NE(prefix.status().message().find(part), absl::string_view::npos)
        << prefix.status();
  }
}

TEST(StoreRows, InvalidNumbersAreRefused) {
  EXPECT_EQ(*UnpackNextHopId(1), 1U);
  EXPECT_EQ(*UnpackNextHopId(0xfffffffe), 0xfffffffeU);
  for (int64_t id :
       {int64_t{0}, int64_t{-1}, int64_t{0xffffffff}, int64_t{1} << 32}) {
    EXPECT_FALSE(UnpackNextHopId(id).ok()) << id;
  }
  EXPECT_EQ(*UnpackWeight(0), 0U);
  EXPECT_EQ(*UnpackWeight(0xffffffff), 0xffffffffU);
  EXPECT_FALSE(UnpackWeight(-1).ok());
  EXPECT_FALSE(UnpackWeight(int64_t{1} << 32).ok());
}

TEST(StoreRows, GatewaysAndMembersRoundTrip) {
  for (const char* text :
       {"192.0.2.1", "2001:db8::1", "::ffff:1.2.3.4", "::"}) {
    const NextHop hop = {.id = 1, .gateway = Address::Parse(text).value()};
    EXPECT_EQ(ParseGateway(*FormatGateway(hop)).value(), *hop.gateway) << text;
  }
  EXPECT_EQ(FormatGateway({.id = 1}), std::nullopt);
  EXPECT_FALSE(ParseGateway("192.0.2").ok());

  NextHopGroup group;
  EXPECT_EQ(ParseMembers(FormatMembers(group)).value(), group.members);
  group.members = {{7, 1}, {8, 0xffffffff}, {7, 0}};
  EXPECT_EQ(FormatMembers(group), "7*1 8*4294967295 7*0");
  EXPECT_EQ(ParseMembers(FormatMembers(group)).value(), group.members);
  for (const char* text : {"7", "7*", "*1", "7*1 ", "7*1*1", "7*4294967296"}) {
    EXPECT_FALSE(ParseMembers(text).ok()) << text;
  }
}

TEST(StoreRows, ChecksumsCoverEveryField) {
  const StoreRow store = {1, 2, 3, 4};
  for (uint64_t StoreRow::*field :
       {&StoreRow::store_id, &StoreRow::sequence, &StoreRow::generation_floor,
        &StoreRow::tables_sum}) {
    StoreRow other = store;
    ++(other.*field);
    EXPECT_NE(other.Checksum(), store.Checksum());
  }
  const TableRow table = {.id = 1,
                          .name = "a",
                          .generation = 2,
                          .writer_epoch = 3,
                          .digest = "b",
                          .objects_digest = "c",
                          .first_request = 4,
                          .next_request = 5};
  std::vector<TableRow> others(8, table);
  others[0].id++;
  others[1].name = "ab";
  others[2].generation++;
  others[3].writer_epoch++;
  others[4].digest = "";
  others[5].objects_digest = "bc";
  others[6].first_request++;
  others[7].next_request++;
  for (const TableRow& other : others) {
    EXPECT_NE(other.Checksum(), table.Checksum());
  }
  const AnsweredRequest request = {.request_id = "r"};
  std::vector<AnsweredRequest> changed(12, request);
  changed[0].request_id = "s";
  changed[1].fingerprint = 1;
  changed[2].outcome.generation = 1;
  changed[3].outcome.digest = "d";
  changed[4].outcome.accepted += absl::Nanoseconds(1);
  uint64_t ChangeCounts::*counts[] = {&ChangeCounts::added,
                                      &ChangeCounts::changed,
                                      &ChangeCounts::removed,
                                      &ChangeCounts::unchanged,
                                      &ChangeCounts::next_hops_added,
                                      &ChangeCounts::next_hops_changed,
                                      &ChangeCounts::next_hops_removed};
  for (size_t i = 0; i < std::size(counts); ++i) {
    changed[5 + i].outcome.counts.*counts[i] = 1;
  }
  for (const AnsweredRequest& other : changed) {
    EXPECT_NE(RequestChecksum(1, 2, other), RequestChecksum(1, 2, request));
  }
  EXPECT_NE(RequestChecksum(2, 2, request), RequestChecksum(1, 2, request));
  EXPECT_NE(RequestChecksum(1, 3, request), RequestChecksum(1, 2, request));
}

Route MakeRoute(const char* prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

AcceptedBatch Batch(Delta delta) {
  return {.delta = std::make_shared<const Delta>(std::move(delta))};
}

std::vector<Route> Routes(const StoreChanges& changes) {
  std::vector<Route> routes;
  for (const Route* route : changes.routes) routes.push_back(*route);
  return routes;
}

TEST(StoreChanges, KeepTheLastStateOfEachPrefixInOrder) {
  const AcceptedBatch batches[] = {
      Batch({.generation = 1,
             .routes = {MakeRoute("10.0.0.0/8", 1), MakeRoute("::/0", 1),
                        MakeRoute("0.0.0.0/0", 1)}}),
      Batch({.generation = 2,
             .routes = {MakeRoute("::/0", kNoRoute),
                        MakeRoute("10.0.0.0/8", 2)}}),
      Batch({.generation = 3, .routes = {MakeRoute("::/0", 3)}}),
  };
  const StoreChanges changes = MergeBatches(batches);
  EXPECT_EQ(Routes(changes), (std::vector<Route>{MakeRoute("0.0.0.0/0", 1),
                                                 MakeRoute("10.0.0.0/8", 2),
                                                 MakeRoute("::/0", 3)}));
  EXPECT_EQ(changes.last->generation, 3U);
  EXPECT_EQ(
      Routes(MergeBatches(absl::MakeConstSpan(batches).first(2))),
      (std::vector<Route>{MakeRoute("0.0.0.0/0", 1), MakeRoute("10.0.0.0/8", 2),
                          MakeRoute("::/0", kNoRoute)}));
}

TEST(StoreChanges, KeepTheLastStateOfNextHopsAndGroups) {
  const AcceptedBatch batches[] = {
      Batch({.next_hops = {{.id = 1, .label = "old"}, {.id = 2}},
             .groups = {{.id = 5}},
             .deleted_next_hops = {3}}),
      Batch({.next_hops = {{.id = 1, .label = "new"}, {.id = 3}},
             .deleted_next_hops = {2},
             .deleted_groups = {5}}),
  };
  const StoreChanges changes = MergeBatches(batches);
  ASSERT_EQ(changes.next_hops.size(), 3U);
  EXPECT_EQ(changes.next_hops.at(1)->label, "new");
  EXPECT_EQ(changes.next_hops.at(2), nullptr);
  EXPECT_NE(changes.next_hops.at(3), nullptr);
  ASSERT_EQ(changes.groups.size(), 1U);
  EXPECT_EQ(changes.groups.at(5), nullptr);
}

TEST(StoreChanges, KeepRequestsAndEpochOfBatchesWithoutADelta) {
  const AcceptedBatch batches[] = {
      {.writer_epoch = 1, .request = AnsweredRequest{.request_id = "a"}},
      {.writer_epoch = 4},
      {.writer_epoch = 4, .request = AnsweredRequest{.request_id = "b"}},
  };
  const StoreChanges changes = MergeBatches(batches);
  EXPECT_EQ(changes.last, nullptr);
  EXPECT_EQ(changes.writer_epoch, 4U);
  ASSERT_EQ(changes.requests.size(), 2U);
  EXPECT_EQ(changes.requests[0]->request_id, "a");
  EXPECT_EQ(changes.requests[1]->request_id, "b");
}

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove(path);
  return path;
}

TEST(StoreMark, KeepsOneRecord) {
  const std::string path = NewPath("mark");
  const StoreMarkRecord first = {
      .store_id = 1ULL << 63 | 7, .sequence = 8, .boot_id = CurrentBootId()};
  StoreMarkRecord second = first;
  second.sequence = ~0ULL;
  second.synced = false;
  {
    StoreMark mark = StoreMark::Open(path).value();
    EXPECT_EQ(mark.Read().value(), std::nullopt);
    ASSERT_TRUE(mark.Write(first).ok());
    EXPECT_EQ(mark.Read().value(), first);
    ASSERT_TRUE(mark.Write(second).ok());
  }
  EXPECT_EQ(StoreMark::Open(path).value().Read().value(), second);
  EXPECT_EQ(std::filesystem::file_size(path), 64U);
}

TEST(StoreMark, IsOpenOnlyOnce) {
  const std::string path = NewPath("held");
  auto mark = std::make_unique<StoreMark>(StoreMark::Open(path).value());
  const auto other = StoreMark::Open(path);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(other.status()), "STORE_IN_USE");
  EXPECT_NE(other.status().message().find(path), absl::string_view::npos);
  mark.reset();
  EXPECT_TRUE(StoreMark::Open(path).ok());
}

TEST(StoreMark, NeedsItsDirectory) {
  const auto mark = StoreMark::Open(NewPath("absent") + "/mark");
  EXPECT_EQ(mark.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(mark.status()), "STORE_UNWRITABLE");
}

TEST(StoreMark, DetectsEveryFlippedBitAndWrongLength) {
  const std::string path = NewPath("damaged");
  ASSERT_TRUE(StoreMark::Open(path).value().Write({.sequence = 5}).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto read = [&path](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return StoreMark::Open(path).value().Read();
  };
  ASSERT_TRUE(read(good).ok());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(ErrorReason(read(bad).status()), "STORE_CORRUPT") << bit;
  }
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(read(good.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(read(good + "x").ok());
  // A power loss can leave a file that was created but not written.
  EXPECT_EQ(read("").value(), std::nullopt);
  EXPECT_EQ(read(std::string(64, '\0')).value(), std::nullopt);
}

TEST(StoreMark, BootIdIsTheSameUntilTheNextBoot) {
  EXPECT_EQ(CurrentBootId().size(), 16U);
  EXPECT_EQ(CurrentBootId(), CurrentBootId());
}

std::unique_ptr<Sql> OpenSql(const std::string& path) {
  return Sql::Open(path, /*create=*/true).value();
}

const std::vector<std::string> kSteps = {
    "CREATE TABLE hop (id INTEGER)",
    "ALTER TABLE hop ADD COLUMN weight INTEGER DEFAULT 7",
    "UPDATE hop SET weight = weight + id",
};

absl::Span<const std::string> Steps(size_t count) {
  return absl::MakeConstSpan(kSteps).first(count);
}

TEST(StoreSchema, UpgradesStepByStepFromAnyVersion) {
  for (size_t from = 1; from <= 3; ++from) {
    SCOPED_TRACE(from);
    const std::string path = NewStorePath("migrated");
    EXPECT_TRUE(*PrepareStoreSchema(
        *OpenSql(path), "INSERT INTO hop (id) VALUES (1)", Steps(from)));
    auto sql = OpenSql(path);
    const auto created = PrepareStoreSchema(*sql, "no SQL", Steps(3));
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_FALSE(*created);
    EXPECT_EQ(*sql->Integer("PRAGMA user_version"), 3);
    // At version 3 the last step ran before the row was inserted.
    EXPECT_EQ(*sql->Integer("SELECT weight FROM hop"), from == 3 ? 7 : 8);
  }
}

TEST(StoreSchema, AFailedStepKeepsTheOldVersion) {
  const std::string path = NewStorePath("stuck");
  ASSERT_TRUE(PrepareStoreSchema(*OpenSql(path), "", Steps(1)).ok());
  std::vector<std::string> steps = {kSteps[0],
                                    "CREATE TABLE half (id INTEGER); nonsense"};
  auto sql = OpenSql(path);
  EXPECT_FALSE(PrepareStoreSchema(*sql, "", steps).ok());
  EXPECT_EQ(*sql->Integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*sql->Integer("SELECT count(*) FROM sqlite_schema"), 1);
  EXPECT_TRUE(PrepareStoreSchema(*sql, "", Steps(3)).ok());
}

TEST(StoreSchema, NewerVersionIsRefused) {
  const std::string path = NewStorePath("newer");
  ASSERT_TRUE(PrepareStoreSchema(*OpenSql(path), "", Steps(3)).ok());
  auto sql = OpenSql(path);
  const auto created = PrepareStoreSchema(*sql, "", Steps(2));
  EXPECT_EQ(created.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(created.status()), "STORE_TOO_NEW");
  EXPECT_NE(created.status().message().find("schema version 3"),
            absl::string_view::npos);
  EXPECT_EQ(*sql->Integer("PRAGMA user_version"), 3);
}

TEST(StoreSchema, ForeignAndDamagedSchemasAreRefused) {
  const std::string path = NewStorePath("foreign");
  ASSERT_TRUE(OpenSql(path)->Run("CREATE TABLE t (a)").ok());
  EXPECT_EQ(
      ErrorReason(PrepareStoreSchema(*OpenSql(path), "", Steps(1)).status()),
      "STORE_CORRUPT");

  const std::string ours = NewStorePath("damaged");
  auto sql = OpenSql(ours);
  ASSERT_TRUE(PrepareStoreSchema(*sql, "", Steps(2)).ok());
  ASSERT_TRUE(sql->Run("CREATE VIEW my_own AS SELECT * FROM hop").ok());
  EXPECT_TRUE(PrepareStoreSchema(*sql, "", Steps(2)).ok());
  ASSERT_TRUE(sql->Run("ALTER TABLE hop RENAME COLUMN weight TO height").ok());
  EXPECT_EQ(ErrorReason(PrepareStoreSchema(*sql, "", Steps(2)).status()),
            "STORE_CORRUPT");
}

TEST(StoreSchema, ANewDatabaseHasTheNewestVersion) {
  auto sql = OpenSql(":memory:");
  ASSERT_TRUE(PrepareStoreSchema(*sql, "").ok());
  EXPECT_EQ(*sql->Integer("PRAGMA user_version"),
            static_cast<int64_t>(StoreSchemaSteps().size()));
  EXPECT_EQ(*sql->Integer("PRAGMA application_id"), kStoreApplicationId);
}

}  // namespace
}  // namespace planb::server
