// With epoll as gRPC uses it: edges only, and a listener that is not emptied.

#include "server/accept_turns.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/server_process.h"
#include "server/connection_guard.h"

namespace planb::server {
namespace {

constexpr int kMinute = 60'000;

class AcceptTurns : public testing::Test {
 protected:
  AcceptTurns() {
    address_.sun_family = AF_UNIX;
    path_.copy(address_.sun_path, sizeof(address_.sun_path) - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(listener_, raw(), sizeof(address_)), 0);
    EXPECT_EQ(listen(listener_, 1000), 0);
  }
  ~AcceptTurns() override {
    for (const int client : clients_) close(client);
    if (listener_ >= 0) close(listener_);
    close(epoll_);
    unlink(path_.c_str());
  }

  const sockaddr* raw() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  void Connect(int count) {
    for (int i = 0; i < count; ++i) {
      clients_.push_back(socket(AF_UNIX, SOCK_STREAM, 0));
      ASSERT_EQ(connect(clients_.back(), raw(), sizeof(address_)), 0);
    }
  }

  void Watch(int fd) const {
    epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
    ASSERT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), 0);
  }

  // The file that epoll tells of; -1 for none.
  int Told(int milliseconds) const {
    epoll_event event = {};
    return epoll_wait(epoll_, &event, 1, milliseconds) == 1 ? event.data.fd
                                                            : -1;
  }

  const std::string path_ = TempPath("turns.sock");
  sockaddr_un address_ = {};
  int listener_ = -1;
  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<int> clients_;
};

// Lets in every tenth.
int LetSomeIn(int fd, int flags) {
  static int count = 0;
  const int connection = accept4(fd, nullptr, nullptr, flags);
  if (connection < 0) return kNobodyWaits;
  if (++count % 10 == 0) return connection;
  close(connection);
  return kTurnedAway;
}

TEST_F(AcceptTurns, WhoIsLetInIsHandedBack) {
  Watch(listener_);
  EXPECT_EQ(Told(0), -1);
  Connect(200);
  EXPECT_EQ(Told(kMinute), listener_);
  EXPECT_EQ(Told(50), -1);  // the edge is over, though they wait
  EXPECT_EQ(TakeAccepted(listener_), kTryLater);
  ASSERT_TRUE(HandOver(listener_, SOCK_CLOEXEC, LetSomeIn));
  const auto take = [this](int count) {
    while (count > 0) {
      ASSERT_EQ(Told(kMinute), listener_);
      int connection;
      while ((connection = TakeAccepted(listener_)) >= 0) {
        close(connection);
        --count;
      }
    }
    EXPECT_EQ(count, 0);
  };
  take(20);
  // Handed back when nobody waited. Then edges tell, as ever.
  while (TakeAccepted(listener_) != kTryLater) usleep(1000);
  while (Told(0) == listener_) continue;
  Connect(10);
  EXPECT_EQ(Told(kMinute), listener_);
  ASSERT_TRUE(HandOver(listener_, SOCK_CLOEXEC, LetSomeIn));
  take(1);
}

TEST_F(AcceptTurns, OnlyWatchedListenersAreHandedOver) {
  EXPECT_FALSE(HandOver(listener_, 0, LetSomeIn));
  EXPECT_FALSE(HandOver(-1, 0, LetSomeIn));
  Watch(listener_);
  EXPECT_TRUE(HandOver(listener_, 0, LetSomeIn));
  ASSERT_EQ(epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr), 0);
  EXPECT_FALSE(HandOver(listener_, 0, LetSomeIn));
  EXPECT_EQ(TakeAccepted(listener_), kTryLater);
  // Errors are the kernel's.
  EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr), -1);
  EXPECT_EQ(errno, ENOENT);
}

// A number that stood for a listener, and stands for a connection now.
TEST_F(AcceptTurns, ClosedListenersAreForgotten) {
  Watch(listener_);
  EXPECT_TRUE(HandOver(listener_, 0, LetSomeIn));
  const int number = std::exchange(listener_, -1);
  close(number);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  clients_.assign(ends, ends + 2);
  Watch(ends[0]);
  EXPECT_FALSE(HandOver(ends[0], 0, LetSomeIn));
  EXPECT_FALSE(HandOver(number, 0, LetSomeIn));
}

// What it is for: one who has no credit, and comes faster than he is refused.
// Whoever accepts refuses some of them, and is not told of the others.
TEST_F(AcceptTurns, NobodyIsRefusedForEver) {
  GuardConnections({.peer_credit = 5, .peer_credit_per_second = 1});
  Watch(listener_);
  constexpr int kMany = 900;
  Connect(kMany);
  const uint64_t before = CountGuarded().refused;
  EXPECT_EQ(Told(kMinute), listener_);
  EXPECT_EQ(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(TakeAccepted(listener_), kNobodyWaits);  // it is handed over
  while (CountGuarded().refused < before + kMany) usleep(1000);
  EXPECT_EQ(CountGuarded().refused, before + kMany);
  while (TakeAccepted(listener_) != kTryLater) usleep(1000);
  // Those who may come are told of, with their address.
  GuardConnections({});
  while (Told(0) == listener_) continue;
  Connect(1);
  EXPECT_EQ(Told(kMinute), listener_);
  sockaddr_un address = {};
  socklen_t size = sizeof(address);
  const int connection =
      accept4(listener_, reinterpret_cast<sockaddr*>(&address), &size, 0);
  EXPECT_GE(connection, 0);
  EXPECT_EQ(address.sun_family, AF_UNIX);
  close(connection);
}

}  // namespace
}  // namespace planb::server
