// SPDX-License-Identifier: Apache-2.0

// HTTP/2 by hand, for clients that do what no library would let them: frames as
// bytes, right or wrong, and a connection that sends whatever it is given.

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

constexpr uint8_t kEndStream = 0x1;  // of DATA and HEADERS
constexpr uint8_t kAck = 0x1;        // of SETTINGS and PING
constexpr uint8_t kEndHeaders = 0x4;

constexpr uint16_t kInitialWindowSize = 4;  // a setting

// `value` as `bytes` bytes in network order.
std::string BigEndian(uint64_t value, int bytes);

// The nine bytes before a payload; `length` need not be the payload's.
std::string FrameHeader(size_t length, uint8_t type, uint8_t flags,
                        uint32_t stream);
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload);

// What a client begins with: the magic words and SETTINGS with `settings`.
std::string Preface(absl::string_view settings = "");
std::string Setting(uint16_t id, uint32_t value);
std::string SettingsAck();
std::string RstStream(uint32_t stream);

// HPACK: an integer, its first byte's upper bits given; a field that enters no
// table; one that does (as entry 62, the newest).
std::string HpackInteger(uint64_t value, int prefix_bits, uint8_t upper_bits);
std::string Literal(absl::string_view name, absl::string_view value);
std::string Indexed(absl::string_view name, absl::string_view value);
constexpr char kNewestEntry[] = "\xbe";

// The header block that begins a gRPC call of `path`.
std::string CallHeaders(absl::string_view path);
// HEADERS and nothing else of such a call.
std::string OpenCall(uint32_t stream, absl::string_view path);

// gRPC's five bytes before a message; `length` need not be the message's.
std::string MessageHeader(bool compressed, uint32_t length);
std::string Message(absl::string_view message);

// A connection, kept open until destroyed. Not thread-safe.
class RawConnection {
 public:
  // To "unix:///path", to "a.b.c.d:port", or there from the address e.f.g.h:
  // "e.f.g.h@a.b.c.d:port".
  explicit RawConnection(const std::string& target);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // False if the server could not be reached, or has closed the connection, as
  // far as is known by now.
  bool open() const { return open_; }

  // Sends all of `bytes`, and meanwhile throws away what comes. False if that
  // was not possible within `patience`: the server reads no more, or has
  // closed.
  bool Send(absl::string_view bytes,
            absl::Duration patience = absl::Seconds(5));

  // The same, but reads nothing: so that the server's way back fills up.
  bool SendDeaf(absl::string_view bytes,
                absl::Duration patience = absl::Seconds(5));

  // DATA frames of `bytes` on `stream`, as the server's windows allow: waits
  // for it to open them. False as Send.
  bool SendData(uint32_t stream, absl::string_view bytes,
                absl::Duration patience = absl::Seconds(5));

  // Throws away what has come, but for what it says of windows. Bytes thrown
  // away in the connection's life.
  uint64_t Drop();
  // The same until the server closes (true), or until `deadline`.
  bool AwaitClosed(absl::Time deadline);
  // Waits until anything at all has come (true), or until `deadline`.
  bool AwaitAnything(absl::Time deadline);
  // Sends a PING and waits for its answer: then the server has read all that
  // was sent before.
  bool AwaitRead(absl::Time deadline);

 private:
  // Throws away what comes until done() is true, which it returns, the server
  // closes, or until `deadline`.
  bool Await(absl::Time deadline, absl::FunctionRef<bool()> done);

  bool SendAll(absl::string_view bytes, absl::Duration patience, bool deaf);
  // Waits for `events`, until `deadline`.
  void Poll(short events, absl::Time deadline) const;

  void ReadFrames(absl::string_view bytes);
  // What may still be sent on `stream`, or on all of them (0).
  int64_t& Window(uint32_t stream);

  int fd_ = -1;
  bool open_ = false;
  uint64_t dropped_ = 0;
  uint64_t answered_pings_ = 0;
  std::string unread_;  // of a frame whose end has not come
  std::map<uint32_t, int64_t> windows_;
};

}  // namespace planb::server::http2

#endif  // PLANB_SERVER_TESTING_RAW_HTTP2_H_
