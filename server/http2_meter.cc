#include "server/http2_meter.h"

#include <algorithm>

namespace planb::server {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr uint8_t kAck = 0x1;
constexpr uint8_t kEndStream = 0x1;
constexpr uint32_t kFrameHeader = 9;

}  // namespace

bool Http2Meter::Take(absl::string_view octets, const Http2Limits& limits,
                      OpenCalls& calls, Http2Use& use) {
  if (preface_ < kPreface.size() && !foreign_) {
    const absl::string_view expected = kPreface.substr(preface_, octets.size());
    foreign_ = octets.substr(0, expected.size()) != expected;
    octets.remove_prefix(expected.size());
    preface_ = static_cast<uint8_t>(preface_ + expected.size());
  }
  return foreign_ || frames_.Walk(octets, [&](const FrameWalker::Frame& frame) {
    return Visit(frame, limits, calls, use);
  });
}

bool Http2Meter::Visit(const FrameWalker::Frame& frame,
                       const Http2Limits& limits, OpenCalls& calls,
                       Http2Use& use) {
  switch (frame.type) {
    case kData:
      if (frame.length == 0 && (frame.flags & kEndStream) == 0) ++use.cost;
      return true;
    case kHeaders:
      block_bytes_ = 0;
      use.calls += calls.Open(frame.stream);
      if (!acknowledged_ && ++streams_ > limits.early_streams) return false;
      [[fallthrough]];
    case kContinuation: {
      const uint32_t paid = std::max(block_bytes_, kFreeBlock);
      block_bytes_ += frame.length + kFrameHeader;
      if (block_bytes_ > paid) use.cost += (block_bytes_ - paid) / 64;
      return block_bytes_ <= limits.header_block_bytes;
    }
    case kWindowUpdate:
      return Answer(use);
    case kRstStream:
      use.calls -= calls.End(frame.stream) != OpenCalls::Was::kNotOpen;
      use.cost += kResetCost - 1;
      break;
    case kSettings:
      if ((frame.flags & kAck) == 0) break;
      acknowledged_ = true;
      return Answer(use);
    case kPing:
      if ((frame.flags & kAck) == 0) break;
      return Answer(use);
    default:
      break;
  }
  ++use.cost;
  return true;
}

bool Http2Meter::Answer(Http2Use& use) {
  if (++answers_ % 64 == 0) ++use.cost;
  return true;
}

void Http2Endings::Take(absl::string_view octets, OpenCalls& calls,
                        Ended& ended) {
  frames_.Walk(octets, [&](const FrameWalker::Frame& frame) {
    const bool reset = frame.type == kRstStream;
    const bool ends =
        reset || (frame.type <= kHeaders && (frame.flags & kEndStream) != 0);
    if (frame.type == kData && frame.length > 0 && frame.stream != answered_) {
      calls.Answer(frame.stream);
      answered_ = frame.stream;
    }
    if (ends) {
      if (frame.stream == answered_) answered_ = 0;
      // After trailers, or what the client has reset: no longer open.
      const OpenCalls::Was was = calls.End(frame.stream);
      if (was == OpenCalls::Was::kNotOpen) return true;
      ++ended.calls;
      if (reset) {
        ++ended.reset;
      } else if (was == OpenCalls::Was::kUnanswered) {
        ++ended.refused;
      }
    }
    return true;
  });
}

}  // namespace planb::server
