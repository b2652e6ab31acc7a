// SPDX-License-Identifier: Apache-2.0

// Against protobuf's own judge of strings, the one that the generated parser
// asks.

#include "proto/wire/utf8.h"

#include <google/protobuf/stubs/common.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "proto/wire/testing/made_up_messages.h"

namespace planb::wire {
namespace {

bool IsUtf8(absl::string_view text) {
  return IsUtf8(Bytes({&text, 1}, 0, text.size()));
}

bool Expected(absl::string_view text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(
      text.data(), static_cast<int>(text.size()));
}

// All strings of `length` bytes from `alphabet`; how many of them are text.
int CheckAll(const std::string& alphabet, size_t length) {
  int texts = 0;
  ForAllStrings(alphabet, length, [&](const std::string& text) {
    const bool expected = Expected(text);
    texts += expected;
    EXPECT_EQ(IsUtf8(text), expected) << absl::CHexEscape(text);
  });
  return texts;
}

// Either side of every bound that the definition of UTF-8 names.
const std::string kBounds =
    "\x01\x7f\x80\x81\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee"
    "\xef\xf0\xf1\xf3\xf4\xf5\xff";

TEST(Utf8, AllStringsOfUpToThreeBytes) {
  EXPECT_EQ(CheckAll(AllBytes(), 1), 128);
  EXPECT_GT(CheckAll(AllBytes(), 2), 128 * 128);
  EXPECT_GT(CheckAll(kBounds, 3), 0);
  EXPECT_TRUE(IsUtf8(""));
}

TEST(Utf8, AllStringsOfBounds) { EXPECT_GT(CheckAll(kBounds, 4), 0); }

TEST(Utf8, CharactersCutAnywhere) {
  for (const std::string text :
       {"a\xc3\xa4z", "\xe2\x82\xac", "\xf4\x8f\xbf\xbf", "\xed\xa0\x80",
        "\xf0\x9f\x92", "a\xc3\xa4\xf0\x9f\x92\xa1\xe2\x82\xac"}) {
    for (size_t first = 0; first <= text.size(); ++first) {
      for (size_t second = first; second <= text.size(); ++second) {
        const CutMessage cut(text, {first, second});
        EXPECT_EQ(IsUtf8(Bytes(cut.pieces(), 0, text.size())), Expected(text));
      }
    }
  }
}

}  // namespace
}  // namespace planb::wire
