// SPDX-License-Identifier: Apache-2.0

// The parts of the store on their own: entries, snapshots, checksums, the mark
// and the schema.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/sqlite_files.h"
#include "server/store/sqlite_rows.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

std::string Bytes(const AcceptedBatch& batch) {
  std::string bytes;
  AppendBatch(batch, bytes);
  return bytes;
}

ReadBatchResult Read(absl::string_view bytes) {
  ByteCursor cursor(bytes);
  ReadBatchResult batch;
  const absl::Status status = ReadBatch(cursor, batch);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(cursor.empty());
  return batch;
}

// A batch with something of each kind.
AcceptedBatch FullBatch() {
  Delta delta = {
      .generation = 1ULL << 63,
      .previous = 17,
      .routes = {MakeRoute("10.20.0.0/16", 7), MakeRoute("::/0", kNoRoute)},
      .next_hops = {{.id = 7,
                     .gateway = Address::V4(1),
                     .interface = "eth0",
                     .weight = 9,
                     .label = std::string("a\0b", 3)},
                    {.id = 8, .gateway = Address::V6(1)},
                    {.id = 0xfffffffe}},
      .groups = {{.id = 9, .members = {{7, 1}, {8, 0}}},
                 {.id = 10, .label = "empty"}},
      .deleted_next_hops = {1, 0xfffffffe},
      .deleted_groups = {5},
      .digest = std::string(16, 'd')};
  return {.delta = std::make_shared<const Delta>(std::move(delta)),
          .writer_epoch = ~0ULL,
          .request = AnsweredRequest{
              .request_id = std::string("r\0", 2),
              .fingerprint = 1,
              .outcome = {.generation = 2,
                          .counts = {3, 4, 5, 6, 7, 8, ~0ULL},
                          .digest = std::string(16, 'e'),
                          .accepted = absl::FromUnixNanos(-1)}}};
}

TEST(StoreEntry, BatchesRoundTrip) {
  const AcceptedBatch batch = FullBatch();
  const ReadBatchResult read = Read(Bytes(batch));
  EXPECT_EQ(read.delta->generation, batch.delta->generation);
  EXPECT_EQ(read.delta->previous, batch.delta->previous);
  EXPECT_EQ(read.delta->routes, batch.delta->routes);
  EXPECT_EQ(read.delta->next_hops, batch.delta->next_hops);
  EXPECT_EQ(read.delta->groups, batch.delta->groups);
  EXPECT_EQ(read.delta->deleted_next_hops, batch.delta->deleted_next_hops);
  EXPECT_EQ(read.delta->deleted_groups, batch.delta->deleted_groups);
  EXPECT_EQ(read.delta->digest, batch.delta->digest);
  EXPECT_EQ(read.writer_epoch, batch.writer_epoch);
  EXPECT_EQ(read.request, batch.request);

  const ReadBatchResult empty = Read(Bytes({.writer_epoch = 3}));
  EXPECT_FALSE(empty.delta.has_value());
  EXPECT_FALSE(empty.request.has_value());
  EXPECT_EQ(empty.writer_epoch, 3U);
}

TEST(StoreEntry, RoutesRoundTrip) {
  std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 2000, .ipv4_routes = 2000});
  for (const char* text :
       {"0.0.0.0/0", "::/0", "::/128", "255.255.255.255/32", "0.0.0.1/32",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "::1/128", "8000::/1"}) {
    routes.push_back(MakeRoute(text, 0xfffffffe));
  }
  const std::string bytes = Bytes(Batch(1, routes));
  EXPECT_EQ(Read(bytes).delta->routes, routes);
  EXPECT_LT(bytes.size(), routes.size() * 13);
}

TEST(StoreEntry, EveryCutIsDetected) {
  const std::string bytes = Bytes(FullBatch());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteCursor cursor(absl::string_view(bytes).substr(0, size));
    ReadBatchResult batch;
    EXPECT_EQ(ReadBatch(cursor, batch).code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(StoreEntry, InvalidRoutesAreRefused) {
  const std::string good = Bytes(Batch(1, {MakeRoute("10.0.0.0/8", 7)}));
  const size_t route = good.find(std::string("\x07\0\0\0\x08\x0a", 6));
  ASSERT_NE(route, std::string::npos);
  const auto read = [](const std::string& bytes) {
    ByteCursor cursor(bytes);
    ReadBatchResult batch;
    return ReadBatch(cursor, batch);
  };
  EXPECT_TRUE(read(good).ok());
  for (const auto& [at, byte] :
       {std::pair<size_t, int>{4, 4},  // 10.0.0.0/4: a host bit
        {4, 162},                      // longer than 128
        {4, 16},                       // the address is cut
        {0, 0xff}}) {
    std::string bad = good;
    bad[route + at] = static_cast<char>(byte);
    if (at == 0) bad.replace(route, 4, "\xff\xff\xff\xff");
    EXPECT_FALSE(read(bad).ok()) << byte;
  }
  std::string bad = good;
  bad[0] = 4;
  EXPECT_FALSE(read(bad).ok());
}

TEST(StoreSnapshot, RoundTripsInParts) {
  StoredTable table = {
      .name = "blue",
      .generation = 41,
      .writer_epoch = 5,
      .routes = SyntheticTable({.ipv6_routes = 90'000, .ipv4_routes = 60'000}),
      .next_hops = {{.id = 1, .label = "one"}, {.id = 2}},
      .groups = {{.id = 3, .members = {{1, 1}, {2, 7}}}},
      .requests = {*FullBatch().request, *FullBatch().request}};
  SnapshotSource source("blue", MakeVersion(table));
  StoredTable read = {.name = "blue", .generation = 41};
  SnapshotReader reader(read);
  int parts = 0;
  for (;; ++parts) {
    const std::string part = source.Next().value();
    if (part.empty()) break;
    EXPECT_LT(part.size(), 700'000U);
    ASSERT_TRUE(reader.Push(part).ok());
  }
  EXPECT_GT(parts, 2);
  ASSERT_TRUE(reader.Finish().ok());
  EXPECT_EQ(StoreDifference({table}, {read}), "");
  EXPECT_EQ(source.Next().value(), "");

  // It may be cut anywhere.
  std::string whole;
  SnapshotSource once_more("blue", MakeVersion(table));
  for (std::string part; !(part = once_more.Next().value()).empty();) {
    whole += part;
  }
  for (const size_t size : {7, 150, 1000}) {
    StoredTable put_together = {.name = "blue", .generation = 41};
    SnapshotReader pieces(put_together);
    for (size_t at = 0; at < whole.size(); at += size) {
      ASSERT_TRUE(pieces.Push(absl::string_view(whole).substr(at, size)).ok());
    }
    ASSERT_TRUE(pieces.Finish().ok());
    EXPECT_EQ(StoreDifference({table}, {put_together}), "");
  }
  for (const size_t size : {0, 5, 12, 13, 100}) {
    StoredTable cut = {.name = "blue", .generation = 41};
    SnapshotReader ends(cut);
    EXPECT_TRUE(ends.Push(absl::string_view(whole).substr(0, size)).ok());
    EXPECT_FALSE(ends.Finish().ok());
  }

  // It names its table and generation.
  for (const StoredTable& other : {StoredTable{.name = "red", .generation = 41},
                                   {.name = "blue", .generation = 40}}) {
    StoredTable filled = other;
    SnapshotReader wrong(filled);
    SnapshotSource again("blue", MakeVersion(table));
    EXPECT_FALSE(wrong.Push(again.Next().value()).ok());
  }
}

TEST(SqliteSchema, ChecksumsCoverEveryField) {
  const StoreRow store = {1, 2, 3, 4};
  for (uint64_t StoreRow::*field :
       {&StoreRow::store_id, &StoreRow::sequence, &StoreRow::generation_floor,
        &StoreRow::heads_sum}) {
    StoreRow other = store;
    ++(other.*field);
    EXPECT_NE(other.Checksum(), store.Checksum());
  }
  const TableRow head = {.id = 1, .name = "a"};
  std::vector<TableRow> others(11, head);
  others[0].id++;
  others[1].name = "ab";
  others[2].generation++;
  others[3].snapshot++;
  others[4].parts++;
  others[5].snapshot_checksum++;
  others[6].first++;
  others[7].base++;
  others[8].next++;
  others[9].chain++;
  others[10].prefix_lengths = true;
  for (const TableRow& other : others) {
    EXPECT_NE(other.Checksum(), head.Checksum());
  }
}

TEST(SqliteSchema, KeysAreOrderedByTableAndNumber) {
  EXPECT_LT(EntryKey(1, 0), EntryKey(1, 1));
  EXPECT_LT(LastEntryKey(1), EntryKey(2, 0));
  const auto last = static_cast<int64_t>(kMaxTableId);
  EXPECT_EQ(LastEntryKey(last), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(EntryKey(last, 5) >> kEntryBits, last);
  EXPECT_LT(PartKey(1, 7), PartKey(2, 0));
}

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove(path);
  return path;
}

TEST(CommitWatermark, KeepsOneRecord) {
  const std::string path = NewPath("mark");
  const StoreMarkRecord first = {
      .store_id = 1ULL << 63 | 7, .sequence = 8, .boot_id = CurrentBootId()};
  StoreMarkRecord second = first;
  second.sequence = ~0ULL;
  second.synced = false;
  {
    CommitWatermark mark = CommitWatermark::Open(path).value();
    EXPECT_EQ(mark.Read().value(), std::nullopt);
    ASSERT_TRUE(mark.Write(first).ok());
    EXPECT_EQ(mark.Read().value(), first);
    ASSERT_TRUE(mark.Write(second).ok());
  }
  EXPECT_EQ(CommitWatermark::Open(path).value().Read().value(), second);
  EXPECT_EQ(std::filesystem::file_size(path), 64U);
}

TEST(CommitWatermark, IsOpenOnlyOnce) {
  const std::string path = NewPath("held");
  auto mark =
      std::make_unique<CommitWatermark>(CommitWatermark::Open(path).value());
  const auto other = CommitWatermark::Open(path);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(other.status()), "STORE_IN_USE");
  EXPECT_NE(other.status().message().find(path), absl::string_view::npos);
  mark.reset();
  EXPECT_TRUE(CommitWatermark::Open(path).ok());
}

TEST(CommitWatermark, NeedsItsDirectory) {
  const auto mark = CommitWatermark::Open(NewPath("absent") + "/mark");
  EXPECT_EQ(mark.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(mark.status()), "STORE_UNWRITABLE");
}

TEST(CommitWatermark, DetectsEveryFlippedBitAndWrongLength) {
  const std::string path = NewPath("damaged");
  ASSERT_TRUE(CommitWatermark::Open(path).value().Write({.sequence = 5}).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto read = [&path](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return CommitWatermark::Open(path).value().Read();
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

TEST(CommitWatermark, BootIdIsTheSameUntilTheNextBoot) {
  EXPECT_EQ(CurrentBootId().size(), 16U);
  EXPECT_EQ(CurrentBootId(), CurrentBootId());
}

std::unique_ptr<Sql> OpenSql(const std::string& path) {
  return Sql::Open(path, /*create=*/true).value();
}

absl::Status Prepare(Sql& sql) {
  return PrepareStoreSchema(sql, {.store_id = 1, .sequence = 5});
}

TEST(SqliteSchema, AnotherVersionIsRefusedAndLeftAsItIs) {
  auto sql = OpenSql(NewStorePath("versions"));
  ASSERT_TRUE(Prepare(*sql).ok());
  for (const auto& [version, reason] :
       {std::pair{kStoreVersion + 1, "STORE_TOO_NEW"},
        {kStoreVersion - 1, "STORE_TOO_OLD"},
        {int64_t{1}, "STORE_TOO_OLD"}}) {
    ASSERT_TRUE(sql->Run(absl::StrCat("PRAGMA user_version = ", version)).ok());
    const absl::Status status = Prepare(*sql);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReason(status), reason);
    EXPECT_TRUE(absl::StrContains(
        status.message(),
        absl::StrCat("schema version ", version,
                     ", and this server has version ", kStoreVersion)))
        << status;
    EXPECT_EQ(*sql->Integer("PRAGMA user_version"), version);
  }
}

TEST(SqliteSchema, ForeignAndDamagedSchemasAreRefused) {
  const std::string path = NewStorePath("foreign");
  ASSERT_TRUE(OpenSql(path)->Run("CREATE TABLE t (a)").ok());
  EXPECT_EQ(ErrorReason(Prepare(*OpenSql(path))), "STORE_CORRUPT");

  auto sql = OpenSql(NewStorePath("damaged"));
  ASSERT_TRUE(Prepare(*sql).ok());
  ASSERT_TRUE(sql->Run("CREATE VIEW my_own AS SELECT * FROM log").ok());
  EXPECT_TRUE(Prepare(*sql).ok());
  ASSERT_TRUE(sql->Run("ALTER TABLE store RENAME COLUMN store_id TO x").ok());
  EXPECT_EQ(ErrorReason(Prepare(*sql)), "STORE_CORRUPT");
}

TEST(SqliteSchema, LeftoversAreDeletedInSmallSteps) {
  const auto sql = OpenSql(NewStorePath("leftovers"));
  ASSERT_TRUE(Prepare(*sql).ok());
  const std::string entry(200'000, 'x');
  for (int64_t number = 0; number < 20; ++number) {
    ASSERT_TRUE(sql->Change("INSERT INTO log VALUES (?, 0, ?)",
                            EntryKey(7, static_cast<uint64_t>(number)),
                            SqlBlob{entry})
                    .ok());
  }
  int64_t left = 20;
  while (left > 0) {
    EXPECT_FALSE(DeleteLeftovers(*sql).value());
    const int64_t now = sql->Integer("SELECT count(*) FROM log").value();
    EXPECT_LT(now, left);
    EXPECT_GE(now, left - 6);  // 1 MiB
    left = now;
  }
  EXPECT_TRUE(DeleteLeftovers(*sql).value());
}

TEST(SqliteSchema, ANewDatabaseHasTheVersion) {
  auto sql = OpenSql(":memory:");
  EXPECT_TRUE(Prepare(*sql).ok());
  EXPECT_EQ(*sql->Integer("PRAGMA user_version"), kStoreVersion);
  EXPECT_EQ(*sql->Integer("PRAGMA application_id"), kStoreApplicationId);
  EXPECT_EQ(*sql->Integer("SELECT sequence FROM store"), 5);
}

}  // namespace
}  // namespace planb::server
