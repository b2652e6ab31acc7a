// SPDX-License-Identifier: Apache-2.0

// The acceptor of a running server: which connections it keeps, which it
// closes, and the options of the sockets that it hands over. Ids such as 4711
// need no account.

#include "server/net/acceptor.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/testing/attacked_server.h"
#include "server/testing/raw_http2.h"
#include "server/testing/running_server.h"
#include "server/testing/stranger.h"

namespace planb::server {
namespace {

using http2::RawConnection;
using Connections = std::vector<std::unique_ptr<RawConnection>>;

class AcceptorOfServer : public testing::Test {
 protected:
  // Starts a server that may have `files` open files; 0: any number.
  void Start(const std::vector<std::string>& flags, rlim_t files = 0) {
    std::vector<std::string> all = {absl::StrCat("--listen=", target_),
                                    "--metrics_address=", "--store=none"};
    all.insert(all.end(), flags.begin(), flags.end());
    rlimit before = {};
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit limit = before;
    if (files > 0) limit.rlim_cur = files;
    setrlimit(RLIMIT_NOFILE, &limit);  // which the server inherits
    server_ = std::make_unique<ServerProcess>(all);
    setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_TRUE(server_->AwaitServing());
    ASSERT_TRUE(AnnounceTheRoute(target_).ok());
  }

  Connections Open(int count) const {
    Connections connections;
    for (int i = 0; i < count; ++i) {
      connections.push_back(std::make_unique<RawConnection>(target_));
    }
    return connections;
  }

  // The number of connections that the server keeps: it answers on them, or is
  // silent for a while.
  static int Kept(const Connections& connections) {
    int kept = 0;
    for (const auto& connection : connections) {
      connection->Send(http2::Preface() + http2::SettingsAck());
    }
    for (const auto& connection : connections) {
      kept += connection->AwaitAnything(absl::Now() + absl::Minutes(1));
    }
    return kept;
  }

  void ExpectService() const {
    HonestClient honest(target_);
    EXPECT_TRUE(Await([&] { return honest.answered() > 10; }));
    EXPECT_FALSE(honest.failed()) << honest.failure();
  }

  const std::string target_ =
      absl::StrCat("unix://", TempPath("accepted.sock"));
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(AcceptorOfServer, SurvivesLackOfDescriptors) {
  constexpr int kFiles = 200;
  Start({"--max_peer_connections=1000"}, kFiles);
  HonestClient honest(target_);
  ASSERT_TRUE(Await([&] { return honest.answered() > 10; }));
  {
    const Connections many = Open(3 * kFiles);
    const int kept = Kept(many);
    EXPECT_GT(kept, kFiles / 2);
    EXPECT_LT(kept, kFiles);
    const uint64_t before = honest.answered();
    EXPECT_TRUE(Await([&] { return honest.answered() > before + 10; }));
  }
  EXPECT_FALSE(honest.failed()) << honest.failure();
  ExpectService();
}

TEST_F(AcceptorOfServer, BoundsConnections) {
  Start({"--max_connections=50", "--max_peer_connections=50"});
  {
    const int kept = Kept(Open(100));
    EXPECT_GT(kept, 40);
    EXPECT_LE(kept, 50);
  }
  ExpectService();
}

TEST_F(AcceptorOfServer, LimitsOfOnePeerDoNotAffectOthers) {
  Start({"--max_peer_connections=10",
         absl::StrCat("--listen=", target_, ",127.0.0.1:0")});
  const int port = server_->PortOf("127.0.0.1:0");
  ASSERT_NE(port, 0) << server_->Log();
  const auto open = [port](int count, int host) {
    Connections connections;
    for (int i = 0; i < count; ++i) {
      connections.push_back(std::make_unique<RawConnection>(
          absl::StrCat("127.0.0.", host, "@127.0.0.1:", port)));
    }
    return connections;
  };
  const Connections greedy = open(30, 1);
  EXPECT_EQ(Kept(greedy), 10);
  for (int host = 2; host < 12; ++host) {
    EXPECT_EQ(Kept(open(1, host)), 1) << host;
  }
  ExpectService();  // of a user, over the Unix socket
}

TEST_F(AcceptorOfServer, BoundsRateOfPeer) {
  // This process has connected before, to announce the route.
  Start({"--peer_connection_rate=5"});
  const int kept = Kept(Open(200));
  EXPECT_GE(kept, 30);
  EXPECT_LT(kept, 150);
  EXPECT_TRUE(Await([this] { return Kept(Open(1)) == 1; }));
  ExpectService();
}

TEST_F(AcceptorOfServer, ClosesHalfOpenConnections) {
  Start({"--handshake_timeout=200ms"});
  const size_t files = OpenFiles(server_->pid());
  const Connections silent = Open(100);
  for (size_t i = 0; i < silent.size(); i += 2) {
    // Half a preface.
    silent[i]->Send(http2::Preface().substr(0, 10));
  }
  for (const auto& connection : silent) {
    EXPECT_TRUE(connection->AwaitClosed(absl::Now() + absl::Minutes(1)));
  }
  EXPECT_TRUE(Await([&] { return OpenFiles(server_->pid()) <= files + 8; }));
}

TEST(HealthListener, SurvivesLackOfDescriptors) {
  constexpr rlim_t kFiles = 150;
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit limit = before;
  limit.rlim_cur = kFiles;
  setrlimit(RLIMIT_NOFILE, &limit);
  const ServerProcess server(
      {absl::StrCat("--listen=unix://", TempPath("beside.sock")),
       "--health_address=127.0.0.1:0", "--metrics_address=", "--store=none"});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const int port = server.AwaitPortOf("health");
  ASSERT_NE(port, 0) << server.Log();
  const std::string target = absl::StrCat("127.0.0.1:", port);
  const auto answers = [&target] {
    RawConnection connection(target);
    connection.Send(http2::Preface() + http2::SettingsAck());
    return connection.AwaitRead(absl::Now() + absl::Minutes(1));
  };
  {
    Connections many;
    for (rlim_t i = 0; i < 2 * kFiles; ++i) {
      many.push_back(std::make_unique<RawConnection>(target));
    }
    EXPECT_TRUE(Await([&] { return OpenFiles(server.pid()) > kFiles / 3; }));
  }
  EXPECT_TRUE(Await(answers));
}

std::set<int> Descriptors() {
  std::set<int> files;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    files.insert(std::atoi(entry->d_name));
  }
  closedir(directory);
  return files;
}

// The connected sockets of `family` that are open now and were not `before`.
std::vector<int> Connected(int family, const std::set<int>& before) {
  std::vector<int> found;
  for (const int fd : Descriptors()) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (before.count(fd) == 0 &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.ss_family == family) {
      found.push_back(fd);
    }
  }
  return found;
}

int IntOption(int fd, int level, int option) {
  int value = 0;
  socklen_t length = sizeof(value);
  getsockopt(fd, level, option, &value, &length);
  return value;
}

std::string Congestion(int fd) {
  char name[16] = {};
  socklen_t length = sizeof(name);
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  return name;
}

// The server runs in this process: one end of each connection is its own.
TEST(Acceptor, SetsSocketOptions) {
  ServerOptions options;
  options.transport.sockets = {.unix_send_buffer = 150'000,
                               .loopback_congestion = "reno"};
  options.transport.keepalive_timeout = absl::Seconds(7);
  RunningServer running(options);
  const std::set<int> before = Descriptors();
  RawConnection local(absl::StrCat("unix://", running.socket()));
  RawConnection tcp(absl::StrCat("127.0.0.1:", running.server().port(0)));
  for (RawConnection* connection : {&local, &tcp}) {
    connection->Send(http2::Preface() + http2::SettingsAck());
    EXPECT_TRUE(connection->AwaitRead(absl::Now() + absl::Minutes(1)));
  }
  int buffers = 0, tuned = 0;
  for (const int fd : Connected(AF_UNIX, before)) {
    // Linux doubles the size that is set.
    buffers += IntOption(fd, SOL_SOCKET, SO_SNDBUF) == 2 * 150'000;
  }
  for (const int fd : Connected(AF_INET, before)) {
    tuned += Congestion(fd) == "reno" &&
             IntOption(fd, IPPROTO_TCP, TCP_NODELAY) != 0 &&
             IntOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 7'000;
  }
  EXPECT_EQ(buffers, 1);
  EXPECT_EQ(tuned, 1);
}

TEST(Acceptor, IgnoresUnknownCongestionControl) {
  ServerOptions options;
  options.transport.sockets.loopback_congestion = "none-such";
  RunningServer running(options);
  EXPECT_EQ(running.Announce({{"::/0", 1}}), 1u);
}

// The server with these flags on a socket that any user may connect to.
class OpenServer : public ServerProcess {
 public:
  explicit OpenServer(std::vector<std::string> flags)
      : ServerProcess(With(std::move(flags))) {}
  // The server is killed and leaves its socket.
  ~OpenServer() { unlink(Socket().c_str()); }

  static std::string Socket() { return TempPath("peers.sock"); }

 private:
  static std::vector<std::string> With(std::vector<std::string> flags) {
    flags.insert(flags.end(), {absl::StrCat("--listen=unix://", Socket()),
                               "--unix_socket_mode=0666",
                               "--metrics_address=", "--store=none"});
    return flags;
  }
};

TEST(Peers, AreRefusedByUserAndGroup) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  const OpenServer server({"--peer_uids=4711", "--peer_gids=815"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const std::string path = OpenServer::Socket();
  EXPECT_EQ(ConnectAs(4711, 4711, path), "served");
  EXPECT_EQ(ConnectAs(4712, 815, path), "served");
  // The server keeps refusing, and serves other peers afterwards.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ConnectAs(815, 4711, path), "closed");
  }
  EXPECT_EQ(ConnectAs(0, 0, path), "closed");
  EXPECT_EQ(ConnectAs(4711, 0, path), "served");
  const std::string log = server.Log();
  EXPECT_TRUE(absl::StrContains(log, "peer accepted uid=4711 gid=4711 pid="))
      << log;
  EXPECT_TRUE(absl::StrContains(log, "peer refused uid=815 gid=4711 pid="))
      << log;
}

TEST(Peers, AreAllAdmittedWithoutRules) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  const OpenServer server({});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  EXPECT_EQ(ConnectAs(4711, 815, OpenServer::Socket()), "served");
}

TEST(Peers, OverTcpAreNotCheckedByUser) {
  const ServerProcess server({"--listen=127.0.0.1:0", "--peer_uids=0",
                              "--metrics_address=", "--store=none"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  EXPECT_TRUE(absl::StrContains(server.Log(),
                                "peer rules hold for Unix sockets only "
                                "not_for=127.0.0.1:0"))
      << server.Log();
}

}  // namespace
}  // namespace planb::server
