// The store's promises one by one, and a long random history against a model.

#include "server/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/cleanup/cleanup.h"
#include "server/error.h"
#include "server/table_digest.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<SqliteStore> OpenStore(const std::string& path) {
  auto store = SqliteStore::Open(
      {.path = path, .sync = StoreSync::kOff, .request_window = 5});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

TEST(SqliteStore, KeepsARandomHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::string path = NewStorePath("history");
    StoreScript script({.seed = seed});
    auto store = OpenStore(path);
    for (int step = 1; step <= 400; ++step) {
      ASSERT_TRUE(script.Step(store.get()).ok());
      if (step % 20 == 0) {
        store.reset();
        store = OpenStore(path);
        ASSERT_NE(store, nullptr);
      }
      if (step % 10 == 0) {
        const auto loaded = store->Load();
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        ASSERT_EQ(StoreDifference(script.Tables(), *loaded), "");
        ASSERT_EQ(store->generation_floor(), script.generation_floor());
      }
    }
  }
}

TEST(SqliteStore, IsEmptyWhenNew) {
  auto store = OpenStore(NewStorePath("new"));
  EXPECT_EQ(store->kind(), "sqlite");
  EXPECT_THAT(store->path(), HasSubstr("planb.db"));
  EXPECT_TRUE(store->Load().value().empty());
  EXPECT_EQ(store->generation_floor(), 0U);
}

}  // namespace
}  // namespace planb::server
