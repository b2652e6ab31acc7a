// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_schema.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/base/error.h"
#include "server/testing/store_place.h"

namespace planb::server {
namespace {

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

TEST(StoreSchema, GoesStepByStepFromAnyVersion) {
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
    // The last step came before the row if it was created at version 3.
    EXPECT_EQ(*sql->Integer("SELECT weight FROM hop"), from == 3 ? 7 : 8);
  }
}

TEST(StoreSchema, StepThatFailsLeavesTheOldVersion) {
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

TEST(StoreSchema, ForeignAndDamagedOnesAreRefused) {
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

TEST(StoreSchema, NewestIsWhatTheStepsMake) {
  auto sql = OpenSql(":memory:");
  ASSERT_TRUE(PrepareStoreSchema(*sql, "").ok());
  EXPECT_EQ(*sql->Integer("PRAGMA user_version"),
            static_cast<int64_t>(StoreSchemaSteps().size()));
  EXPECT_EQ(*sql->Integer("PRAGMA application_id"), kStoreApplicationId);
}

}  // namespace
}  // namespace planb::server
