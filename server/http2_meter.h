// Reads along with HTTP/2, no more than frames' first nine octets, and tells of
// a client what gRPC 1.51 does not bound: a header block without an end
// (CVE-2023-33953), calls reset as fast as they are opened (CVE-2023-44487),
// calls without number before the client has agreed to a limit, frames that ask
// for nothing but work.

#ifndef PLANB_SERVER_HTTP2_METER_H_
#define PLANB_SERVER_HTTP2_METER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/open_calls.h"

namespace planb::server {

// Finds where frames begin. Thread-compatible.
class FrameWalker {
 public:
  struct Frame {
    uint32_t length;
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
  };

  // Calls visit(Frame) for each frame whose nine octets are complete with
  // `octets`, which follow those of the last call; stops if that is false, and
  // then must not be called again. O(frames).
  template <typename Visit>
  bool Walk(absl::string_view octets, Visit visit) {
    while (!octets.empty()) {
      const size_t skipped = octets.size() < left_ ? octets.size() : left_;
      octets.remove_prefix(skipped);
      left_ -= static_cast<uint32_t>(skipped);
      while (!octets.empty() && size_ < sizeof(header_)) {
        header_[size_++] = static_cast<uint8_t>(octets[0]);
        octets.remove_prefix(1);
      }
      if (size_ < sizeof(header_)) break;
      size_ = 0;
      left_ = static_cast<uint32_t>(header_[0] << 16 | header_[1] << 8) |
              header_[2];
      const uint32_t stream =
          static_cast<uint32_t>(header_[5] & 0x7f) << 24 |
          static_cast<uint32_t>(header_[6] << 16 | header_[7] << 8) |
          header_[8];
      if (!visit(Frame{left_, header_[3], header_[4], stream})) return false;
    }
    return true;
  }

 private:
  uint32_t left_ = 0;  // of the payload
  uint8_t size_ = 0;   // of header_, as far as it has come
  uint8_t header_[9] = {};
};

struct Http2Limits {
  // Octets of one header block, HEADERS and CONTINUATION, with a frame's nine
  // counted as well. gRPC itself takes 8 KiB of metadata.
  uint32_t header_block_bytes = 32 << 10;
  // Calls opened before the client has acknowledged the settings.
  uint32_t early_streams = 100;
};

// What a client did with some octets.
struct Http2Use {
  uint64_t cost = 0;  // what it has to pay for, see below
  int64_t calls = 0;  // opened, less those that it reset
};

// What a client sends on one connection, from its first octet.
// Thread-compatible.
class Http2Meter {
 public:
  // Takes the next octets; changes `calls`, and adds to `use`. RST_STREAM costs
  // kResetCost: the call it ends has taken memory, and lets go of it only
  // later. It costs one: PING, SETTINGS, PRIORITY, GOAWAY, an empty DATA or
  // unknown frame, 64 of WINDOW_UPDATE, 64 octets of a header block beyond
  // kFreeBlock. False if a limit is exceeded: the connection must not be read
  // any more.
  bool Take(absl::string_view octets, const Http2Limits& limits,
            OpenCalls& calls, Http2Use& use);

  static constexpr uint32_t kFreeBlock = 8 << 10;  // all that gRPC takes
  static constexpr uint32_t kResetCost = 10;
  // Of a call that the server refuses: it ends with trailers and no message.
  static constexpr uint32_t kRefusedCost = 5;

  // True unless the connection did not begin as HTTP/2 without TLS does: then
  // it is none of this class's business.
  bool plain() const { return !foreign_; }

 private:
  bool Visit(const FrameWalker::Frame& frame, const Http2Limits& limits,
             OpenCalls& calls, Http2Use& use);
  // Of what a server asks for: acknowledgements, and room for replies.
  bool Answer(Http2Use& use);

  FrameWalker frames_;
  bool foreign_ = false;
  bool acknowledged_ = false;
  uint8_t preface_ = 0;  // octets of it that have come
  uint8_t answers_ = 0;
  uint32_t block_bytes_ = 0;
  uint32_t streams_ = 0;  // while not acknowledged
};

// What the server ends, in what it sends on one connection. Thread-compatible.
class Http2Endings {
 public:
  struct Ended {
    uint64_t calls = 0;
    // Calls that it reset, for what the client sent: gRPC ends with trailers
    // what it answers, if only with an error, though a RST_STREAM may follow
    // them. A client that is served so makes as much work as one that resets
    // its calls itself (CVE-2025-8671).
    uint64_t reset = 0;
    // Calls refused: ended without an octet of an answer. To send them is no
    // use to anybody, and makes nearly the work of others.
    uint64_t refused = 0;
  };

  // Takes the next octets; changes `calls`, and adds to `ended`.
  void Take(absl::string_view octets, OpenCalls& calls, Ended& ended);

 private:
  FrameWalker frames_;
  uint32_t answered_ = 0;  // the last answered call: mostly, the next one too
};

}  // namespace planb::server

#endif  // PLANB_SERVER_HTTP2_METER_H_
