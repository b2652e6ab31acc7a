// SPDX-License-Identifier: Apache-2.0

// Connects two processes by a network that a test can cut.

#ifndef PLANB_BASE_TESTING_WIRE_H_
#define PLANB_BASE_TESTING_WIRE_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/mutex.h"

namespace planb {

// Forwards connections from a port of 127.0.0.1 to another address, with a
// thread for each. While it is cut, bytes and new connections wait where they
// are, as on a network that drops packets. Not thread-safe.
class Wire {
 public:
  // `to` is 127.0.0.1:PORT.
  explicit Wire(const std::string& to) {
    const std::vector<std::string> parts = absl::StrSplit(to, ':');
    uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts.back(), &port)) << to;
    to_ = Loopback(static_cast<uint16_t>(port));
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, Generic(address), size), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    getsockname(listener_, Generic(address), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    accepting_ = std::thread([this] { Accept(); });
  }
  ~Wire() {
    ending_ = true;
    accepting_.join();
    for (std::thread& thread : connections_) thread.join();
    close(listener_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // The address to connect to.
  const std::string& address() const { return address_; }
  void Cut() { cut_ = true; }
  void Heal() { cut_ = false; }
  // Cuts the network, once, before bytes that the connecting side sends with
  // `text`.
  void CutBefore(absl::string_view text) {
    const MutexLock lock(mutex_);
    cut_before_ = std::string(text);
  }
  bool cut() const { return cut_; }
  // Connections so far stay open and carry no more bytes, as if what is between
  // had forgotten them.
  void Strand() { stranded_ = accepted_.load(); }

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static sockaddr* Generic(sockaddr_in& address) {
    return reinterpret_cast<sockaddr*>(&address);
  }
  void CutIfWanted(absl::string_view sent) {
    const MutexLock lock(mutex_);
    if (cut_before_.empty() || !absl::StrContains(sent, cut_before_)) return;
    cut_before_.clear();
    cut_ = true;
  }
  // Waits until one can be read, at most 20 ms. False while it is cut, or
  // connection number `number` is stranded.
  bool Readable(pollfd* sockets, nfds_t count, uint64_t number) const {
    const auto holds = [&] { return cut_ || number < stranded_; };
    if (holds()) {
      absl::SleepFor(absl::Milliseconds(5));
      return false;
    }
    return poll(sockets, count, 20) > 0 && !holds();
  }

  void Accept() {
    while (!ending_) {
      pollfd ready = {listener_, POLLIN, 0};
      if (!Readable(&ready, 1, accepted_)) continue;
      const int from = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (from < 0) continue;
      const uint64_t number = accepted_++;
      connections_.emplace_back(
          [this, from, number] { Forward(from, number); });
    }
  }

  void Forward(int from, uint64_t number) {
    const int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = to_;
    bool open = connect(to, Generic(address), sizeof(address)) == 0;
    std::array<pollfd, 2> ends = {pollfd{from, POLLIN, 0},
                                  pollfd{to, POLLIN, 0}};
    std::array<char, 65536> bytes;
    while (open && !ending_) {
      if (!Readable(ends.data(), ends.size(), number)) continue;
      for (size_t i = 0; i < ends.size() && open; ++i) {
        if (ends[i].revents == 0) continue;
        const ssize_t got = read(ends[i].fd, bytes.data(), bytes.size());
        open = got > 0;
        if (open && i == 0) {
          CutIfWanted({bytes.data(), static_cast<size_t>(got)});
          while (cut_ && !ending_) absl::SleepFor(absl::Milliseconds(5));
        }
        for (ssize_t sent = 0; open && sent < got;) {
          const ssize_t now =
              send(ends[1 - i].fd, bytes.data() + sent,
                   static_cast<size_t>(got - sent), MSG_NOSIGNAL);
          open = now > 0;
          sent += now;
        }
      }
    }
    close(from);
    close(to);
  }

  sockaddr_in to_ = {};
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> ending_ = false;
  Mutex mutex_;
  std::string cut_before_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> accepted_ = 0;
  std::atomic<uint64_t> stranded_ = 0;  // so many, the first ones
  std::thread accepting_;
  std::vector<std::thread> connections_;  // of the accepting thread
};

}  // namespace planb

#endif  // PLANB_BASE_TESTING_WIRE_H_
