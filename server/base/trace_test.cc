// SPDX-License-Identifier: Apache-2.0

#include "server/base/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kSpanId[] = "b7ad6b7169203331";

std::string Header(absl::string_view version, absl::string_view flags) {
  return absl::StrCat(version, "-", kTraceId, "-", kSpanId, "-", flags);
}

TEST(Tracer, SpansBelongToTheTraceOfTheCaller) {
  for (const std::string& header :
       {Header("00", "01"), Header("00", "03"), Header("01", "01"),
        Header("cc", "01") + "-more"}) {
    const auto span = Tracer::Begin("name", header);
    ASSERT_TRUE(span.has_value()) << header;
    EXPECT_EQ(span->TraceIdText(), kTraceId) << header;
    EXPECT_EQ(absl::BytesToHexString(span->parent_id), kSpanId) << header;
    EXPECT_NE(span->SpanIdText(), kSpanId) << header;
  }
}

TEST(Tracer, CallersThatDoNotSampleAreNotTraced) {
  EXPECT_FALSE(Tracer::Begin("name", Header("00", "00")).has_value());
  EXPECT_FALSE(Tracer::Begin("name", Header("00", "02")).has_value());
}

// W3C Trace Context: then the header is ignored.
TEST(Tracer, MalformedHeadersBeginATrace) {
  const std::string good = Header("00", "01");
  std::set<std::string> bad = {
      "",
      "x",
      good + "-more",
      good + "0",
      Header("ff", "01"),
      Header("0x", "01"),
      Header("00", "0g"),
      absl::StrCat("00-", std::string(32, '0'), "-", kSpanId, "-01"),
      absl::StrCat("00-", kTraceId, "-", std::string(16, '0'), "-01"),
      absl::StrCat("00-", absl::AsciiStrToUpper(kTraceId), "-", kSpanId, "-01"),
  };
  for (size_t i = 0; i < good.size(); ++i) {
    bad.insert(good.substr(0, i));
    std::string other = good;
    other[i] = ' ';
    bad.insert(other);
  }
  for (const std::string& header : bad) {
    const auto span = Tracer::Begin("name", header);
    ASSERT_TRUE(span.has_value()) << header;
    EXPECT_EQ(span->parent_id, "") << header;
    EXPECT_NE(span->TraceIdText(), kTraceId) << header;
    EXPECT_EQ(span->trace_id.size(), 16U);
    EXPECT_EQ(span->span_id.size(), 8U);
  }
}

TEST(Tracer, DropsSpansBeyondItsCapacity) {
  Tracer tracer(0);
  for (size_t i = 0; i < Tracer::kCapacity + 3; ++i) {
    tracer.Add(*Tracer::Begin(absl::StrCat(i), ""));
  }
  EXPECT_EQ(tracer.dropped(), 3U);
  const auto first = tracer.Take(10);
  ASSERT_EQ(first.size(), 10U);
  EXPECT_EQ(first[9].name, "9");
  EXPECT_EQ(tracer.Take(Tracer::kCapacity).size(), Tracer::kCapacity - 10);
  EXPECT_TRUE(tracer.Take(1).empty());
}

}  // namespace
}  // namespace planb::server
