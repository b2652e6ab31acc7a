// SPDX-License-Identifier: Apache-2.0

#include "server/testing/raw_http2.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace planb::server::http2 {

std::string BigEndian(uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
  return out;
}

std::string FrameHeader(size_t length, uint8_t type, uint8_t flags,
                        uint32_t stream) {
  return BigEndian(length, 3) + BigEndian(type, 1) + BigEndian(flags, 1) +
         BigEndian(stream, 4);
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload) {
  return absl::StrCat(FrameHeader(payload.size(), type, flags, stream),
                      payload);
}

std::string Preface(absl::string_view settings) {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                      Frame(kSettings, 0, 0, settings));
}

std::string Setting(uint16_t id, uint32_t value) {
  return BigEndian(id, 2) + BigEndian(value, 4);
}

std::string SettingsAck() { return Frame(kSettings, kAck, 0, ""); }

std::string RstStream(uint32_t stream) {
  constexpr uint32_t kCancel = 8;
  return Frame(kRstStream, 0, stream, BigEndian(kCancel, 4));
}

std::string HpackInteger(uint64_t value, int prefix_bits, uint8_t upper_bits) {
  const uint64_t most = (uint64_t{1} << prefix_bits) - 1;
  std::string out(1, static_cast<char>(upper_bits | std::min(value, most)));
  if (value < most) return out;
  for (value -= most; value >= 128; value >>= 7) {
    out.push_back(static_cast<char>(128 | (value & 127)));
  }
  out.push_back(static_cast<char>(value));
  return out;
}

namespace {

std::string Field(char kind, absl::string_view name, absl::string_view value) {
  return absl::StrCat(absl::string_view(&kind, 1),
                      HpackInteger(name.size(), 7, 0), name,
                      HpackInteger(value.size(), 7, 0), value);
}

}  // namespace

std::string Literal(absl::string_view name, absl::string_view value) {
  return Field('\0', name, value);
}

std::string Indexed(absl::string_view name, absl::string_view value) {
  return Field('\x40', name, value);
}

std::string CallHeaders(absl::string_view path) {
  return Literal(":method", "POST") + Literal(":scheme", "http") +
         Literal(":path", path) + Literal(":authority", "localhost") +
         Literal("te", "trailers") +
         Literal("content-type", "application/grpc");
}

std::string OpenCall(uint32_t stream, absl::string_view path) {
  return Frame(kHeaders, kEndHeaders, stream, CallHeaders(path));
}

std::string MessageHeader(bool compressed, uint32_t length) {
  return BigEndian(compressed ? 1 : 0, 1) + BigEndian(length, 4);
}

std::string Message(absl::string_view message) {
  return absl::StrCat(
      MessageHeader(false, static_cast<uint32_t>(message.size())), message);
}

RawConnection::RawConnection(const std::string& target) {
  sockaddr_un local = {};
  sockaddr_in remote = {};
  absl::string_view rest = target;
  std::string from;
  const bool is_local = absl::ConsumePrefix(&rest, "unix://");
  if (is_local) {
    local.sun_family = AF_UNIX;
    rest.copy(local.sun_path, sizeof(local.sun_path) - 1);
  } else {
    if (const size_t at = rest.find('@'); at != absl::string_view::npos) {
      from = std::string(rest.substr(0, at));
      rest.remove_prefix(at + 1);
    }
    const size_t colon = rest.rfind(':');
    uint32_t port = 0;
    if (colon == absl::string_view::npos ||
        !absl::SimpleAtoi(rest.substr(colon + 1), &port) ||
        inet_pton(AF_INET, std::string(rest.substr(0, colon)).c_str(),
                  &remote.sin_addr) != 1) {
      return;
    }
    remote.sin_family = AF_INET;
    remote.sin_port = htons(static_cast<uint16_t>(port));
  }
  fd_ = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  if (!from.empty()) {
    sockaddr_in self = {};
    self.sin_family = AF_INET;
    if (inet_pton(AF_INET, from.c_str(), &self.sin_addr) != 1 ||
        bind(fd_, reinterpret_cast<sockaddr*>(&self), sizeof(self)) != 0) {
      return;
    }
  }
  // connect() blocks while the server's queue is full, for at most this time.
  const timeval patience = {5, 0};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  open_ = connect(fd_,
                  is_local ? reinterpret_cast<const sockaddr*>(&local)
                           : reinterpret_cast<const sockaddr*>(&remote),
                  is_local ? sizeof(local) : sizeof(remote)) == 0;
}

RawConnection::~RawConnection() {
  if (fd_ >= 0) close(fd_);
}

bool RawConnection::Send(absl::string_view bytes, absl::Duration patience) {
  return SendAll(bytes, patience, false);
}

bool RawConnection::SendDeaf(absl::string_view bytes, absl::Duration patience) {
  return SendAll(bytes, patience, true);
}

bool RawConnection::SendAll(absl::string_view bytes, absl::Duration patience,
                            bool deaf) {
  const absl::Time deadline = absl::Now() + patience;
  while (open_ && !bytes.empty()) {
    if (!deaf) Drop();
    const ssize_t sent =
        send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      open_ = false;
    } else if (absl::Now() > deadline) {
      return false;
    } else {
      Poll(deaf ? POLLOUT : POLLOUT | POLLIN, deadline);
    }
  }
  return open_;
}

uint64_t RawConnection::Drop() {
  char bytes[16 << 10];
  while (open_) {
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
      dropped_ += static_cast<uint64_t>(got);
      ReadFrames(absl::string_view(bytes, static_cast<size_t>(got)));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      open_ = false;
    } else if (errno == EAGAIN) {
      break;
    }
  }
  return dropped_;
}

int64_t& RawConnection::Window(uint32_t stream) {
  constexpr int64_t kAtFirst = 65'535;
  return windows_.try_emplace(stream, kAtFirst).first->second;
}

void RawConnection::ReadFrames(absl::string_view bytes) {
  const auto number = [](absl::string_view digits) {
    uint64_t value = 0;
    for (const char digit : digits) {
      value = value << 8 | static_cast<uint8_t>(digit);
    }
    return value;
  };
  unread_.append(bytes.data(), bytes.size());
  absl::string_view rest = unread_;
  while (rest.size() >= 9 && rest.size() >= 9 + number(rest.substr(0, 3))) {
    const absl::string_view payload =
        rest.substr(9, static_cast<size_t>(number(rest.substr(0, 3))));
    if (rest[3] == kWindowUpdate) {
      Window(static_cast<uint32_t>(number(rest.substr(5, 4)))) +=
          static_cast<int64_t>(number(payload));
    }
    if (rest[3] == kPing && (rest[4] & kAck) != 0) ++answered_pings_;
    rest.remove_prefix(9 + payload.size());
  }
  unread_ = std::string(rest);
}

bool RawConnection::SendData(uint32_t stream, absl::string_view bytes,
                             absl::Duration patience) {
  constexpr int64_t kFrame = 16'384;
  const absl::Time deadline = absl::Now() + patience;
  while (open_ && !bytes.empty()) {
    Drop();
    const int64_t size = std::min({Window(0), Window(stream), kFrame,
                                   static_cast<int64_t>(bytes.size())});
    if (size <= 0) {
      if (absl::Now() > deadline) return false;
      Poll(POLLIN, deadline);
      continue;
    }
    Window(0) -= size;
    Window(stream) -= size;
    const auto now = bytes.substr(0, static_cast<size_t>(size));
    if (!Send(Frame(kData, 0, stream, now), deadline - absl::Now()))
      return false;
    bytes.remove_prefix(now.size());
  }
  return open_;
}

bool RawConnection::Await(absl::Time deadline, absl::FunctionRef<bool()> done) {
  while (open_ && !done() && absl::Now() < deadline) {
    Poll(POLLIN, deadline);
    Drop();
  }
  return done();
}

bool RawConnection::AwaitClosed(absl::Time deadline) {
  return Await(deadline, [this] { return !open_; });
}

bool RawConnection::AwaitAnything(absl::Time deadline) {
  return Await(deadline, [this] { return Drop() > 0; });
}

bool RawConnection::AwaitRead(absl::Time deadline) {
  const uint64_t before = answered_pings_;
  Send(Frame(kPing, 0, 0, std::string(8, 'p')));
  return Await(deadline, [&] { return answered_pings_ > before; });
}

void RawConnection::Poll(short events, absl::Time deadline) const {
  const absl::Duration left = std::clamp(
      deadline - absl::Now(), absl::Milliseconds(1), absl::Milliseconds(100));
  pollfd poll_fd = {fd_, events, 0};
  poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
}

}  // namespace planb::server::http2
