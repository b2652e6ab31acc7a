// SPDX-License-Identifier: Apache-2.0

// A store that was damaged while no server ran. The server before ended by
// kill -9 and left routes in the database and in the write-ahead log. The next
// server either refuses to start and says what to do, or serves all that was
// acknowledged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

using testing::HasSubstr;

constexpr uint32_t kRoutes = 2000;

// The path as SQLite names it.
std::string NewStore(const std::string& name) {
  return std::filesystem::path(NewStorePath(name)).lexically_normal();
}

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    store_ =
        NewStore(testing::UnitTest::GetInstance()->current_test_info()->name());
    {
      StoredServer server(store_);
      ASSERT_TRUE(server.Begins()) << server.process().Log();
      ASSERT_TRUE(server.Update(Announcement(0, kRoutes, 1)).ok());
      // A regular end moves the log into the database.
      ASSERT_EQ(server.End(), 0);
    }
    StoredServer server(store_);
    ASSERT_TRUE(server.Begins()) << server.process().Log();
    for (uint32_t batch = 0; batch < 20; ++batch) {
      ASSERT_TRUE(server.Update(Announcement(batch * 10, 20, batch + 2)).ok());
    }
    listed_ = server.List();
    server.KillNow();
    files_ = ReadStoreFiles(store_);
    ASSERT_GT(files_[""].size(), 8192U);
    ASSERT_GT(files_["-wal"].size(), 8192U);
  }

  // Starts a server on these files. False if it serves, with all routes.
  bool IsRefused(const StoreFiles& files) {
    WriteStoreFiles(store_, files);
    StoredServer server(store_);
    if (server.Begins()) {
      EXPECT_EQ(server.List(), listed_);
      EXPECT_EQ(server.State().digest(), listed_.digest);
      return false;
    }
    EXPECT_EQ(server.process().Wait(), 1);
    const std::string line = OneLine(server.process());
    EXPECT_THAT(line, HasSubstr(store_));
    EXPECT_THAT(line, HasSubstr("move"));
    EXPECT_THAT(line, HasSubstr("away"));
    // The files are left as they were, so that an operator can examine them.
    StoreFiles after = ReadStoreFiles(store_);
    for (const char* suffix : {"", "-wal"}) {
      const auto had = files.find(suffix);
      EXPECT_TRUE(after[suffix] == (had == files.end() ? "" : had->second))
          << "'" << suffix << "' was changed";
    }
    last_line_ = line;
    return true;
  }

  std::string store_;
  Listed listed_;
  StoreFiles files_;
  std::string last_line_;
};

StoreFiles WithFlip(StoreFiles files, size_t at, int bit) {
  char& byte = files[""].at(at);
  byte = static_cast<char>(byte ^ (1 << bit));
  return files;
}

// Some bytes of the database hold nothing: there are gaps, and pages that the
// log replaces.
TEST_F(Damage, FlippedBitsOfTheDatabaseAreRefusedOrHarmless) {
  std::mt19937_64 random(std::random_device{}());
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    const size_t at = random() % files_[""].size();
    const auto bit = static_cast<int>(random() % 8);
    SCOPED_TRACE(testing::Message() << "bit " << bit << " of byte " << at);
    refused += IsRefused(WithFlip(files_, at, bit)) ? 1 : 0;
  }
  std::cout << refused << " of 20 refused, the others harmless\n";
}

// The page of the last route is not in the log.
TEST_F(Damage, FlippedBitsOfARouteAreRefused) {
  static_assert(kRoutes - 1 == 0x7cf);
  const size_t at = files_[""].find("\x20\x01\x0d\xb8\x07\xcf");
  ASSERT_NE(at, std::string::npos);
  for (size_t byte = at; byte < at + 6; ++byte) {
    SCOPED_TRACE(byte);
    EXPECT_TRUE(IsRefused(WithFlip(files_, byte, 3)));
  }
}

TEST_F(Damage, RemovingTheNamedFilesHelps) {
  StoreFiles files = files_;
  files[""].resize(5000);
  ASSERT_TRUE(IsRefused(files));
  for (const char* suffix : {"", "-wal", "-shm", "-mark"}) {
    const std::string path = absl::StrCat(store_, suffix);
    EXPECT_THAT(last_line_, HasSubstr(path));
    std::filesystem::remove(path);
  }
  EXPECT_THAT(last_line_, HasSubstr("import a snapshot"));
  StoredServer server(store_);
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  EXPECT_TRUE(server.List().routes.empty());
  EXPECT_TRUE(server.Update(Announcement(0, kRoutes, 1)).ok());
}

}  // namespace
}  // namespace planb::server
