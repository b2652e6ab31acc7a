// SPDX-License-Identifier: Apache-2.0

// Has HTTP/2 by hand, for clients that break the protocol: frames as bytes,
// valid or not, and a connection that sends any bytes.

#ifndef PLANB_SERVER_TESTING_RAW_HTTP2_H_
#define PLANB_SERVER_TESTING_RAW_HTTP2_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace planb::server::http2 {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

constexpr uint8_t kEndStream = 0x1;  // in DATA and HEADERS
constexpr uint8_t kAck = 0x1;        // in SETTINGS and PING
constexpr uint8_t kEndHeaders = 0x4;

constexpr uint16_t kInitialWindowSize = 4;  // a setting

// `value` as `bytes` bytes in network order.
std::string BigEndian(uint64_t value, int bytes);

// The nine bytes before a payload. `length` may differ from the payload's.
std::string FrameHeader(size_t length, uint8_t type, uint8_t flags,
                        uint32_t stream);
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload);

// The beginning of a connection: the magic words and SETTINGS with `settings`.
std::string Preface(absl::string_view settings = "");
std::string Setting(uint16_t id, uint32_t value);
std::string SettingsAck();
std::string RstStream(uint32_t stream);

// HPACK: an integer with the upper bits of its first byte; a field that enters
// no table; a field that enters the table as entry 62, the newest.
std::string HpackInteger(uint64_t value, int prefix_bits, uint8_t upper_bits);
std::string Literal(absl::string_view name, absl::string_view value);
std::string Indexed(absl::string_view name, absl::string_view value);
constexpr char kNewestEntry[] = "\xbe";

// The header block of a gRPC call of `path`.
std::string CallHeaders(absl::string_view path);
// The HEADERS frame of such a call.
std::string OpenCall(uint32_t stream, absl::string_view path);

// gRPC's five bytes before a message. `length` may differ from the message's.
std::string MessageHeader(bool compressed, uint32_t length);
std::string Message(absl::string_view message);

// A connection, kept open until destroyed. Not thread-safe.
class RawConnection {
 public:
  // `target` is "unix:///path", "a.b.c.d:port", or "e.f.g.h@a.b.c.d:port" to
  // connect from the address e.f.g.h.
  explicit RawConnection(const std::string& target);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Returns false if the server was not reached, or is known to have closed the
  // connection.
  bool open() const { return open_; }

  // Sends all of `bytes` and discards what it receives meanwhile. False if the
  // server closed the connection or did not read all within `patience`.
  bool Send(absl::string_view bytes,
            absl::Duration patience = absl::Seconds(5));

  // The same without reading, so that the server's replies pile up.
  bool SendDeaf(absl::string_view bytes,
                absl::Duration patience = absl::Seconds(5));

  // Sends `bytes` in DATA frames on `stream`, within the server's windows.
  // False as in Send.
  bool SendData(uint32_t stream, absl::string_view bytes,
                absl::Duration patience = absl::Seconds(5));

  // Discards what was received, after taking note of WINDOW_UPDATE. Returns the
  // number of bytes discarded since the connection was opened.
  uint64_t Drop();
  // Discards until the server closes the connection (true) or until `deadline`.
  bool AwaitClosed(absl::Time deadline);
  // Waits until the server has sent a byte (true) or until `deadline`.
  bool AwaitAnything(absl::Time deadline);
  // Sends a PING and waits for its answer: the server has then read all that
  // was sent before.
  bool AwaitRead(absl::Time deadline);

 private:
  // Discards what it receives until done() is true, the server closes, or
  // `deadline`. Returns done().
  bool Await(absl::Time deadline, absl::FunctionRef<bool()> done);

  bool SendAll(absl::string_view bytes, absl::Duration patience, bool deaf);
  // Waits for `events`, until `deadline`.
  void Poll(short events, absl::Time deadline) const;

  void ReadFrames(absl::string_view bytes);
  // The bytes that may still be sent on `stream`, or on the connection (0).
  int64_t& Window(uint32_t stream);

  int fd_ = -1;
  bool open_ = false;
  uint64_t dropped_ = 0;
  uint64_t answered_pings_ = 0;
  std::string unread_;  // an incomplete frame
  std::map<uint32_t, int64_t> windows_;
};

}  // namespace planb::server::http2

#endif  // PLANB_SERVER_TESTING_RAW_HTTP2_H_
