// The real server, and clients of other users. Ids such as 4711 need no
// account.

#include "server/peer_credentials.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "server/testing/stranger.h"

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
  explicit Pair(int domain) { socketpair(domain, SOCK_STREAM, 0, ends); }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2] = {-1, -1};
};

std::string Refusals(const PeerGate& gate) {
  return prometheus::TextSerializer().Serialize(gate.collectable()->Collect());
}

TEST(PeerGate, CountsWhatItRefuses) {
  const Pair self(AF_UNIX);
  PeerGate others({.uids = {getuid() + 1}, .gids = {getgid() + 1}});
  EXPECT_TRUE(
      absl::StrContains(Refusals(others), "planb_peers_refused_total 0"));
  EXPECT_FALSE(others.Admit(self.ends[0]));
  EXPECT_FALSE(others.Admit(self.ends[1]));
  EXPECT_TRUE(
      absl::StrContains(Refusals(others), "planb_peers_refused_total 2"));
  PeerGate own({.gids = {getgid()}});
  EXPECT_TRUE(own.Admit(self.ends[0]));
  EXPECT_TRUE(absl::StrContains(Refusals(own), "planb_peers_refused_total 0"));
}

TEST(PeerGate, CountsWhatWasDropped) {
  PeerGate gate({});
  EXPECT_TRUE(
      absl::StrContains(Refusals(gate), "planb_connections_dropped_total 0"));
  gate.Dropped(3);
  gate.Dropped(4);
  EXPECT_TRUE(
      absl::StrContains(Refusals(gate), "planb_connections_dropped_total 7"));
}

TEST(PeerGate, HasNoRuleForTcp) {
  const int tcp = socket(AF_INET, SOCK_STREAM, 0);
  PeerGate gate({.uids = {getuid() + 1}});
  EXPECT_TRUE(gate.Admit(tcp));
  close(tcp);
}

// The server with these flags on a socket that any user may connect to.
class OpenServer : public ServerProcess {
 public:
  explicit OpenServer(std::vector<std::string> flags)
      : ServerProcess(With(std::move(flags))) {}
  // It is killed, and leaves its socket.
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

TEST(PeerGate, KeepsOtherUsersOutOfTheServer) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  const OpenServer server({"--peer_uids=4711", "--peer_gids=815"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const std::string path = OpenServer::Socket();
  EXPECT_EQ(ConnectAs(4711, 4711, path), "served");
  EXPECT_EQ(ConnectAs(4712, 815, path), "served");
  // It goes on refusing, and serving after it refused.
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

TEST(PeerGate, LetsAnyoneInWithoutRules) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  const OpenServer server({});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  EXPECT_EQ(ConnectAs(4711, 815, OpenServer::Socket()), "served");
}

TEST(PeerGate, SaysWhatItDoesNotGuard) {
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
