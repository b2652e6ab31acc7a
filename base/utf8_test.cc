// SPDX-License-Identifier: Apache-2.0

// The reference is protobuf's own check, which parsers of messages apply.

#include "base/utf8.h"

#include <google/protobuf/stubs/common.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace planb {
namespace {

bool Expected(absl::string_view text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(
      text.data(), static_cast<int>(text.size()));
}

// The size of the shortest valid text that `text` starts with: one character.
size_t ExpectedLength(absl::string_view text) {
  for (size_t size = 1; size <= text.size(); ++size) {
    if (Expected(text.substr(0, size))) return size;
  }
  return 0;
}

// Checks all strings of `length` bytes from `alphabet`; returns how many of
// them are valid.
int CheckAll(const std::string& alphabet, size_t length,
             const std::string& start = "") {
  if (length > 0) {
    int valid = 0;
    for (const char c : alphabet) {
      valid += CheckAll(alphabet, length - 1, start + c);
    }
    return valid;
  }
  const bool expected = Expected(start);
  EXPECT_EQ(IsUtf8(start), expected) << absl::CHexEscape(start);
  if (!start.empty()) {
    EXPECT_EQ(Utf8Length(start), ExpectedLength(start))
        << absl::CHexEscape(start);
  }
  return expected ? 1 : 0;
}

std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// Both sides of every bound that the definition of UTF-8 names.
const std::string kBounds =
    "\x01\x7f\x80\x81\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee"
    "\xef\xf0\xf1\xf3\xf4\xf5\xff";

TEST(Utf8, AllStringsOfUpToThreeBytes) {
  EXPECT_EQ(CheckAll(AllBytes(), 0), 1);
  EXPECT_EQ(CheckAll(AllBytes(), 1), 128);
  EXPECT_GT(CheckAll(AllBytes(), 2), 128 * 128);
  EXPECT_GT(CheckAll(kBounds, 3), 0);
}

TEST(Utf8, AllStringsOfBounds) { EXPECT_GT(CheckAll(kBounds, 4), 0); }

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(Printable("eth0 \\ \"\xc3\xa4\" \xe2\x82\xac \xf0\x9f\x98\x80"),
            "eth0 \\ \"\xc3\xa4\" \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(Printable("a\nb\r\t\x1b[2J\x7f"), "a\\nb\\r\\t\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J\xc2\xa0"),
            "\\xc2\\x9b"
            "2J\xc2\xa0");
  EXPECT_EQ(Printable("\xff\xc3(\xe2\x82"), "\\xff\\xc3(\\xe2\\x82");
  EXPECT_EQ(Printable("\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6"),
            "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
}

TEST(Printable, TheFirstByteThatIsNot) {
  for (const absl::string_view text : {"", "eth0", "\xe2\x82\xac\xc3\xa4"}) {
    EXPECT_EQ(FirstUnprintable(text), absl::string_view::npos) << text;
  }
  EXPECT_EQ(FirstUnprintable("\x1b"), 0U);
  EXPECT_EQ(FirstUnprintable("a\xe2\x82\xac\n\n"), 4U);
  EXPECT_EQ(FirstUnprintable("\xe2\x82\xac\xe2\x80\xa8"), 3U);
  EXPECT_EQ(FirstUnprintable("a\xc3"), 1U);
}

}  // namespace
}  // namespace planb
