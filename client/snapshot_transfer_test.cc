// SPDX-License-Identifier: Apache-2.0

// A table goes to a file and comes back; what breaks off leaves no trace.

#include "client/snapshot_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

// The name leads to the whole new file, or to the old one.

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/atomicXXXXXX");
    directory_ = mkdtemp(name.data());
    path_ = absl::StrCat(directory_, "/file");
  }
  ~AtomicFileTest() override { std::filesystem::remove_all(directory_); }

  std::string Contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  size_t FilesInDirectory() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::string directory_;
  std::string path_;
};

TEST_F(AtomicFileTest, AppearsWithCommit) {
  {
    AtomicFile file(path_);
    ASSERT_TRUE(file.Append("one ").ok());
    ASSERT_TRUE(file.Append("two").ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
    ASSERT_TRUE(file.Commit().ok()) << file.status();
  }
  EXPECT_EQ(Contents(), "one two");
  EXPECT_EQ(FilesInDirectory(), 1U);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldOneStays) {
  std::ofstream(path_) << "old";
  {
    AtomicFile file(path_);
    ASSERT_TRUE(file.Append("new").ok());
    EXPECT_EQ(FilesInDirectory(), 2U);
  }
  EXPECT_EQ(Contents(), "old");
  EXPECT_EQ(FilesInDirectory(), 1U);
  AtomicFile file(path_);
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Contents(), "new");
}

TEST_F(AtomicFileTest, ErrorsStayAndNameThePath) {
  AtomicFile file(absl::StrCat(directory_, "/none/file"));
  EXPECT_TRUE(absl::IsNotFound(file.status())) << file.status();
  EXPECT_THAT(std::string(file.status().message()),
              ::testing::HasSubstr("none/file"));
  EXPECT_EQ(file.Append("x"), file.status());
  EXPECT_EQ(file.Commit(), file.status());
  std::filesystem::create_directory(path_);
  AtomicFile onto_directory(path_);
  EXPECT_FALSE(onto_directory.Commit().ok());
}

// Renamed over, they would be gone.
TEST_F(AtomicFileTest, WhatIsNoFileStays) {
  const std::string pipe = absl::StrCat(directory_, "/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, path_);
  for (const std::string& path : {pipe, path_}) {
    AtomicFile file(path);
    EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << file.status();
    EXPECT_FALSE(file.Append("x").ok());
    EXPECT_FALSE(file.Commit().ok());
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(FilesInDirectory(), 2U);
}

TEST_F(AtomicFileTest, LinksAreFollowed) {
  const std::string target = absl::StrCat(directory_, "/target");
  std::ofstream(target) << "old";
  std::filesystem::create_symlink(target, path_);
  AtomicFile file(path_);
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Contents(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
}

class SnapshotTransferTest : public ::testing::Test {
 protected:
  ~SnapshotTransferTest() override { unlink(path_.c_str()); }

  absl::StatusOr<uint64_t> Export(const std::string& table = "") {
    AtomicFile file(path_);
    return transfer_.Export(table, file);
  }
  absl::StatusOr<v1::ReplaceRoutesResponse> Import(
      const v1::ImportSnapshotRequest& first = {}) {
    std::ifstream file(path_, std::ios::binary);
    return transfer_.Import(first, file);
  }
  std::string Contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/snapshot");
  testing::FakeServer server_{{.routes = {{*Prefix::Parse("::/0"), 5},
                                          {*Prefix::Parse("10.0.0.0/8"), 6}}}};
  testing::FakeServer empty_;
  SnapshotTransfer transfer_{server_.Channel()};
};

TEST_F(SnapshotTransferTest, GoesRound) {
  const auto bytes = Export();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, Contents().size());
  std::ifstream file(path_, std::ios::binary);
  const auto response = SnapshotTransfer(empty_.Channel()).Import({}, file);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->added(), 2U);
  EXPECT_EQ(empty_.table().routes(), server_.table().routes());
}

TEST_F(SnapshotTransferTest, LargeFilesGoInChunks) {
  std::ofstream(path_) << std::string(200'000, 'x');
  EXPECT_EQ(ErrorReason(Import().status()), "SNAPSHOT_CORRUPT");
  EXPECT_EQ(server_.batches_read(), 4U);
}

TEST_F(SnapshotTransferTest, ABrokenExportLeavesTheOldFile) {
  std::ofstream(path_) << "old";
  server_.EndStreams(2, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"));
  EXPECT_TRUE(absl::IsUnavailable(Export().status()));
  EXPECT_EQ(Contents(), "old");
  EXPECT_EQ(ErrorReason(Export("none").status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(Contents(), "old");
}

TEST_F(SnapshotTransferTest, AFileThatCannotBeWrittenEndsAnExport) {
  AtomicFile file("/nonexistent/file");
  const auto bytes = transfer_.Export("", file);
  EXPECT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status(), file.status());
}

TEST_F(SnapshotTransferTest, WhatIsNoSnapshotChangesNothing) {
  ASSERT_TRUE(Export().ok());
  truncate(path_.c_str(), 10);
  EXPECT_TRUE(absl::IsDataLoss(Import().status()));
  std::ifstream directory("/");
  EXPECT_TRUE(absl::IsAborted(transfer_.Import({}, directory).status()));
  EXPECT_EQ(server_.table().generation(), 1U);
}

TEST_F(SnapshotTransferTest, TheFirstMessageCarriesTheConditions) {
  ASSERT_TRUE(Export().ok());
  v1::ImportSnapshotRequest first;
  first.set_expected_generation(9);
  EXPECT_EQ(ErrorReason(Import(first).status()), "GENERATION_MISMATCH");
}

}  // namespace

}  // namespace planb::client
