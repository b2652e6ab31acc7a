// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/decompress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Bzip2;
using ::planb::testing::Gzip;
using ::testing::HasSubstr;

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

// Text with some entropy: `size` bytes, always the same.
std::string SomeText(size_t size) {
  std::mt19937_64 random(size);
  std::string text;
  while (text.size() < size) absl::StrAppend(&text, random() % 100'000, "\n");
  text.resize(size);
  return text;
}

TEST(Decompress, HandsThroughWhatIsNotCompressed) {
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

// Fails after its bytes.
class FailingSource : public ByteSource {
 public:
  explicit FailingSource(std::string bytes)
      : bytes_(StringSource(std::move(bytes))) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    absl::StatusOr<size_t> count = bytes_->Read(out, size);
    if (count.ok() && *count == 0) return absl::UnavailableError("broken disk");
    return count;
  }

 private:
  std::unique_ptr<ByteSource> bytes_;
};

TEST(Decompress, PassesTheErrorOfItsSourceOn) {
  for (const std::string& bytes :
       {std::string(), std::string("BZ"), std::string("some plain text"),
        Gzip("text").substr(0, 8), Bzip2("text").substr(0, 8), Gzip("text"),
        Bzip2("text")}) {
    const Result result = ReadAll(std::make_unique<FailingSource>(bytes));
    EXPECT_TRUE(absl::IsUnavailable(result.status)) << result.status;
    EXPECT_EQ(result.status.message(), "broken disk");
  }
}

struct CodecParam {
  const char* name;
  std::string (*compress)(absl::string_view);
};

class Codec : public ::testing::TestWithParam<CodecParam> {
 protected:
  std::string Compress(absl::string_view plain) const {
    return GetParam().compress(plain);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Codec,
                         ::testing::Values(CodecParam{"gzip", Gzip},
                                           CodecParam{"bzip2", Bzip2}),
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

TEST_P(Codec, GivesAllBeforeACutAndSaysSo) {
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
  // Only its checksum is missing at the last cut of the first member.
  EXPECT_EQ(longest_of_first, plain.size());
}

TEST_P(Codec, GivesMostBeforeACutInTheMiddle) {
  const std::string plain = SomeText(1'000'000);
  const std::string compressed = Compress(plain);
  const Result result =
      ReadAll(StringSource(compressed.substr(0, compressed.size() / 2)));
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_TRUE(absl::StartsWith(plain, result.bytes));
  // bzip2 was told to make blocks of 100 kB, of which only the last is lost.
  EXPECT_GT(result.bytes.size(), plain.size() / 2 - 110'000);
}

TEST_P(Codec, NoticesEveryFlippedBitOfTheContents) {
  const std::string plain = SomeText(300);
  const std::string compressed = Compress(plain);
  // Past the headers, of whose fields gzip ignores some.
  for (size_t i = 10; i < compressed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = compressed;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const Result result = ReadAll(StringSource(flipped));
      // Some bits are padding: the contents are unharmed then.
      if (result.status.ok()) {
        EXPECT_EQ(result.bytes, plain) << i << "." << bit;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
      }
    }
  }
}

TEST_P(Codec, NoticesAWrongChecksum) {
  std::string compressed = Compress("some text");
  // gzip: the checksum is the first four of the last eight bytes; bzip2: the
  // last four bytes, and up to seven bits of padding.
  compressed[compressed.size() - 5] ^= 0x10;
  const Result result = ReadAll(StringSource(compressed));
  EXPECT_EQ(result.bytes, "some text");
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_THAT(result.status.message(), HasSubstr("corrupt"));
}

TEST_P(Codec, BreaksOffWhereSomethingElseFollows) {
  const Result result = ReadAll(StringSource(Compress("text") + "and more"));
  EXPECT_EQ(result.bytes, "text");
  EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
  EXPECT_THAT(result.status.message(), HasSubstr("something else follows"));
}

}  // namespace
}  // namespace planb
