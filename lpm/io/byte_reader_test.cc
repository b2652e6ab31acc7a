#include "lpm/io/byte_reader.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "absl/status/statusor.h"

namespace planb {
namespace {

std::string Counting(size_t size) {
  std::string octets(size, '\0');
  std::iota(octets.begin(), octets.end(), '\0');
  return octets;
}

// Gives zeros for ever, then an error.
class FailingSource : public ByteSource {
 public:
  FailingSource(size_t octets, absl::Status error)
      : left_(octets), error_(std::move(error)) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    if (left_ == 0) return error_;
    const size_t count = std::min(size, left_);
    std::fill(out, out + count, '\0');
    left_ -= count;
    return count;
  }

 private:
  size_t left_;
  absl::Status error_;
};

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

TEST(ByteReader, KeepsTheOctetsInOrderThroughEveryWindow) {
  const std::string octets = Counting(2'000'000);
  for (const size_t piece : {size_t{1000}, size_t{65'537}, SIZE_MAX}) {
    for (const size_t window : {size_t{1}, size_t{4097}, size_t{300'001}}) {
      ByteReader in(StringSource(octets, piece));
      std::string read;
      for (;;) {
        const absl::string_view ahead = in.Peek(window);
        if (ahead.size() < window) {
          read.append(ahead.data(), ahead.size());
          break;
        }
        // Consumes less than it saw, so that windows overlap.
        const size_t step = window / 2 + 1;
        read.append(ahead.data(), step);
        in.Consume(step);
        ASSERT_EQ(in.offset(), read.size());
      }
      EXPECT_EQ(read, octets) << piece << " " << window;
    }
  }
}

TEST(ByteReader, SkipsPastWhatIsBuffered) {
  ByteReader in(StringSource(Counting(1'000'000)));
  EXPECT_TRUE(in.Skip(0));
  EXPECT_EQ(in.Peek(1)[0], 0);
  EXPECT_TRUE(in.Skip(700'001));
  EXPECT_EQ(in.offset(), 700'001u);
  EXPECT_EQ(in.Peek(1)[0], static_cast<char>(700'001 % 256));
  EXPECT_FALSE(in.Skip(uint64_t{1} << 40));
  EXPECT_EQ(in.offset(), 1'000'000u);
}

TEST(ByteReader, GivesTheErrorAfterTheOctetsBeforeIt) {
  ByteReader in(
      std::make_unique<FailingSource>(300'000, absl::DataLossError("cut")));
  EXPECT_TRUE(in.Skip(200'000));
  EXPECT_EQ(in.Peek(100'001).size(), 100'000u);
  EXPECT_EQ(in.status(), absl::DataLossError("cut"));
}

TEST(ByteReader, AWildLengthInAShortFileCostsNothing) {
  ByteReader in(StringSource("abc"));
  EXPECT_EQ(in.Peek(size_t{1} << 60), "abc");
}

TEST(ByteReaderDeathTest, ConsumesNoMoreThanWasSeen) {
  ByteReader in(StringSource("abc"));
  in.Peek(3);
  EXPECT_DEATH(in.Consume(4), "consumed more");
}

}  // namespace
}  // namespace planb
