// SPDX-License-Identifier: Apache-2.0

// Which addresses other hosts can reach, which sockets are bound, which files
// are removed, and which users can connect to a Unix socket. Ids such as 4711
// need no account.

#include "server/net/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "server/testing/stranger.h"

namespace planb::server {
namespace {

TEST(CheckPlaintext, AllowsAddressesOfThisHost) {
  const std::vector<std::string> local = {
      "unix:///run/planb/planb.sock",
      "127.0.0.1:0",
      "127.1.2.3:50051",
      "localhost:50051",
      "[::1]:50051",
      "[0:0::1]:1",
      "unix:///a:50051",
  };
  EXPECT_TRUE(CheckPlaintext(local).ok()) << CheckPlaintext(local);
}

TEST(CheckPlaintext, RefusesAddressesOtherHostsReach) {
  for (const char* address :
       {"[::]:50051", "0.0.0.0:50051", "192.0.2.1:0", "[2001:db8::1]:50051",
        "planb.example:50051", "localhost.example:1", "127.0.0.1.example:1",
        "128.0.0.1:1", "[::ffff:192.0.2.1]:1", "[::ffff:127.0.0.1]:1",
        "ipv4:0.0.0.0:50051", "*:50051", "[::1:50051", "dns:///localhost:1",
        "[::1%lo]:1", "::1:50051x:1"}) {
    const absl::Status status = CheckPlaintext({"127.0.0.1:0", address});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_TRUE(absl::StrContains(status.message(), address)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "--insecure")) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  }
}

TEST(CheckPlaintext, IgnoresMalformedAddresses) {
  EXPECT_TRUE(CheckPlaintext({"nonsense", "", "host:port", ":1"}).ok());
}

// The socket file of another server, which may listen on it.
class SocketFile {
 public:
  SocketFile() : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
  }
  ~SocketFile() {
    close(fd_);
    unlink(path().c_str());
  }

  static std::string path() {
    return absl::StrCat("/tmp/planb_", getpid(), "_listen.sock");
  }
  static std::string address() { return absl::StrCat("unix://", path()); }
  static bool Exists() { return access(path().c_str(), F_OK) == 0; }

  void Listen() { EXPECT_EQ(listen(fd_, 1), 0); }

 private:
  const int fd_;
};

TEST(Listener, RefusesOtherSchemes) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "[::1]:0"}) {
    const auto listener = Listener::Open(address);
    EXPECT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(CheckAddress(address).ok()) << address;
  }
  for (const char* address :
       {"unix:/tmp/a:1", "unix-abstract:a:1", "vsock:1:1", "ipv4:127.0.0.1:1",
        "::1:50051", "localhost", ":1", "localhost:65536", "dns:///a:1", "",
        "unix://relative", "unix://"}) {
    const absl::Status refused = Listener::Open(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << address;
    EXPECT_EQ(CheckAddress(address), refused);
  }
  const absl::Status unknown =
      Listener::Open("no-such-host.invalid:1").status();
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  EXPECT_TRUE(CheckAddress("no-such-host.invalid:1").ok());
}

// True if a client can connect to the loopback address `ip` at `port`.
bool Reaches(const char* ip, int port) {
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<in_port_t>(port));
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  const bool is_v4 = inet_pton(AF_INET, ip, &v4.sin_addr) == 1;
  if (!is_v4) inet_pton(AF_INET6, ip, &v6.sin6_addr);
  const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
  const int connected =
      is_v4 ? connect(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4))
            : connect(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  close(fd);
  return connected == 0;
}

bool HasIpv6() {
  const auto listener = Listener::Open("[::1]:0");
  return listener.ok();
}

TEST(Listener, BindsAllAddressesOfItsName) {
  const bool v6 = HasIpv6();
  for (const auto& [address, on_v4, on_v6] :
       std::vector<std::tuple<const char*, bool, bool>>{
           {"127.0.0.1:0", true, false},
           {"[::1]:0", false, true},
           {"[::]:0", true, true},
           {"0.0.0.0:0", true, true}}) {
    const auto listener = Listener::Open(address);
    if (!listener.ok() && !v6) continue;
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(Reaches("127.0.0.1", listener->port()), on_v4) << address;
    if (v6) {
      EXPECT_EQ(Reaches("::1", listener->port()), on_v6) << address;
    }
  }
  const auto named = Listener::Open("localhost:0");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_TRUE(Reaches("127.0.0.1", named->port()) ||
              Reaches("::1", named->port()));
}

TEST(Listener, RefusesPortInUse) {
  const auto first = Listener::Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    const std::string address = absl::StrCat(host, ":", first->port());
    const absl::Status second = Listener::Open(address).status();
    EXPECT_TRUE(absl::IsUnavailable(second)) << second;
    EXPECT_TRUE(absl::StrContains(second.message(), address)) << second;
    EXPECT_TRUE(absl::StrContains(second.message(), "in use")) << second;
  }
}

TEST(Listener, RemovesDeadSocketFile) {
  const SocketFile dead;
  EXPECT_EQ(UnixSocketPath(SocketFile::address()), SocketFile::path());
  {
    const auto listener = Listener::Open(SocketFile::address());
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(listener->port(), 0);
    EXPECT_TRUE(SocketFile::Exists());
  }
  EXPECT_FALSE(SocketFile::Exists());
}

TEST(Listener, LeavesFileThatReplacedIt) {
  const std::string path = TempPath("taken.sock");
  {
    const auto listener = Listener::Open(absl::StrCat("unix://", path));
    ASSERT_TRUE(listener.ok()) << listener.status();
    unlink(path.c_str());
    std::ofstream(path) << "another";
  }
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(
      Listener::Open(absl::StrCat("unix://", path)).status()));
  unlink(path.c_str());
}

TEST(Listener, LeavesSocketOfRunningServer) {
  SocketFile alive;
  alive.Listen();
  const absl::Status status = Listener::Open(SocketFile::address()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "another server")) << status;
  EXPECT_TRUE(SocketFile::Exists());
}

TEST(Listener, LeavesSocketThatItMayNotConnectTo) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const SocketFile roots;
  chmod(SocketFile::path().c_str(), 0600);
  const std::string address = SocketFile::address();
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(4711) != 0 || setuid(4711) != 0) _exit(2);
    const absl::Status status = Listener::Open(address).status();
    _exit(absl::IsUnavailable(status) &&
                  absl::StrContains(status.message(), "Permission denied")
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(SocketFile::Exists());
}

TEST(SocketFileOptions, AreReadFromFlags) {
  const auto plain = ParseSocketFileOptions("0660", "");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->mode, mode_t{0660});
  EXPECT_EQ(plain->uid, std::nullopt);
  EXPECT_EQ(plain->gid, std::nullopt);
  const auto user = ParseSocketFileOptions("600", "7");
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(user->mode, mode_t{0600});
  EXPECT_EQ(user->uid, 7u);
  EXPECT_EQ(user->gid, std::nullopt);
  EXPECT_EQ(ParseSocketFileOptions("0777", "0:65532")->gid, 65532u);
}

TEST(SocketFileOptions, ErrorsNameTheFlag) {
  for (const char* mode :
       {"", "rw-rw----", "0888", "01777", "00660", "0x1b0", "0060", "-1"}) {
    const absl::Status status = ParseSocketFileOptions(mode, "").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << mode;
    EXPECT_TRUE(absl::StrContains(status.message(), "--unix_socket_mode"));
  }
  for (const char* owner :
       {"root", ":", "1:", ":1", "1:2:3", "-1", "4294967295", "1:4294967295"}) {
    const absl::Status status = ParseSocketFileOptions("0660", owner).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << owner;
    EXPECT_TRUE(absl::StrContains(status.message(), "--unix_socket_owner"));
  }
}

// Sets the umask for its lifetime.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  const mode_t before_;
};

struct File {
  explicit File(const std::string& path) {
    struct stat found;
    if (lstat(path.c_str(), &found) != 0) return;
    mode = found.st_mode & 07777;
    uid = found.st_uid;
    gid = found.st_gid;
  }
  mode_t mode = 010000;  // no file has it
  uid_t uid = 0;
  gid_t gid = 0;
};

class SocketServer : public ServerProcess {
 public:
  explicit SocketServer(std::vector<std::string> flags)
      : ServerProcess(With(std::move(flags))) {}
  ~SocketServer() {
    unlink(Socket().c_str());
  }  // or the next test would see it

  static std::string Socket() { return TempPath("served.sock"); }

 private:
  static std::vector<std::string> With(std::vector<std::string> flags) {
    flags.insert(flags.end(), {absl::StrCat("--listen=unix://", Socket()),
                               "--metrics_address=", "--store=none"});
    return flags;
  }
};

TEST(UnixSocket, HasItsModeUnderAnyUmask) {
  for (const mode_t mask : {0000, 0022, 0777}) {
    for (const auto& [flag, mode] : std::vector<std::pair<std::string, mode_t>>{
             {"--unix_socket_mode=0660", 0660},
             {"--unix_socket_mode=0606", 0606}}) {
      const Umask umask(mask);
      const SocketServer server({flag});
      ASSERT_TRUE(server.AwaitServing()) << server.Log();
      EXPECT_EQ(File(SocketServer::Socket()).mode, mode) << flag;
    }
  }
}

TEST(UnixSocket, IsForOwnerAndGroupByDefault) {
  const Umask all(0);
  // All modes seen since the file was made. The tries see different moments;
  // the test above does not depend on them.
  std::set<mode_t> modes;
  for (int i = 0; i < 3; ++i) {
    const SocketServer server({});
    while (!absl::StrContains(server.Log(), " serving\n")) {
      for (int look = 0; look < 200; ++look) {
        modes.insert(File(SocketServer::Socket()).mode);
      }
      ASSERT_FALSE(absl::StrContains(server.Log(), "planb_server:"))
          << server.Log();
    }
    EXPECT_EQ(File(SocketServer::Socket()).mode, mode_t{0660});
  }
  for (const mode_t mode : modes) {
    EXPECT_TRUE(mode == 010000 || mode == 0600 || mode == 0660)
        << std::oct << mode;
  }
}

TEST(UnixSocket, AdmitsUsersByModeOfFile) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  const std::string path = SocketServer::Socket();
  const SocketServer server(
      {"--unix_socket_owner=4711:815", "--unix_socket_mode=0660"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  EXPECT_EQ(File(path).uid, 4711u);
  EXPECT_EQ(File(path).gid, 815u);
  EXPECT_EQ(File(path).mode, mode_t{0660});
  EXPECT_EQ(ConnectAs(4711, 1, path), "served");
  EXPECT_EQ(ConnectAs(1, 815, path), "served");
  EXPECT_EQ(ConnectAs(815, 4711, path), "Permission denied");
}

TEST(UnixSocket, IsRemovedIfItsOwnerCannotBeSet) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string path = TempPath("kept.sock");
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(4711) != 0 || setuid(4711) != 0) _exit(2);
    const absl::Status status =
        Listener::Open(absl::StrCat("unix://", path), {.uid = 0}).status();
    _exit(status.message() ==
                  absl::StrCat("unix://", path,
                               ": cannot change the owner: Operation not "
                               "permitted")
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace planb::server
