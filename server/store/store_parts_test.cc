// SPDX-License-Identifier: Apache-2.0

// The parts of the store on their own: entries, snapshots, checksums, the mark
// and the schema.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/table_file.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_database.h"
#include "server/store/store_entry.h"
#include "server/store/store_replay.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

std::string Bytes(const AcceptedBatch& batch) {
  return MakeEntries({batch}, 1).at(0).bytes;
}

AcceptedBatch Read(absl::string_view bytes) {
  const auto batches = ReadEntry(bytes);
  EXPECT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->size(), 1U);
  return batches->at(0);
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
                    {.id = 8,
                     .gateway = Address::V6(1),
                     .attributes = Attributes("any")},
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
  AcceptedBatch batch = FullBatch();
  EXPECT_EQ(Read(Bytes(batch)).delta->complete_since, 0U);
  Delta complete = *batch.delta;
  complete.complete_since = ~0ULL;
  batch.delta = std::make_shared<const Delta>(std::move(complete));
  const AcceptedBatch read = Read(Bytes(batch));
  EXPECT_EQ(read.delta->generation, batch.delta->generation);
  EXPECT_EQ(read.delta->previous, batch.delta->previous);
  EXPECT_EQ(read.delta->routes, batch.delta->routes);
  EXPECT_EQ(read.delta->next_hops, batch.delta->next_hops);
  EXPECT_EQ(read.delta->groups, batch.delta->groups);
  EXPECT_EQ(read.delta->deleted_next_hops, batch.delta->deleted_next_hops);
  EXPECT_EQ(read.delta->deleted_groups, batch.delta->deleted_groups);
  EXPECT_EQ(read.delta->digest, batch.delta->digest);
  EXPECT_EQ(read.delta->complete_since, ~0ULL);
  EXPECT_EQ(read.writer_epoch, batch.writer_epoch);
  EXPECT_EQ(read.request, batch.request);

  const AcceptedBatch empty = Read(Bytes({.writer_epoch = 3}));
  EXPECT_EQ(empty.delta, nullptr);
  EXPECT_FALSE(empty.request.has_value());
  EXPECT_EQ(empty.writer_epoch, 3U);
}

// The hash is that of the bytes of a server that knew no attributes.
TEST(StoreEntry, WithoutAttributesNothingChanges) {
  AcceptedBatch batch = FullBatch();
  Delta delta = *batch.delta;
  delta.next_hops[1].attributes = {};
  batch.delta = std::make_shared<const Delta>(std::move(delta));
  EXPECT_EQ(Xxh3(Bytes(batch), 0), 0x8cb2e3aff5c91021);
  EXPECT_NE(Xxh3(Bytes(FullBatch()), 0), 0x8cb2e3aff5c91021);
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
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        ReadEntry(absl::string_view(bytes).substr(0, size)).status()))
        << size;
  }
}

TEST(StoreEntry, InvalidRoutesAreRefused) {
  const std::string good = Bytes(Batch(1, {MakeRoute("10.0.0.0/8", 7)}));
  const size_t route = good.find(std::string("\x07\0\0\0\x08\x0a", 6));
  ASSERT_NE(route, std::string::npos);
  EXPECT_TRUE(ReadEntry(good).ok());
  for (const auto& [at, byte] :
       {std::pair<size_t, int>{4, 4},  // 10.0.0.0/4: a host bit
        {4, 162},                      // longer than 128
        {4, 16},                       // the address is cut
        {0, 0xff}}) {
    std::string bad = good;
    bad[route + at] = static_cast<char>(byte);
    if (at == 0) bad.replace(route, 4, "\xff\xff\xff\xff");
    EXPECT_FALSE(ReadEntry(bad).ok()) << byte;
  }
  std::string bad = good;
  bad[0] = 8;
  EXPECT_FALSE(ReadEntry(bad).ok());
}

TEST(StoreSnapshot, RoundTripsInParts) {
  StoredTable table = {
      .name = "blue",
      .generation = 41,
      .writer_epoch = 5,
      .routes = SyntheticTable({.ipv6_routes = 90'000, .ipv4_routes = 60'000}),
      .next_hops = {{.id = 1, .label = "one"},
                    {.id = 2,
                     .attributes = Attributes(std::string(4096, 'a'))}},
      .groups = {{.id = 3, .members = {{1, 1}, {2, 7}}}},
      .requests = {*FullBatch().request, *FullBatch().request}};
  const TableVersion version = MakeVersion(table);
  std::vector<std::string> parts;
  const auto keep = [&](absl::string_view part) {
    EXPECT_LT(part.size(), 700'000U);
    parts.emplace_back(part);
    return absl::OkStatus();
  };
  ASSERT_TRUE(ForEachPart(ContentsOf(version), 512 << 10, keep).ok());
  EXPECT_GT(parts.size(), 2U);
  const auto read = [&] {
    LogReplay replay;
    replay.table().name = "blue";
    absl::Status status;
    for (const std::string& part : parts) {
      status.Update(replay.Read(part, /*is_part=*/true));
    }
    return status.ok() ? replay.Finish() : status;
  };
  table.requests.pop_back();  // the same once more
  EXPECT_EQ(StoreDifference({table}, {read().value()}), "");
  parts.erase(parts.begin() + 1);
  EXPECT_TRUE(absl::IsDataLoss(read().status()));
  const auto full = [](absl::string_view) {
    return absl::ResourceExhaustedError("full");
  };
  EXPECT_TRUE(
      absl::IsResourceExhausted(ForEachPart(ContentsOf(version), 1, full)));
}

TEST(SqliteDatabase, AChecksumCoversEveryField) {
  StoreState state = {.store_id = 1, .sequence = 2, .generation_floor = 3};
  TableRow& row = state.tables["a"];
  const uint64_t before = state.Checksum();
  for (uint64_t* const field :
       {&state.store_id, &state.sequence, &state.generation_floor,
        &row.remote_id, &row.generation, &row.parts, &row.next, &row.chain,
        &row.snapshot_bytes, &row.log_bytes}) {
    ++*field;
    EXPECT_NE(state.Checksum(), before);
    --*field;
  }
  row.prefix_lengths = true;
  EXPECT_NE(state.Checksum(), before);
  row = {.id = 1};
  EXPECT_NE(state.Checksum(), before);
  row = {};
  EXPECT_EQ(state.Checksum(), before);
  state.about = "b";
  EXPECT_NE(state.Checksum(), before);
  state.about = "";
  state.tables["b"];
  EXPECT_NE(state.Checksum(), before);
}

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove(path + "-mark");
  return path;
}

TEST(CommitWatermark, KeepsOneRecord) {
  const std::string path = NewPath("mark");
  const StoreMark first = {
      .store_id = 1ULL << 63 | 7, .sequence = 8, .boot = ThisBoot()};
  StoreMark second = first;
  second.sequence = ~0ULL;
  second.synced = 0;
  {
    const auto mark = CommitWatermark::Open(path).value();
    EXPECT_EQ(mark->Read().value(), std::nullopt);
    ASSERT_TRUE(mark->Write(first).ok());
    EXPECT_EQ(mark->Read().value(), first);
    ASSERT_TRUE(mark->Write(second).ok());
  }
  EXPECT_EQ(CommitWatermark::Open(path).value()->Read().value(), second);
  EXPECT_EQ(std::filesystem::file_size(path + "-mark"), 48U);
}

TEST(CommitWatermark, DetectsEveryFlippedBitAndWrongLength) {
  const std::string path = NewPath("damaged");
  ASSERT_TRUE(CommitWatermark::Open(path).value()->Write({.sequence = 5}).ok());
  std::ifstream file(path + "-mark", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto read = [&path](const std::string& bytes) {
    std::ofstream(path + "-mark", std::ios::binary) << bytes;
    return CommitWatermark::Open(path).value()->Read();
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
  // The mark of a server of another version says so, and is not damaged.
  for (const auto& [magic, reason] : {std::pair{"PlanBMk1", "STORE_TOO_OLD"},
                                      {"PlanBMk3", "STORE_TOO_NEW"}}) {
    EXPECT_EQ(ErrorReason(read(magic + std::string(56, 'x')).status()), reason);
  }
  EXPECT_EQ(read(std::string(64, '\0')).value(), std::nullopt);
}

absl::StatusOr<std::unique_ptr<Sql>> OpenOne(const std::string& path) {
  return OpenDatabase({.path = path}, /*new_store_id=*/1);
}

TEST(SqliteDatabase, AnotherVersionIsRefusedAndLeftAsItIs) {
  const std::string path = NewStorePath("versions");
  ASSERT_TRUE(OpenOne(path).ok());
  for (const auto& [version, reason] :
       {std::pair{kStoreVersion + 1, "STORE_TOO_NEW"},
        {kStoreVersion - 1, "STORE_TOO_OLD"},
        {int64_t{1}, "STORE_TOO_OLD"}}) {
    const auto sql = Sql::Open(path, false).value();
    ASSERT_TRUE(sql->Run(absl::StrCat("PRAGMA user_version = ", version)).ok());
    const absl::Status status = OpenOne(path).status();
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

TEST(SqliteDatabase, OneOfAnotherProgramIsRefused) {
  const std::string path = NewStorePath("foreign");
  ASSERT_TRUE(Sql::Open(path, true).value()->Run("CREATE TABLE t (a)").ok());
  EXPECT_EQ(ErrorReason(OpenOne(path).status()), "STORE_CORRUPT");
}

}  // namespace
}  // namespace planb::server
