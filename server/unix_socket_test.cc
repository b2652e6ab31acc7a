// Socket files as stat() shows them and as other users meet them. Ids such as
// 4711 need no account.

#include "server/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "server/testing/stranger.h"

namespace planb::server {
namespace {

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

TEST(SocketFileOptions, NameTheWrongFlag) {
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

// For as long as it lives.
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
  mode_t mode = 010000;  // none that a file has
  uid_t uid = 0;
  gid_t gid = 0;
};

// A socket as the server's come to be.
int Bind(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_TRUE(RestrictSocket(fd));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

TEST(UnixSocket, IsTheOwnersAloneFromTheMomentItIsBound) {
  const Umask all(0);
  const std::string path = TempPath("bound.sock");
  const int fd = Bind(path);
  EXPECT_EQ(File(path).mode, mode_t{0600});
  EXPECT_TRUE(OpenSocketFile(path, {.mode = 0666}).ok());
  EXPECT_EQ(File(path).mode, mode_t{0666});
  close(fd);
  unlink(path.c_str());
}

TEST(UnixSocket, RestrictsNoOtherSockets) {
  const int tcp = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_TRUE(RestrictSocket(tcp));
  close(tcp);
  EXPECT_FALSE(RestrictSocket(-1));
}

TEST(UnixSocket, LendsItsRightsToNoOtherFile) {
  const std::string secret = TempPath("secret");
  const std::string link = TempPath("link.sock");
  std::ofstream(secret) << "secret";
  chmod(secret.c_str(), 0400);
  ASSERT_EQ(symlink(secret.c_str(), link.c_str()), 0);
  for (const std::string& path : {secret, link, TempPath("missing")}) {
    const absl::Status status = OpenSocketFile(path, {.mode = 0666, .uid = 1});
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  }
  EXPECT_EQ(File(secret).mode, mode_t{0400});
  EXPECT_EQ(File(secret).uid, getuid());
  unlink(link.c_str());
  unlink(secret.c_str());
}

class SocketServer : public ServerProcess {
 public:
  explicit SocketServer(std::vector<std::string> flags)
      : ServerProcess(With(std::move(flags))) {}
  ~SocketServer() { unlink(Socket().c_str()); }  // or it would be seen next

  static std::string Socket() { return TempPath("served.sock"); }

 private:
  static std::vector<std::string> With(std::vector<std::string> flags) {
    flags.insert(flags.end(), {absl::StrCat("--listen=unix://", Socket()),
                               "--metrics_address=", "--store=none"});
    return flags;
  }
};

TEST(UnixSocket, HasTheModeAskedForWhateverTheUmask) {
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
  // Every mode that can be seen from the birth of the file on. The tries see
  // different moments; the test above is the one that cannot miss any.
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

TEST(UnixSocket, LetsInWhomItsFileLets) {
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

TEST(UnixSocket, SaysWhatCannotBeDone) {
  if (getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string path = TempPath("kept.sock");
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(4711) != 0 || setuid(4711) != 0) _exit(2);
    const int fd = Bind(path);
    const absl::Status status = OpenSocketFile(path, {.uid = 0});
    close(fd);
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
  unlink(path.c_str());
}

}  // namespace
}  // namespace planb::server
