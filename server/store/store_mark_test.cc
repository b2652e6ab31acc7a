// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_mark.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/base/error.h"

namespace planb::server {
namespace {

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove(path);
  return path;
}

TEST(StoreMark, KeepsOneRecord) {
  const std::string path = NewPath("mark");
  const StoreMarkRecord first = {
      .store_id = 1ULL << 63 | 7, .sequence = 8, .boot_id = CurrentBootId()};
  StoreMarkRecord second = first;
  second.sequence = ~0ULL;
  second.synced = false;
  {
    StoreMark mark = StoreMark::Open(path).value();
    EXPECT_EQ(mark.Read().value(), std::nullopt);
    ASSERT_TRUE(mark.Write(first).ok());
    EXPECT_EQ(mark.Read().value(), first);
    ASSERT_TRUE(mark.Write(second).ok());
  }
  EXPECT_EQ(StoreMark::Open(path).value().Read().value(), second);
  EXPECT_EQ(std::filesystem::file_size(path), 64U);
}

TEST(StoreMark, IsHeldByOne) {
  const std::string path = NewPath("held");
  auto mark = std::make_unique<StoreMark>(StoreMark::Open(path).value());
  const auto other = StoreMark::Open(path);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(other.status()), "STORE_IN_USE");
  EXPECT_NE(other.status().message().find(path), absl::string_view::npos);
  mark.reset();
  EXPECT_TRUE(StoreMark::Open(path).ok());
}

TEST(StoreMark, NeedsItsDirectory) {
  const auto mark = StoreMark::Open(NewPath("absent") + "/mark");
  EXPECT_EQ(mark.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(mark.status()), "STORE_UNWRITABLE");
}

TEST(StoreMark, NoticesEveryFlipAndEveryLength) {
  const std::string path = NewPath("damaged");
  ASSERT_TRUE(StoreMark::Open(path).value().Write({.sequence = 5}).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const auto read = [&path](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return StoreMark::Open(path).value().Read();
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
  // As after a power loss: there, and never written.
  EXPECT_EQ(read("").value(), std::nullopt);
  EXPECT_EQ(read(std::string(64, '\0')).value(), std::nullopt);
}

TEST(StoreMark, BootIdIsTheSameUntilTheNextBoot) {
  EXPECT_EQ(CurrentBootId().size(), 16U);
  EXPECT_EQ(CurrentBootId(), CurrentBootId());
}

}  // namespace
}  // namespace planb::server
