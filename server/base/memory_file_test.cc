// SPDX-License-Identifier: Apache-2.0

// Content changes atomically, also for concurrent readers.

#include "server/base/memory_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace planb::server {
namespace {

std::string Rest(std::ifstream& in) {
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Read(const MemoryFile& file) {
  std::ifstream in(file.path());
  return Rest(in);
}

std::unique_ptr<MemoryFile> Make(absl::string_view text) {
  auto made = MemoryFile::Create("planb test", text);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

void Set(MemoryFile& file, absl::string_view text) {
  const auto replace = file.Prepare(text);
  ASSERT_TRUE(replace.ok()) << replace.status();
  (*replace)();
}

TEST(MemoryFile, HasContentOfLastReplacement) {
  const auto file = Make("first");
  EXPECT_EQ(Read(*file), "first");
  const std::string path = file->path();
  Set(*file, "the second");
  EXPECT_EQ(Read(*file), "the second");
  Set(*file, "");
  EXPECT_EQ(Read(*file), "");
  EXPECT_EQ(file->path(), path);
}

TEST(MemoryFile, HasTheOldContentUntilThePreparedOneReplacesIt) {
  const auto file = Make("old");
  const auto dropped = file->Prepare("dropped");
  const auto replace = file->Prepare("new");
  ASSERT_TRUE(dropped.ok() && replace.ok());
  EXPECT_EQ(Read(*file), "old");
  (*replace)();
  EXPECT_EQ(Read(*file), "new");
}

TEST(MemoryFile, OpenReaderReadsOneContentToItsEnd) {
  const auto file = Make("old content");
  std::ifstream in(file->path());
  char head[4] = {};
  in.rdbuf()->pubsetbuf(nullptr, 0);
  in.read(head, 3);
  Set(*file, "new");
  EXPECT_EQ(std::string(head) + Rest(in), "old content");
  EXPECT_EQ(Read(*file), "new");
}

TEST(MemoryFile, ContentsDifferInModificationTime) {
  const auto file = Make("a");
  std::set<time_t> times;
  for (int i = 0; i < 5; ++i) {
    Set(*file, "a");
    struct stat status;
    ASSERT_EQ(stat(file->path().c_str(), &status), 0);
    times.insert(status.st_mtime);
  }
  EXPECT_EQ(times.size(), 5u);
}

TEST(MemoryFile, ReadersNeverSeeMixture) {
  const std::string one(100'000, '1');
  const std::string two(50'000, '2');
  const auto file = Make(one);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const std::string got = Read(*file);
      ASSERT_TRUE(got == one || got == two) << got.size();
    }
  });
  for (int i = 0; i < 500; ++i) {
    Set(*file, i % 2 == 0 ? two : one);
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace planb::server
