#include "server/http2_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

using http2::Frame;

// What `octets` come to, which may be taken whole or one by one.
struct Taken {
  bool fine = true;
  Http2Use use;
};

Taken Take(const std::string& octets, size_t at_once,
           const Http2Limits& limits = {}) {
  Taken taken;
  Http2Meter meter;
  OpenCalls calls;
  for (size_t at = 0; at < octets.size() && taken.fine; at += at_once) {
    const std::string part = octets.substr(at, at_once);
    taken.fine = meter.Take(part, limits, calls, taken.use);
  }
  return taken;
}

// The same however it is cut.
Taken TakeAnyway(const std::string& octets, const Http2Limits& limits = {}) {
  const Taken whole = Take(octets, octets.size(), limits);
  for (const size_t at_once : {1u, 2u, 8u, 9u, 10u, 100u}) {
    const Taken part = Take(octets, at_once, limits);
    EXPECT_EQ(part.fine, whole.fine) << at_once;
    if (!whole.fine) continue;
    EXPECT_EQ(part.use.cost, whole.use.cost) << at_once;
    EXPECT_EQ(part.use.calls, whole.use.calls) << at_once;
  }
  return whole;
}

std::string Begin() { return http2::Preface() + http2::SettingsAck(); }
constexpr uint64_t kBegin = 1;  // its cost

TEST(Http2Meter, AnHonestCallCostsNothing) {
  std::string octets = Begin();
  for (uint32_t stream = 1; stream < 1000; stream += 2) {
    octets += http2::OpenCall(stream, "/planb.v1.RouteLookup/Lookup") +
              Frame(http2::kData, http2::kEndStream, stream,
                    http2::Message(std::string(300, '\4')));
  }
  const Taken taken = TakeAnyway(octets);
  EXPECT_TRUE(taken.fine);
  EXPECT_EQ(taken.use.cost, kBegin);
  EXPECT_EQ(taken.use.calls, 500);
}

TEST(Http2Meter, PayloadsAreNotTakenForFrames) {
  const std::string frames = http2::RstStream(1) + http2::RstStream(3);
  const Taken taken =
      TakeAnyway(Begin() + Frame(http2::kData, 0, 1, frames + frames));
  EXPECT_EQ(taken.use.cost, kBegin);
}

TEST(Http2Meter, WhatOnlyMakesWorkCosts) {
  std::string octets = Begin();
  octets += http2::RstStream(1) + Frame(http2::kPing, 0, 0, "12345678") +
            Frame(http2::kSettings, 0, 0, "") +
            Frame(http2::kGoAway, 0, 0, std::string(8, '\0')) +
            Frame(http2::kPriority, 0, 1, "12345") +
            Frame(http2::kData, 0, 1, "") + Frame(0xfa, 0, 0, "unknown");
  for (int i = 0; i < 127; ++i) {  // and one acknowledgement
    octets += Frame(http2::kWindowUpdate, 0, 0, http2::BigEndian(1, 4));
  }
  const Taken taken = TakeAnyway(octets);
  EXPECT_TRUE(taken.fine);
  EXPECT_EQ(taken.use.cost, kBegin + Http2Meter::kResetCost + 6 + 2);
  EXPECT_EQ(taken.use.calls, 0);
}

// Else a client could hold as many calls as it likes: to reset one that is
// none, or is no longer, would make room for the next.
TEST(Http2Meter, OnlyOpenCallsEnd) {
  const std::string open = http2::OpenCall(1, "/x") + http2::OpenCall(3, "/x");
  EXPECT_EQ(TakeAnyway(Begin() + open + http2::OpenCall(3, "/x")).use.calls, 2);
  EXPECT_EQ(TakeAnyway(Begin() + open + http2::RstStream(1) +
                       http2::RstStream(1) + http2::RstStream(5))
                .use.calls,
            1);
}

TEST(Http2Meter, HeaderBlocksAreBounded) {
  const Http2Limits limits = {.header_block_bytes = 1000};
  const auto block = [](int frames) {
    std::string octets = Begin() + Frame(http2::kHeaders, 0, 1, "x");
    for (int i = 0; i < frames; ++i) {
      octets += Frame(http2::kContinuation, 0, 1, std::string(91, 'x'));
    }
    return octets;
  };
  EXPECT_TRUE(TakeAnyway(block(9), limits).fine);
  EXPECT_FALSE(TakeAnyway(block(10), limits).fine);
  // Each block for itself.
  EXPECT_TRUE(
      TakeAnyway(block(9) + block(9).substr(Begin().size()), limits).fine);
  // Frames of nothing count as well.
  std::string empty = Begin() + Frame(http2::kHeaders, 0, 1, "");
  for (int i = 0; i < 111; ++i) empty += Frame(http2::kContinuation, 0, 1, "");
  EXPECT_FALSE(TakeAnyway(empty, limits).fine);
}

TEST(Http2Meter, LargeHeaderBlocksCost) {
  const Taken taken = TakeAnyway(
      Begin() + Frame(http2::kHeaders, http2::kEndHeaders, 1,
                      std::string(Http2Meter::kFreeBlock + 640 - 9, 'x')));
  EXPECT_EQ(taken.use.cost, kBegin + 10);
}

TEST(Http2Meter, CallsBeforeTheSettingsAreBounded) {
  const Http2Limits limits = {.early_streams = 3};
  std::string calls;
  for (uint32_t i = 0; i < 3; ++i) calls += http2::OpenCall(2 * i + 1, "/x");
  const std::string more = http2::OpenCall(7, "/x");
  EXPECT_TRUE(TakeAnyway(http2::Preface() + calls, limits).fine);
  EXPECT_FALSE(TakeAnyway(http2::Preface() + calls + more, limits).fine);
  EXPECT_TRUE(
      TakeAnyway(http2::Preface() + calls + http2::SettingsAck() + more, limits)
          .fine);
}

TEST(Http2Meter, WhatIsNotHttp2IsNoneOfItsBusiness) {
  std::string tls = "\x16\x03\x01";
  for (int i = 0; i < 1000; ++i) tls += http2::RstStream(1);
  const Taken taken = TakeAnyway(tls);
  EXPECT_TRUE(taken.fine);
  EXPECT_EQ(taken.use.cost, 0u);
}

class Http2EndingsTest : public testing::Test {
 protected:
  Http2EndingsTest() {
    for (const uint32_t stream : {1u, 3u, 0x7fff'ffffu}) calls_.Open(stream);
  }

  Http2Endings::Ended Take(const std::string& octets) {
    Http2Endings::Ended ended;
    endings_.Take(octets, calls_, ended);
    return ended;
  }

  OpenCalls calls_;
  Http2Endings endings_;
};

MATCHER_P3(Ends, calls, reset, refused, "") {
  return arg.calls == calls && arg.reset == reset && arg.refused == refused;
}

const std::string kHeader = Frame(http2::kHeaders, http2::kEndHeaders, 1, "h");
const std::string kAnswer = kHeader + Frame(http2::kData, 0, 1, "12345");
const std::string kTrailers = Frame(http2::kHeaders, http2::kEndStream, 1, "t");

TEST_F(Http2EndingsTest, TrailersEndACall) {
  EXPECT_THAT(Take(kAnswer), Ends(0U, 0U, 0U));
  EXPECT_THAT(Take(Frame(http2::kData, 0, 1, std::string(50, '\1'))),
              Ends(0U, 0U, 0U));
  EXPECT_THAT(Take(kTrailers), Ends(1U, 0U, 0U));
  EXPECT_THAT(Take(kTrailers), Ends(0U, 0U, 0U));
  // An acknowledgement's flag is the same bit.
  EXPECT_THAT(Take(http2::SettingsAck()), Ends(0U, 0U, 0U));
}

TEST_F(Http2EndingsTest, TrailersAloneRefuseACall) {
  EXPECT_THAT(Take(kTrailers), Ends(1U, 0U, 1U));
  EXPECT_THAT(Take(kTrailers), Ends(0U, 0U, 0U));
  // Begun anew, by a client that cares for no rule: as any other.
  calls_.Open(1);
  EXPECT_THAT(Take(kAnswer + kTrailers), Ends(1U, 0U, 0U));
  calls_.Open(1);
  EXPECT_THAT(Take(kTrailers), Ends(1U, 0U, 1U));
}

// Some of gRPC's servers begin every answer, if only to refuse. No message,
// or an empty frame, is no answer.
TEST_F(Http2EndingsTest, ARefusalMayHaveAHeader) {
  EXPECT_THAT(Take(kHeader + Frame(http2::kData, 0, 1, "") + kTrailers),
              Ends(1U, 0U, 1U));
}

// As gRPC answers a client that has not said all it had to.
TEST_F(Http2EndingsTest, AResetAfterTrailersIsNone) {
  EXPECT_THAT(Take(kTrailers + http2::RstStream(1)), Ends(1U, 0U, 1U));
}

TEST_F(Http2EndingsTest, ResetsCount) {
  EXPECT_THAT(Take(http2::RstStream(3) + http2::RstStream(0x7fff'ffff)),
              Ends(2U, 2U, 0U));
  EXPECT_THAT(Take(http2::RstStream(3) + http2::RstStream(5)),
              Ends(0U, 0U, 0U));
  EXPECT_THAT(Take(kAnswer + http2::RstStream(1)), Ends(1U, 1U, 0U));
}

}  // namespace
}  // namespace planb::server
