// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/byte_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;

// All bytes of `source`, and the sizes of its pieces.
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
  // Every further read returns the end too.
  char byte;
  EXPECT_EQ(*(*source)->Read(&byte, 1), 0u);
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

TEST(OpenStandardInput, ReadsWhatIsLeftOfAFileOrASocket) {
  const int file = open(WriteFile("left", "read\nleft").c_str(), O_RDONLY);
  ASSERT_EQ(lseek(file, 5, SEEK_SET), 5);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(write(ends[1], "left", 4), 4);
  close(ends[1]);
  for (const int input : {file, ends[0]}) {
    ASSERT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenStandardInput();
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(ReadAll(**source), "left");
    source->reset();
    EXPECT_GE(fcntl(STDIN_FILENO, F_GETFD), 0);  // still open
  }
  close(STDIN_FILENO);
  EXPECT_EQ(OpenStandardInput().status(),
            absl::UnavailableError("the standard input: Bad file descriptor"));
  EXPECT_EQ(open("/dev/null", O_RDONLY), STDIN_FILENO);
}

TEST(OpenFile, NamesAMissingFile) {
  for (const char* path : {"/nonexistent/file", "/etc/passwd/file"}) {
    const absl::Status status = OpenFile(path).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST(OpenFile, NamesAForbiddenFile) {
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
  char byte;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = (*source)->Read(&byte, 1).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("directory"));
  }
}

std::string Counting(size_t size) {
  std::string bytes(size, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

TEST(ByteReader, PeekDoesNotConsume) {
  ByteReader in(StringSource("abcdef", 1));
  EXPECT_EQ(in.Peek(3), "abc");
  EXPECT_EQ(in.Peek(2), "abc");  // may be longer
  EXPECT_EQ(in.offset(), 0u);
  in.Consume(2);
  EXPECT_EQ(in.offset(), 2u);
  EXPECT_EQ(in.Peek(1), "c");
  EXPECT_EQ(in.Peek(4), "cdef");
}

TEST(ByteReader, PeekIsShortAtTheEnd) {
  ByteReader in(StringSource("abc", 2));
  EXPECT_EQ(in.Peek(100), "abc");
  EXPECT_TRUE(in.status().ok());
  in.Consume(3);
  EXPECT_EQ(in.Peek(1), "");
  EXPECT_EQ(in.Peek(1), "");
  EXPECT_EQ(in.offset(), 3u);
}

TEST(ByteReader, KeepsTheOrderOfBytesForEveryWindow) {
  const std::string bytes = Counting(2'000'000);
  for (const size_t piece : {size_t{1000}, size_t{65'537}, SIZE_MAX}) {
    for (const size_t window : {size_t{1}, size_t{4097}, size_t{300'001}}) {
      ByteReader in(StringSource(bytes, piece));
      std::string read;
      for (;;) {
        const absl::string_view ahead = in.Peek(window);
        if (ahead.size() < window) {
          read.append(ahead.data(), ahead.size());
          break;
        }
        // Consumes less than it peeked at, so that windows overlap.
        const size_t step = window / 2 + 1;
        read.append(ahead.data(), step);
        in.Consume(step);
        ASSERT_EQ(in.offset(), read.size());
      }
      EXPECT_EQ(read, bytes) << piece << " " << window;
    }
  }
}

TEST(ByteReader, SkipsBeyondTheBuffer) {
  ByteReader in(StringSource(Counting(1'000'000)));
  EXPECT_TRUE(in.Skip(0));
  EXPECT_EQ(in.Peek(1)[0], 0);
  EXPECT_TRUE(in.Skip(700'001));
  EXPECT_EQ(in.offset(), 700'001u);
  EXPECT_EQ(in.Peek(1)[0], static_cast<char>(700'001 % 256));
  EXPECT_FALSE(in.Skip(uint64_t{1} << 40));
  EXPECT_EQ(in.offset(), 1'000'000u);
}

TEST(ByteReader, ReportsAnErrorAfterTheBytesBeforeIt) {
  ByteReader in(std::make_unique<FailingSource>(std::string(300'000, '\0'),
                                                absl::DataLossError("cut")));
  EXPECT_TRUE(in.Skip(200'000));
  EXPECT_EQ(in.Peek(100'001).size(), 100'000u);
  EXPECT_EQ(in.status(), absl::DataLossError("cut"));
}

TEST(ByteReader, AHugeLengthInAShortFileCostsNothing) {
  ByteReader in(StringSource("abc"));
  EXPECT_EQ(in.Peek(size_t{1} << 60), "abc");
}

TEST(ByteReaderDeathTest, RefusesToConsumeMoreThanPeeked) {
  ByteReader in(StringSource("abc"));
  in.Peek(3);
  EXPECT_DEATH(in.Consume(4), "consumed more");
}

TEST(ByteCursor, ReadsNumbersInEitherOrder) {
  const std::string bytes(
      "\x80\x01\x02\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7"
      "\xf6\xf5\xf4rest");
  for (const bool little : {false, true}) {
    ByteCursor cursor(bytes);
    const auto read = [&](auto* value) {
      return little ? cursor.ReadLittle(value) : cursor.Read(value);
    };
    uint8_t u8 = 0;
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    EXPECT_TRUE(read(&u8) && read(&u16) && read(&u32) && read(&u64));
    EXPECT_EQ(u8, 0x80);
    EXPECT_EQ(u16, little ? 0x0201 : 0x0102);
    EXPECT_EQ(u32, little ? 0xfcfdfeffu : 0xfffefdfcu);
    EXPECT_EQ(u64, little ? 0xf4f5f6f7f8f9fafbu : 0xfbfaf9f8f7f6f5f4u);
    EXPECT_FALSE(read(&u64));
    EXPECT_EQ(cursor.left(), "rest");
  }
}

TEST(ByteCursor, ReadsBytes) {
  ByteCursor cursor("rest");
  absl::string_view bytes;
  EXPECT_TRUE(cursor.Read(size_t{3}, &bytes));
  EXPECT_EQ(bytes, "res");
  EXPECT_FALSE(cursor.empty());
  EXPECT_TRUE(cursor.Read(size_t{0}, &bytes));
  EXPECT_EQ(bytes, "");
}

TEST(ByteCursor, AFailedReadTakesNothing) {
  ByteCursor cursor("abc");
  uint32_t u32 = 7;
  absl::string_view bytes = "old";
  EXPECT_FALSE(cursor.Read(&u32));
  EXPECT_EQ(u32, 7u);
  EXPECT_FALSE(cursor.Read(size_t{4}, &bytes));
  EXPECT_FALSE(cursor.Read(SIZE_MAX, &bytes));
  EXPECT_EQ(bytes, "old");
  EXPECT_EQ(cursor.left(), "abc");
  EXPECT_TRUE(cursor.Read(size_t{3}, &bytes));
  EXPECT_TRUE(cursor.empty());
}

struct Result {
  std::string bytes;
  absl::Status status;
};

Result ReadAll(std::unique_ptr<ByteSource> compressed, size_t size = 1000) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source =
      Decompress(std::move(compressed));
  if (!source.ok()) return {"", source.status()};
  Result result;
  std::string buffer(size, '\0');
  for (;;) {
    absl::StatusOr<size_t> count = (*source)->Read(buffer.data(), size);
    if (!count.ok() || *count == 0) {
      // Every further call returns the same end.
      EXPECT_EQ((*source)->Read(buffer.data(), size).status(), count.status());
      result.status = count.status();
      return result;
    }
    result.bytes.append(buffer, 0, *count);
  }
}

// `size` bytes of text with some entropy, the same in every run.
std::string SomeText(size_t size) {
  std::mt19937_64 random(size);
  std::string text;
  while (text.size() < size) absl::StrAppend(&text, random() % 100'000, "\n");
  text.resize(size);
  return text;
}

TEST(Decompress, PassesPlainBytesThrough) {
  for (const std::string& plain :
       {std::string(), std::string("B"), std::string("BZ"), std::string("BZh"),
        std::string("BZh0 text"), std::string("BZhx"), std::string("\x1f"),
        std::string("\x1f\x8a\x08\x00", 4), std::string("plain text"),
        SomeText(300'000)}) {
    const Result result = ReadAll(StringSource(plain));
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.bytes, plain);
  }
}

TEST(Decompress, ReturnsTheErrorOfItsSource) {
  for (const std::string& bytes :
       {std::string(), std::string("BZ"), std::string("some plain text"),
        Gzip("text").substr(0, 8), Bzip2("text").substr(0, 8), Gzip("text"),
        Bzip2("text"), Xz("text"), Zstd("text")}) {
    const Result result = ReadAll(std::make_unique<FailingSource>(
        bytes, absl::UnavailableError("broken disk")));
    EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
    EXPECT_EQ(result.status.message(), "broken disk");
  }
}

struct CodecParam {
  const char* name;
  std::string (*compress)(absl::string_view);
  // A byte of the checksum, counted from the end.
  size_t checksum = 5;
};

class Codec : public ::testing::TestWithParam<CodecParam> {
 protected:
  std::string Compress(absl::string_view plain) const {
    return GetParam().compress(plain);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Codec,
                         ::testing::Values(CodecParam{"gzip", Gzip},
                                           CodecParam{"bzip2", Bzip2},
                                           CodecParam{"xz", Xz},
                                           CodecParam{"zstd", Zstd, 1}),
                         [](const auto& codec) { return codec.param.name; });

TEST_P(Codec, RestoresAnySizeInAnyPieces) {
  for (const size_t size : {0, 1, 1000, 70'000, 1'500'000}) {
    const std::string plain = SomeText(size);
    const std::string compressed = Compress(plain);
    for (const size_t piece : {size_t{1}, size_t{7}, SIZE_MAX}) {
      if (piece < 7 && size > 100'000) continue;  // slow, and says no more
      const Result result =
          ReadAll(StringSource(compressed, piece), piece == 7 ? 1 : 100'000);
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.bytes, plain);
    }
  }
}

TEST_P(Codec, ReadsMembersAsOneStream) {
  const std::string members =
      Compress("one ") + Compress("") + Compress("two ") + Compress("three");
  for (const size_t piece : {size_t{1}, SIZE_MAX}) {
    const Result result = ReadAll(StringSource(members, piece));
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.bytes, "one two three");
  }
}

TEST_P(Codec, ReturnsAllBeforeACutThenDataLoss) {
  const std::string plain = SomeText(2'000);
  const std::string first = Compress(plain);
  const std::string both = first + Compress("second");
  size_t longest_of_first = 0;
  for (size_t cut = 4; cut < both.size(); ++cut) {
    const Result result = ReadAll(StringSource(both.substr(0, cut)));
    EXPECT_TRUE(absl::StartsWith(plain + "second", result.bytes)) << cut;
    if (cut == first.size()) {
      EXPECT_TRUE(result.status.ok()) << result.status;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(result.status)) << cut << result.status;
      EXPECT_THAT(result.status.message(), HasSubstr(GetParam().name));
    }
    if (cut < first.size()) {
      longest_of_first = std::max(longest_of_first, result.bytes.size());
    } else {
      EXPECT_GE(result.bytes.size(), plain.size()) << cut;
    }
  }
  // The last cuts of the first member only affect its checksum.
  EXPECT_EQ(longest_of_first, plain.size());
}

TEST_P(Codec, ReturnsMostBeforeACutInTheMiddle) {
  const std::string plain = SomeText(1'000'000);
  const std::string compressed = Compress(plain);
  const Result result =
      ReadAll(StringSource(compressed.substr(0, compressed.size() / 2)));
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_TRUE(absl::StartsWith(plain, result.bytes));
  // bzip2's blocks are 100 kB here, zstd's 128, and only the last one is lost.
  EXPECT_GT(result.bytes.size(), plain.size() / 2 - 140'000);
}

TEST_P(Codec, DetectsEveryFlippedBit) {
  const std::string plain = SomeText(300);
  const std::string compressed = Compress(plain);
  // After the headers: gzip ignores some of their fields.
  for (size_t i = 10; i < compressed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = compressed;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const Result result = ReadAll(StringSource(flipped));
      // Some bits are padding, which changes nothing.
      if (result.status.ok()) {
        EXPECT_EQ(result.bytes, plain) << i << "." << bit;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
      }
    }
  }
}

TEST_P(Codec, ACorruptPlaceIsTheSameInAnyPieces) {
  const std::string compressed = Compress(SomeText(400'000));  // blocks
  for (size_t i = 1; i < 8; ++i) {
    std::string flipped = compressed;
    char& byte = flipped[i * compressed.size() / 8];
    byte = static_cast<char>(byte ^ 0x10);
    const Result whole = ReadAll(StringSource(flipped));
    EXPECT_TRUE(absl::IsDataLoss(whole.status)) << whole.status;
    for (const size_t piece : {1, 1000}) {
      const Result pieces = ReadAll(StringSource(flipped, piece), 4096);
      EXPECT_EQ(pieces.status, whole.status);
      EXPECT_TRUE(pieces.bytes == whole.bytes)
          << i << ": " << pieces.bytes.size() << " " << whole.bytes.size();
    }
  }
}

TEST(Decompress, ZstdGivesWhatIsBeforeAnyCorruptByte) {
  const std::string compressed = ZstdBlocks(SomeText(1200), 100);
  for (size_t i = 6; i < compressed.size(); ++i) {
    std::string flipped = compressed;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x06);  // of a header: the type
    const Result whole = ReadAll(StringSource(flipped));
    const Result pieces = ReadAll(StringSource(flipped, 1));
    EXPECT_EQ(pieces.status, whole.status) << i;
    EXPECT_EQ(pieces.bytes, whole.bytes) << i;
  }
}

TEST_P(Codec, DetectsAWrongChecksum) {
  std::string compressed = Compress("some text");
  // gzip: the checksum is the first four of the last eight bytes; bzip2: the
  // last four bytes, and up to seven bits of padding; zstd: the last four. xz
  // has several; that of the size of the index is one.
  compressed[compressed.size() - GetParam().checksum] ^= 0x10;
  const Result result = ReadAll(StringSource(compressed));
  EXPECT_EQ(result.bytes, "some text");
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_THAT(result.status.message(), HasSubstr("corrupt"));
}

// As pzstd writes it.
TEST(Decompress, SkipsFramesOfZstdThatHaveNoData) {
  const std::string skipped("\x50\x2a\x4d\x18\4\0\0\0abcd", 12);
  const Result result = ReadAll(StringSource(skipped + Zstd("text")));
  EXPECT_EQ(result.bytes, "text");
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// A header of a zstd frame with a window of 256 MiB.
TEST(Decompress, RefusesDataThatTakeTooMuchMemory) {
  const std::string frame("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", 9);
  const absl::Status status = ReadAll(StringSource(frame)).status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("more than 128 MiB"));
}

TEST(Decompress, BoundsWhatASmallFileBecomes) {
  const size_t always = size_t{64} << 20;
  const auto read = [](const std::string& file) {
    return ReadAll(StringSource(file), 1 << 20);
  };
  const std::string fits = Zstd(std::string(always, '\n'));
  ASSERT_LT(1000 * fits.size(), always);
  EXPECT_EQ(read(fits).bytes.size(), always);
  const std::string bomb = Zstd(std::string(2 * always, '\n'));
  for (const std::string& file : {bomb, Gzip(bomb)}) {
    const Result result = read(file);
    EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
    EXPECT_THAT(result.status.message(), HasSubstr("more than 1000 times"));
    EXPECT_LE(result.bytes.size(), always + 1000 * file.size() + (1 << 20));
  }
}

TEST_P(Codec, ZerosAfterAMemberArePadding) {
  const std::string padded = Compress("text") + std::string(70'000, '\0');
  for (const size_t piece : {size_t{1}, SIZE_MAX}) {
    const Result result = ReadAll(StringSource(padded, piece));
    EXPECT_EQ(result.bytes, "text");
    EXPECT_TRUE(result.status.ok()) << result.status;
    // As on a tape.
    EXPECT_EQ(ReadAll(StringSource(padded + padded, piece)).bytes, "texttext");
  }
  const Result other = ReadAll(StringSource(padded + "x"));
  EXPECT_EQ(other.bytes, "text");
  EXPECT_TRUE(absl::IsDataLoss(other.status)) << other.status;
  // There is no member before.
  EXPECT_EQ(ReadAll(StringSource(std::string(9, '\0'))).bytes.size(), 9u);
}

TEST_P(Codec, ReadsWhatWasCompressedTwice) {
  for (const auto inner : {Gzip, Bzip2, Xz, Zstd}) {
    const std::string twice = Compress(inner("text") + inner(" and more"));
    const Result result = ReadAll(StringSource(twice, 1));
    EXPECT_EQ(result.bytes, "text and more");
    EXPECT_TRUE(result.status.ok()) << result.status;
    // Three times is not read, and what is left says what it is.
    EXPECT_EQ(ReadAll(StringSource(inner(twice))).bytes,
              inner("text") + inner(" and more"));
    for (size_t cut = 10; cut < twice.size(); ++cut) {
      const absl::Status status =
          ReadAll(StringSource(twice.substr(0, cut))).status;
      EXPECT_TRUE(absl::IsDataLoss(status)) << cut << status;
    }
  }
}

TEST_P(Codec, EndsWithDataLossAtTrailingBytes) {
  const Result result = ReadAll(StringSource(Compress("text") + "and more"));
  EXPECT_EQ(result.bytes, "text");
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_THAT(result.status.message(), HasSubstr("something else follows"));
}

}  // namespace
}  // namespace planb
