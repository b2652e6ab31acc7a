// The guard before a real server: listeners outlive a lack of files, half-open
// connections end, and who has used up what is his is sent away.

#include "server/connection_guard.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/testing/attacked_server.h"
#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

using http2::RawConnection;
using Connections = std::vector<std::unique_ptr<RawConnection>>;

class ConnectionGuard : public testing::Test {
 protected:
  // A server that may have `files` open files, if not 0.
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

  // How many of them the server keeps: it talks to them, or is silent for a
  // while.
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

  const std::string target_ = absl::StrCat("unix://", TempPath("guarded.sock"));
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(ConnectionGuard, ListenersOutliveALackOfFiles) {
  constexpr int kFiles = 200;
  Start({}, kFiles);
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
  EXPECT_EQ(server_->Log().find("accept4"), std::string::npos)
      << server_->Log();
}

// As many files as this process may still open.
class AllFiles {
 public:
  AllFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, 1024);
    setrlimit(RLIMIT_NOFILE, &limit);
    TakeTheRest();
  }
  ~AllFiles() {
    for (const int file : files_) close(file);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  void TakeTheRest() {
    for (int file; (file = dup(STDERR_FILENO)) >= 0;) files_.push_back(file);
  }
  // By the guard's close, which this process has too.
  void GiveUpOne() {
    close(files_.back());
    files_.pop_back();
  }

 private:
  rlimit before_ = {};
  std::vector<int> files_;
};

// The guard's own, in this process. The spare file is lost as when another
// thread takes its number: there is none to be had when it is to be opened.
TEST(SpareFile, ComesBack) {
  const std::string path = TempPath("spare.sock");
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  ASSERT_EQ(bind(listener, raw, sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 10), 0);
  const auto connects = [&] {
    const int client = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(connect(client, raw, sizeof(address)), 0);
    return client;
  };
  const int first = connects(), second = connects();
  // Turned away, as each is if there is a spare file, and only then.
  const auto refuses = [&] {
    const uint64_t before = CountGuarded().refused;
    EXPECT_EQ(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), -1);
    EXPECT_EQ(errno, EAGAIN);
    return CountGuarded().refused - before;
  };
  {
    AllFiles files;
    GuardConnections({});
    EXPECT_EQ(refuses(), 0U);
    files.GiveUpOne();  // at once the spare one
    files.TakeTheRest();
    EXPECT_EQ(refuses(), 2U);
  }
  for (const int file : {first, second, listener}) close(file);
  unlink(path.c_str());
}

TEST_F(ConnectionGuard, ConnectionsAreBounded) {
  Start({"--max_connections=50"});
  {
    const int kept = Kept(Open(100));
    EXPECT_GT(kept, 40);
    EXPECT_LE(kept, 50);
  }
  ExpectService();
}

TEST_F(ConnectionGuard, WhoHasUsedUpHisCreditIsSentAway) {
  // 10 for a connection: this process has some, and soon no more.
  Start({"--peer_credit=500", "--peer_credit_per_second=1"});
  EXPECT_LE(Kept(Open(100)), 50);
  RawConnection one(target_);
  EXPECT_TRUE(one.AwaitClosed(absl::Now() + absl::Minutes(1)));
}

TEST_F(ConnectionGuard, CreditComesBack) {
  Start({"--peer_credit=500", "--peer_credit_per_second=500"});
  Open(200);
  ExpectService();
}

TEST_F(ConnectionGuard, ResetsEndTheirConnection) {
  Start({"--peer_credit=2000", "--peer_credit_per_second=1"});
  RawConnection connection(target_);
  ASSERT_TRUE(connection.Send(http2::Preface() + http2::SettingsAck()));
  std::string resets;
  for (uint32_t i = 0; i < 300; ++i) {
    resets += http2::OpenCall(2 * i + 1, "/planb.v1.RouteLookup/BatchLookup") +
              http2::RstStream(2 * i + 1);
  }
  connection.Send(resets);
  EXPECT_TRUE(connection.AwaitClosed(absl::Now() + absl::Minutes(1)));
}

TEST_F(ConnectionGuard, CallsOfAPeerAreBounded) {
  Start({"--peer_calls=150"});
  const auto open = [](RawConnection& connection) {
    std::string calls = http2::Preface() + http2::SettingsAck();
    for (uint32_t i = 0; i < 100; ++i) {
      calls += http2::OpenCall(2 * i + 1, "/planb.v1.RouteLookup/BatchLookup");
    }
    return connection.Send(calls);
  };
  {
    RawConnection first(target_), second(target_);
    EXPECT_TRUE(open(first));
    // Else the server might read both at once, or the second one first.
    EXPECT_TRUE(first.AwaitRead(absl::Now() + absl::Minutes(1)));
    open(second);
    EXPECT_TRUE(second.AwaitClosed(absl::Now() + absl::Minutes(1)));
    EXPECT_TRUE(first.AwaitRead(absl::Now() + absl::Minutes(1)));
  }
  // As soon as the server has seen that they are gone.
  EXPECT_TRUE(Await([this] {
    HonestClient honest(target_);
    EXPECT_TRUE(
        Await([&] { return honest.answered() > 10 || honest.failed(); }));
    return !honest.failed();
  }));
}

// A call that is refused at once ends by trailers and a reset: no more than one
// call, however the server says so.
TEST_F(ConnectionGuard, RefusedCallsMakeNoRoomForOthers) {
  Start({"--peer_calls=20"});
  RawConnection connection(target_);
  ASSERT_TRUE(connection.Send(http2::Preface() + http2::SettingsAck()));
  for (uint32_t i = 0; i < 60 && connection.open(); ++i) {
    connection.Send(
        http2::OpenCall(4 * i + 1, "/planb.v1.RouteLookup/BatchLookup") +
        http2::OpenCall(4 * i + 3, "/no.Such/Method"));
    connection.AwaitRead(absl::Now() + absl::Minutes(1));
  }
  EXPECT_TRUE(connection.AwaitClosed(absl::Now() + absl::Minutes(1)));
}

// Frames for which the server resets a call cost as if the client had.
TEST_F(ConnectionGuard, CallsThatTheServerHasToResetEndTheirConnection) {
  Start({"--peer_credit=1000", "--peer_credit_per_second=1"});
  RawConnection connection(target_);
  ASSERT_TRUE(connection.Send(http2::Preface() + http2::SettingsAck()));
  constexpr uint8_t kPadded = 0x8;  // which gRPC refuses in DATA
  for (uint32_t i = 0; i < 1000 && connection.open(); ++i) {
    connection.Send(
        http2::OpenCall(2 * i + 1, "/planb.v1.RouteLookup/BatchLookup") +
        Frame(http2::kData, kPadded, 2 * i + 1, "12345"));
    if (i % 50 == 49) {
      connection.AwaitRead(absl::Now() + absl::Seconds(10));
    }
  }
  EXPECT_TRUE(connection.AwaitClosed(absl::Now() + absl::Minutes(1)));
}

// Errors are cheap to ask for; who asks for nothing else pays for them.
TEST_F(ConnectionGuard, RefusedCallsEndTheirConnection) {
  Start({"--peer_credit=2000", "--peer_credit_per_second=1"});
  const auto call = [](RawConnection& connection, uint32_t stream,
                       absl::string_view path) {
    connection.Send(
        http2::OpenCall(stream, path) +
        Frame(http2::kData, http2::kEndStream, stream, http2::Message("")));
    connection.AwaitRead(absl::Now() + absl::Minutes(1));
  };
  RawConnection honest(target_), hostile(target_);
  for (RawConnection* const connection : {&honest, &hostile}) {
    ASSERT_TRUE(connection->Send(http2::Preface() + http2::SettingsAck()));
  }
  // Each call here costs a ping, which is AwaitRead's; refused, five more.
  for (uint32_t i = 0; i < 600; ++i) {
    call(honest, 2 * i + 1, "/planb.v1.RouteTable/ListTables");
  }
  EXPECT_TRUE(honest.AwaitRead(absl::Now() + absl::Minutes(1)));
  for (uint32_t i = 0; i < 600 && hostile.open(); ++i) {
    call(hostile, 2 * i + 1, "/no.Such/Method");
  }
  // The answers may come late, and what they cost is asked for with the next
  // that is sent: a few pings, too few to be cut off for.
  for (int i = 0; i < 100 && hostile.open(); ++i) {
    absl::SleepFor(absl::Milliseconds(i));
    hostile.AwaitRead(absl::Now() + absl::Minutes(1));
  }
  EXPECT_FALSE(hostile.open());
}

// What a connection owes is not forgotten when it ends: who reads its answers
// and sends no more has to pay as well.
TEST_F(ConnectionGuard, WhoLeavesOwes) {
  Start({"--peer_credit=1000", "--peer_credit_per_second=1"});
  const auto refused = [this](uint32_t calls) {
    RawConnection connection(target_);
    std::string octets = http2::Preface() + http2::SettingsAck();
    for (uint32_t i = 0; i < calls; ++i) {
      octets +=
          http2::OpenCall(2 * i + 1, "/no.Such/Method") +
          Frame(http2::kData, http2::kEndStream, 2 * i + 1, http2::Message(""));
    }
    connection.Send(octets);
    // Until it is answered or turned away; then no more is sent.
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (connection.open() && connection.Drop() < 12 * calls &&
           absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return !connection.open();
  };
  // Each costs a connection and 90 calls, 460; forgotten, it would be ten.
  int rounds = 0;
  while (rounds < 20 && !refused(90)) ++rounds;
  EXPECT_GE(rounds, 2);
  EXPECT_LE(rounds, 6);
}

// Hosts of one network, as an IPv6 listener sees them.
TEST_F(ConnectionGuard, NeighboursKeepTheirCredit) {
  Start({"--peer_credit=100", "--peer_credit_per_second=1",
         absl::StrCat("--listen=", target_, ",127.0.0.1:0")});
  const int port = server_->PortOf("127.0.0.1:0");
  ASSERT_NE(port, 0) << server_->Log();
  const auto open = [port](int count, int host) {
    Connections connections;
    for (int i = 0; i < count; ++i) {
      connections.push_back(std::make_unique<RawConnection>(
          absl::StrCat("127.0.0.1:", port), absl::StrCat("127.0.0.", host)));
    }
    return connections;
  };
  EXPECT_LE(Kept(open(30, 1)), 10);
  int kept = 0;
  for (int host = 2; host < 12; ++host) kept += Kept(open(1, host));
  EXPECT_GE(kept, 8);  // by chance, one may share the first one's account
}

TEST_F(ConnectionGuard, HalfOpenConnectionsEnd) {
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

}  // namespace
}  // namespace planb::server
