// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace planb {
namespace {

class RegularFile : public testing::Test {
 protected:
  ~RegularFile() override { unlink(path_.c_str()); }

  void Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
  }

  static std::string Why(const std::string& path) {
    const absl::Status status = ReadRegularFile(path, 100).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  const std::string path_ = testing::TempDir() + "/regular_file";
};

TEST_F(RegularFile, IsReadWhole) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
    std::string text(size, '\xff');
    if (size > 1) text[size / 2] = '\0';
    Write(text);
    for (const size_t more : {0, 1, 1'000'000}) {
      const auto read = ReadRegularFile(path_, size + more);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, text);
    }
  }
}

TEST_F(RegularFile, IsBounded) {
  Write(std::string(100, 'x'));
  EXPECT_TRUE(ReadRegularFile(path_, 100).ok());
  Write(std::string(101, 'x'));
  EXPECT_EQ(Why(path_), "is larger than 100 bytes");
}

TEST_F(RegularFile, MustExistAndBeRegular) {
  EXPECT_EQ(Why(path_), "No such file or directory");
  EXPECT_EQ(Why(testing::TempDir()), "is no regular file");
  EXPECT_EQ(Why("/dev/zero"), "is no regular file");
}

TEST_F(RegularFile, DoesNotBlockOnAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Why(path_), "is no regular file");
}

TEST_F(RegularFile, MayBeALink) {
  Write("text");
  const std::string link = path_ + ".link";
  unlink(link.c_str());
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(*ReadRegularFile(link, 100), "text");
  unlink(link.c_str());
}

}  // namespace
}  // namespace planb
