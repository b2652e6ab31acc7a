// Which addresses other hosts can reach, and whose socket files are taken away.
// Binding them is in main_test.cc.

#include "server/listen.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

TEST(CheckPlaintext, AllowsWhatStaysOnThisHost) {
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

TEST(CheckPlaintext, RefusesWhatOtherHostsReach) {
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

TEST(CheckPlaintext, LeavesWhatIsNoAddressToOthers) {
  EXPECT_TRUE(CheckPlaintext({"nonsense", "", "host:port", ":1"}).ok());
}

// A socket file that somebody made, and listens on or not.
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

TEST(PrepareListenAddress, KnowsNoSchemesButOurs) {
  for (const char* address : {"127.0.0.1:0", "localhost:1", "[::1]:65535"}) {
    EXPECT_TRUE(PrepareListenAddress(address).ok()) << address;
  }
  for (const char* address :
       {"unix:/tmp/a:1", "unix-abstract:a:1", "vsock:1:1", "ipv4:127.0.0.1:1",
        "::1:50051", "localhost", ":1", "localhost:65536"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PrepareListenAddress(address)))
        << address;
  }
}

TEST(PrepareListenAddress, TakesAwayASocketThatNobodyListensOn) {
  const SocketFile dead;
  EXPECT_EQ(UnixSocketPath(SocketFile::address()), SocketFile::path());
  EXPECT_TRUE(PrepareListenAddress(SocketFile::address()).ok());
  EXPECT_FALSE(SocketFile::Exists());
}

TEST(PrepareListenAddress, LeavesALivingServersSocket) {
  SocketFile alive;
  alive.Listen();
  const absl::Status status = PrepareListenAddress(SocketFile::address());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "another server")) << status;
  EXPECT_TRUE(SocketFile::Exists());
}

TEST(PrepareListenAddress, LeavesASocketThatItMayNotLookAt) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const SocketFile roots;
  chmod(SocketFile::path().c_str(), 0600);
  const std::string address = SocketFile::address();
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(4711) != 0 || setuid(4711) != 0) _exit(2);
    const absl::Status status = PrepareListenAddress(address);
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

}  // namespace
}  // namespace planb::server
