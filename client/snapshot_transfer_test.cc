// A table goes to a file and comes back; what breaks off leaves no trace.

#include "client/snapshot_transfer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

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
  const auto octets = Export();
  ASSERT_TRUE(octets.ok()) << octets.status();
  EXPECT_EQ(*octets, Contents().size());
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
  const auto octets = transfer_.Export("", file);
  EXPECT_FALSE(octets.ok());
  EXPECT_EQ(octets.status(), file.status());
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
