// SPDX-License-Identifier: Apache-2.0

// What the store opens and what it refuses: files of others, files it may not
// write to, files that were edited; and what people see of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "server/base/error.h"
#include "server/store/sqlite_store.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"

namespace planb::server {
namespace {

using ::testing::HasSubstr;

// Runs SQL as somebody else.
void Edit(const std::string& path, const std::string& text) {
  const absl::Status status = Sql::Open(path, false).value()->Run(text);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(SqliteStoreOpen, IsHeldByOne) {
  const std::string path = NewStorePath("held");
  auto store = OpenStore(path);
  const auto second = SqliteStore::Open({.path = path});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(second.status()), "STORE_IN_USE");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
  // The first one did not notice.
  EXPECT_TRUE(store->CreateTable("default", 0).ok());
  store.reset();
  EXPECT_EQ(OpenStore(path)->Load()->size(), 1U);
}

TEST(SqliteStoreOpen, NeedsADirectoryItMayWriteTo) {
  const auto absent = SqliteStore::Open({.path = "/absent/planb.db"});
  EXPECT_EQ(ErrorReason(absent.status()), "STORE_UNWRITABLE");
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("/absent/"));
}

// Root may write anywhere, so these are tried as somebody else.
TEST(SqliteStoreOpen, NeedsFilesItMayWriteTo) {
  namespace fs = std::filesystem;
  std::string directory = "/tmp/planb_store_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const auto remove =
      absl::MakeCleanup([&directory] { fs::remove_all(directory); });
  const std::string path = directory + "/planb.db";
  ASSERT_TRUE(OpenStore(path)->CreateTable("default", 0).ok());
  const bool root = geteuid() == 0;
  const auto open_as_other = [&] {
    if (root && seteuid(65534) != 0) return absl::UnknownError("seteuid");
    const auto store = SqliteStore::Open({.path = path});
    if (root && seteuid(0) != 0) return absl::UnknownError("seteuid");
    return store.status();
  };
  fs::permissions(directory, fs::perms(0555));
  for (const auto mode : {fs::perms(0444), fs::perms(0666)}) {
    fs::permissions(path, mode);
    fs::permissions(path + "-mark", mode);
    const absl::Status status = open_as_other();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ErrorReason(status), "STORE_UNWRITABLE") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  fs::permissions(directory, fs::perms(0777));
  fs::permissions(path, fs::perms(0444));
  EXPECT_EQ(ErrorReason(open_as_other()), "STORE_UNWRITABLE");
  fs::permissions(path, fs::perms(0666));
  EXPECT_TRUE(open_as_other().ok());
}

TEST(SqliteStoreOpen, NewerSchemaIsRefused) {
  const std::string path = NewStorePath("newer");
  OpenStore(path).reset();
  Edit(path, "PRAGMA user_version = 77");
  const auto store = SqliteStore::Open({.path = path});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(store.status()), "STORE_TOO_NEW");
}

TEST(SqliteStoreOpen, ShowsRoutesToPeople) {
  const std::string path = NewStorePath("people");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(
      store
          ->Commit("default", {Batch(1, {MakeRoute("10.20.0.0/16", 7),
                                         MakeRoute("255.255.255.255/32", 8),
                                         MakeRoute("::/0", 9),
                                         MakeRoute("2001:db8:ab::/48", 5)})})
          .ok());
  const auto sql = Sql::Open(path, false).value();
  EXPECT_EQ(*sql->Text("SELECT group_concat(table_name || ' ' || prefix || ' '"
                       " || next_hop, '; ') FROM route_list"),
            "default 10.20.0.0/16 7; default 255.255.255.255/32 8;"
            " default 0000:0000:0000:0000:0000:0000:0000:0000/0 9;"
            " default 2001:0db8:00ab:0000:0000:0000:0000:0000/48 5");
}

// What no commit can have written is told from what is only not the newest.
TEST(SqliteStoreOpen, EditedByHandIsRefused) {
  const std::string good = NewStorePath("edited");
  {
    auto store = OpenStore(good);
    ASSERT_TRUE(store->CreateTable("default", 0).ok());
    AcceptedBatch batch = Batch(1, {MakeRoute("10.20.0.0/16", 7)});
    batch.request = AnsweredRequest{.request_id = "r"};
    ASSERT_TRUE(store->Commit("default", {batch}).ok());
    const auto hops = std::make_shared<Delta>(*batch.delta);
    hops->generation = 2;
    hops->routes.clear();
    hops->next_hops = {{.id = 7}};
    hops->groups = {{.id = 8, .members = {{7, 1}}}};
    ASSERT_TRUE(store->Commit("default", {{.delta = hops}}).ok());
  }
  const StoreFiles files = ReadStoreFiles(good);
  const std::pair<const char*, const char*> edits[] = {
      {"UPDATE routes SET length = 8", "host bits"},
      {"UPDATE routes SET length = 33", "length"},
      {"UPDATE routes SET address = x'0a14000000'", "0a14000000"},
      {"UPDATE routes SET address = x'0a1400'", "0a1400"},
      {"UPDATE routes SET family = 5", "family 5"},
      {"UPDATE routes SET next_hop = 0", "next hop 0"},
      {"UPDATE routes SET next_hop = 4294967295", "next hop 4294967295"},
      {"UPDATE routes SET next_hop = 8", "not those that were committed"},
      {"UPDATE routes SET table_id = 9", "table 9"},
      {"DELETE FROM routes", "not those that were committed"},
      {"UPDATE next_hops SET weight = -1", "weight -1"},
      {"UPDATE next_hops SET gateway = 'x'", "x"},
      {"UPDATE next_hops SET label = 'x'", "not those that were committed"},
      {"DELETE FROM next_hops", "not those that were committed"},
      {"UPDATE next_hop_groups SET members = '7'", "members"},
      {"UPDATE next_hop_groups SET id = 9", "not those that were committed"},
      {"UPDATE requests SET request_id = 's'", "damaged or missing"},
      {"UPDATE requests SET number = 9", "damaged or missing"},
      {"DELETE FROM requests", "missing"},
      {"UPDATE tables SET generation = 9", "row of table"},
      {"DELETE FROM tables", "a row of tables is missing"},
      {"UPDATE store SET generation_floor = 9", "row of store"},
      {"DELETE FROM store", "row of store"},
      {"DROP TABLE requests", "its schema is damaged"},
  };
  for (const auto& [edit, says] : edits) {
    SCOPED_TRACE(edit);
    WriteStoreFiles(good, files);
    Edit(good, edit);
    const auto store = SqliteStore::Open({.path = good});
    const absl::Status status =
        store.ok() ? (*store)->Load().status() : store.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ErrorReason(status), "STORE_CORRUPT");
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
    EXPECT_THAT(std::string(status.message()), HasSubstr(good + "-mark"));
  }
  // Nor does it pass while the store is open.
  WriteStoreFiles(good, files);
  auto store = OpenStore(good);
  Edit(good, "UPDATE store SET sequence = sequence + 1");
  EXPECT_EQ(store->Load().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace planb::server
