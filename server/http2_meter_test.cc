#include "server/http2_meter.h"

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
  uint64_t ended = 0;
};

Taken Take(const std::string& octets, size_t at_once,
           const Http2Limits& limits = {}) {
  Taken taken;
  Http2Meter meter;
  Http2Endings endings;
  for (size_t at = 0; at < octets.size() && taken.fine; at += at_once) {
    const std::string part = octets.substr(at, at_once);
    taken.fine = meter.Take(part, limits, taken.use);
    taken.ended += endings.Take(part);
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
    EXPECT_EQ(part.use.opened, whole.use.opened) << at_once;
    EXPECT_EQ(part.use.reset, whole.use.reset) << at_once;
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
  EXPECT_EQ(taken.use.opened, 500u);
  EXPECT_EQ(taken.use.reset, 0u);
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
            Frame(http2::kPriority, 0, 1, "12345") +
            Frame(http2::kData, 0, 1, "") + Frame(0xfa, 0, 0, "unknown");
  for (int i = 0; i < 127; ++i) {  // and one acknowledgement
    octets += Frame(http2::kWindowUpdate, 0, 0, http2::BigEndian(1, 4));
  }
  const Taken taken = TakeAnyway(octets);
  EXPECT_TRUE(taken.fine);
  EXPECT_EQ(taken.use.cost, kBegin + Http2Meter::kResetCost + 5 + 2);
  EXPECT_EQ(taken.use.reset, 1u);
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

TEST(Http2Endings, CountsTrailersAndResets) {
  Http2Endings endings;
  EXPECT_EQ(endings.Take(Frame(http2::kHeaders, http2::kEndHeaders, 1, "h")),
            0u);
  EXPECT_EQ(endings.Take(Frame(http2::kData, 0, 1, std::string(50, '\1'))), 0u);
  EXPECT_EQ(endings.Take(Frame(http2::kHeaders, http2::kEndStream, 1, "t")),
            1u);
  EXPECT_EQ(endings.Take(http2::RstStream(3) + http2::RstStream(5)), 2u);
  // An acknowledgement's flag is the same bit.
  EXPECT_EQ(endings.Take(http2::SettingsAck()), 0u);
}

}  // namespace
}  // namespace planb::server
