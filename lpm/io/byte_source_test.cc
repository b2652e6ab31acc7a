#include "lpm/io/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace planb {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;

// Everything `source` gives, and the sizes of its pieces.
std::string ReadAll(ByteSource& source, size_t size = 4096) {
  std::string all;
  std::string buffer(size, '\0');
  for (;;) {
    absl::StatusOr<size_t> count = source.Read(buffer.data(), size);
    EXPECT_TRUE(count.ok()) << count.status();
    if (!count.ok() || *count == 0) return all;
    EXPECT_LE(*count, size);
    all.append(buffer, 0, *count);
  }
}

std::string WriteFile(const std::string& name, const std::string& contents) {
  const std::string path = TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

TEST(OpenFile, ReadsAll) {
  const std::string contents(300'000, 'x');
  absl::StatusOr<std::unique_ptr<ByteSource>> source =
      OpenFile(WriteFile("all", contents));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadAll(**source), contents);
  // The end stays the end.
  char octet;
  EXPECT_EQ(*(*source)->Read(&octet, 1), 0u);
}

TEST(OpenFile, ReadsAPipe) {
  const std::string path = TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "through a pipe"; });
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(ReadAll(**source, 3), "through a pipe");
  writer.join();
  unlink(path.c_str());
}

TEST(OpenFile, SaysWhichFileIsMissing) {
  for (const char* path : {"/nonexistent/file", "/etc/passwd/file"}) {
    const absl::Status status = OpenFile(path).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST(OpenFile, SaysWhichFileIsForbidden) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = WriteFile("forbidden", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const absl::Status status = OpenFile(path).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(path));
}

TEST(OpenFile, ADirectoryCannotBeRead) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(TempDir());
  ASSERT_TRUE(source.ok()) << source.status();
  char octet;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = (*source)->Read(&octet, 1).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("directory"));
  }
}

TEST(StringSource, GivesPieces) {
  std::unique_ptr<ByteSource> source = StringSource("abcde", 2);
  char out[4];
  EXPECT_EQ(*source->Read(out, 4), 2u);
  EXPECT_EQ(*source->Read(out, 1), 1u);
  EXPECT_EQ(*source->Read(out, 4), 2u);
  EXPECT_EQ(*source->Read(out, 4), 0u);
  EXPECT_EQ(*source->Read(out, 4), 0u);
}

TEST(ConcatenatedSource, GivesHeadThenTail) {
  for (const std::string head : {"", "a", "abc"}) {
    for (const std::string tail : {"", "x", "xyz"}) {
      std::unique_ptr<ByteSource> source =
          ConcatenatedSource(head, StringSource(tail));
      EXPECT_EQ(ReadAll(*source, 2), head + tail);
    }
  }
}

}  // namespace
}  // namespace planb
