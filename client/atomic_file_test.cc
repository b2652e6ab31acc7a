// The name leads to the whole new file, or to the old one.

#include "client/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace planb::client {
namespace {

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

}  // namespace
}  // namespace planb::client
