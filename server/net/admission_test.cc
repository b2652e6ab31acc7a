// SPDX-License-Identifier: Apache-2.0

// Admission against a model: counts stay exact while connections open and
// close, limits hold and admit again, and each peer has its own limits.

#include "server/net/admission.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"

namespace planb::server {
namespace {

TEST(PeerRules, OneOfTheTwoIsEnough) {
  EXPECT_TRUE(PeerRules().Allow(1, 2));
  const PeerRules by_user = {.uids = {1, 3}};
  EXPECT_TRUE(by_user.Allow(3, 9));
  EXPECT_FALSE(by_user.Allow(9, 3));
  const PeerRules by_both = {.uids = {1}, .gids = {2}};
  EXPECT_TRUE(by_both.Allow(1, 9));
  EXPECT_TRUE(by_both.Allow(9, 2));
  EXPECT_FALSE(by_both.Allow(2, 1));
}

TEST(PeerRules, AreReadFromFlags) {
  const auto rules = ParsePeerRules({"0", "65532"}, {"7"});
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->uids, (std::vector<uid_t>{0, 65532}));
  EXPECT_EQ(rules->gids, std::vector<gid_t>{7});
  EXPECT_TRUE(ParsePeerRules({}, {})->AllowAnyone());
  for (const char* wrong : {"", "root", "-1", "4294967295", "4294967296"}) {
    const absl::Status uids = ParsePeerRules({wrong}, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(uids)) << wrong;
    EXPECT_TRUE(absl::StrContains(uids.message(), "--peer_uids")) << uids;
    const absl::Status gids = ParsePeerRules({}, {wrong}).status();
    EXPECT_TRUE(absl::StrContains(gids.message(), "--peer_gids")) << gids;
  }
}

// Both ends of a connection of this process with itself.
struct Pair {
  Pair() { socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2] = {-1, -1};
};

// A peer at the loopback address `ip`, from a real socket. `family` is that of
// the listening socket: AF_INET6 shows IPv4 peers as mapped addresses.
Peer TcpPeer(const std::string& ip, int family = AF_INET) {
  const int listener = socket(family, SOCK_STREAM, 0);
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = sizeof(address);
  const int no = 0;
  if (family == AF_INET6) {
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  EXPECT_EQ(
      bind(listener, reinterpret_cast<sockaddr*>(&address),
           family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)),
      0);
  EXPECT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const in_port_t port =
      family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                        : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  inet_pton(AF_INET, ip.c_str(), &from.sin_addr);
  EXPECT_EQ(bind(client, reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = port;
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  const int server = accept(listener, nullptr, nullptr);
  Peer peer = Peer::Of(server);
  for (const int fd : {server, client, listener}) close(fd);
  return peer;
}

// The sockets that Admission sees: descriptor -> inode number.
std::map<int, uint64_t>& Sockets() {
  static auto& sockets = *new std::map<int, uint64_t>;
  return sockets;
}
uint64_t InodeOf(int fd) {
  const auto found = Sockets().find(fd);
  return found == Sockets().end() ? 0 : found->second;
}
uint64_t next_inode = 1;

// Opens the lowest free descriptor, as the kernel does. Closes it if it is
// refused.
bool Connect(Admission& admission, const Peer& peer, SteadyInstant now) {
  int fd = 3;
  while (Sockets().count(fd) > 0) ++fd;
  Sockets()[fd] = next_inode++;
  if (admission.Admit(fd, peer, now)) return true;
  Sockets().erase(fd);
  return false;
}

class Limits : public testing::Test {
 protected:
  Limits() { Sockets().clear(); }

  const SteadyInstant start_ = SteadyNow();
  const Peer one_ = TcpPeer("127.0.0.1"), two_ = TcpPeer("127.0.0.2");
};

TEST(Peers, AreUsersAndAddresses) {
  const Pair self;
  const Peer user = Peer::Of(self.ends[0]);
  ASSERT_NE(user.process(), nullptr);
  EXPECT_EQ(user.process()->uid, getuid());
  EXPECT_EQ(user.name(), absl::StrCat("uid ", getuid()));
  EXPECT_EQ(TcpPeer("127.0.0.3").name(), "127.0.0.3");
  EXPECT_EQ(TcpPeer("127.0.0.3").process(), nullptr);
}

TEST_F(Limits, HoldForMappedAddressesToo) {
  const int v6 = socket(AF_INET6, SOCK_STREAM, 0);
  if (v6 < 0) GTEST_SKIP() << "no IPv6";
  close(v6);
  Admission admission({}, {.max_peer_connections = 1}, InodeOf);
  EXPECT_TRUE(Connect(admission, TcpPeer("127.0.0.1", AF_INET6), start_));
  EXPECT_FALSE(Connect(admission, one_, start_));
  EXPECT_TRUE(Connect(admission, two_, start_));
}

TEST_F(Limits, AdmitAgainWhenConnectionsClose) {
  Admission admission({}, {.max_connections = 5, .max_peer_connections = 3},
                      InodeOf);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connect(admission, one_, start_));
  EXPECT_FALSE(Connect(admission, one_, start_));  // of the peer
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Connect(admission, two_, start_));
  EXPECT_FALSE(Connect(admission, two_, start_));  // of all
  EXPECT_EQ(admission.CountOpen(), 5u);
  Sockets().erase(4);  // of the first peer
  const SteadyInstant later = start_ + std::chrono::seconds(1);
  EXPECT_TRUE(Connect(admission, two_, later));
  EXPECT_FALSE(Connect(admission, one_, later));
  Sockets().clear();
  EXPECT_EQ(admission.CountOpen(), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connect(admission, one_, later));
  const std::string metrics = prometheus::TextSerializer().Serialize(
      admission.collectable()->Collect());
  for (const char* line : {"planb_guard_connections 3",
                           "planb_guard_refused_total{reason=\"peer\"} 1",
                           "planb_guard_refused_total{reason=\"total\"} 2",
                           "planb_guard_refused_total{reason=\"rate\"} 0"}) {
    EXPECT_TRUE(absl::StrContains(metrics, line)) << line << "\n" << metrics;
  }
}

TEST_F(Limits, LeaveHalfToOthersByDefault) {
  Admission admission({}, {.max_connections = 8}, InodeOf);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Connect(admission, one_, start_));
  EXPECT_FALSE(Connect(admission, one_, start_));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Connect(admission, two_, start_));
}

TEST_F(Limits, OfRateRecoverWithTime) {
  Admission admission({}, {.peer_connection_rate = 2}, InodeOf);
  const auto admitted = [&](const Peer& peer, SteadyInstant now) {
    int count = 0;
    while (Connect(admission, peer, now)) ++count;
    return count;
  };
  EXPECT_EQ(admitted(one_, start_), 20);
  EXPECT_EQ(admitted(one_, start_), 0);
  EXPECT_EQ(admitted(two_, start_), 20);
  EXPECT_EQ(admitted(one_, start_ + std::chrono::seconds(3)), 6);
  // After any pause, no more than at the start; also for a forgotten peer.
  Sockets().clear();
  EXPECT_EQ(admission.CountOpen(), 0u);
  EXPECT_EQ(admitted(one_, start_ + std::chrono::hours(1)), 20);
}

TEST_F(Limits, AgreeWithModelOnRandomConnections) {
  constexpr size_t kTotal = 12, kPerPeer = 5;
  const std::vector<Peer> peers = {one_, two_, TcpPeer("127.0.0.3"),
                                   TcpPeer("127.0.0.4")};
  Admission admission({},
                      {.max_connections = kTotal,
                       .max_peer_connections = kPerPeer,
                       .peer_connection_rate = 0},
                      InodeOf);
  std::map<int, size_t> open;  // descriptor -> peer
  std::mt19937 random(1);
  SteadyInstant now = start_;
  for (int step = 0; step < 20'000; ++step) {
    now += std::chrono::milliseconds(50);  // descriptors are checked anew
    if (random() % 2 == 0 && !open.empty()) {
      const auto victim =
          std::next(open.begin(), static_cast<int>(random() % open.size()));
      Sockets().erase(victim->first);
      open.erase(victim);
      continue;
    }
    const size_t peer = random() % peers.size();
    size_t of_peer = 0;
    for (const auto& [fd, owner] : open) of_peer += owner == peer;
    int fd = 3;
    while (open.count(fd) > 0) ++fd;
    const bool expected = open.size() < kTotal && of_peer < kPerPeer;
    ASSERT_EQ(Connect(admission, peers[peer], now), expected) << step;
    if (expected) open[fd] = peer;
  }
  EXPECT_EQ(admission.CountOpen(), open.size());
}

std::string Metrics(const Admission& admission) {
  return prometheus::TextSerializer().Serialize(
      admission.collectable()->Collect());
}

TEST(Rules, CountRefusedPeers) {
  const Pair self;
  const Peer peer = Peer::Of(self.ends[0]);
  Admission others({.uids = {getuid() + 1}, .gids = {getgid() + 1}}, {});
  EXPECT_TRUE(
      absl::StrContains(Metrics(others), "planb_peers_refused_total 0"));
  EXPECT_FALSE(others.Admit(self.ends[0], peer));
  EXPECT_FALSE(others.Admit(self.ends[1], peer));
  EXPECT_TRUE(
      absl::StrContains(Metrics(others), "planb_peers_refused_total 2"));
  EXPECT_EQ(others.CountOpen(), 0u);
  Admission own({.gids = {getgid()}}, {});
  EXPECT_TRUE(own.Admit(self.ends[0], peer));
  EXPECT_TRUE(absl::StrContains(Metrics(own), "planb_peers_refused_total 0"));
  EXPECT_EQ(own.CountOpen(), 1u);
}

TEST(Rules, PeersThatALimitRefusesAreNotLoggedAsAccepted) {
  const Pair first, second;
  Admission admission({.uids = {getuid()}}, {.max_connections = 1});
  testing::internal::CaptureStderr();
  EXPECT_TRUE(admission.Admit(first.ends[0], Peer::Of(first.ends[0])));
  EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStderr(),
                                "peer accepted uid="));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(admission.Admit(second.ends[0], Peer::Of(second.ends[0])));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::StrContains(log, "connection refused peer=")) << log;
  EXPECT_FALSE(absl::StrContains(log, "peer accepted")) << log;
}

TEST(Rules, IgnoreTcp) {
  Admission admission({.uids = {getuid() + 1}}, {});
  EXPECT_TRUE(admission.Admit(100, TcpPeer("127.0.0.1")));
}

TEST(Descriptors, LastOnesAreKeptForTheServer) {
  Admission admission({}, {});
  EXPECT_FALSE(admission.Admit(static_cast<int>(sysconf(_SC_OPEN_MAX)) - 1,
                               TcpPeer("127.0.0.1")));
  EXPECT_TRUE(absl::StrContains(Metrics(admission),
                                "planb_connections_dropped_total 1"));
}

}  // namespace
}  // namespace planb::server
