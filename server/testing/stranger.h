// SPDX-License-Identifier: Apache-2.0

// Another user of this machine who connects to a server's Unix socket.

#ifndef PLANB_SERVER_TESTING_STRANGER_H_
#define PLANB_SERVER_TESTING_STRANGER_H_

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace planb::server {

// As a child of this process, which must be root and have but one thread, as
// `uid` and `gid` and a member of no further group. What became of it:
// "served" if the server spoke, as one of HTTP/2 does first of all; "closed" if
// it hung up without a word; else the error of connect().
inline std::string ConnectAs(uid_t uid, gid_t gid, const std::string& path) {
  enum { kServed, kClosed, kSilence, kNoStranger, kErrors };
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(gid) != 0 || setuid(uid) != 0) {
      _exit(kNoStranger);
    }
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
      _exit(kErrors + std::min(errno, 200));
    }
    pollfd readable = {fd, POLLIN, 0};
    char first;
    if (poll(&readable, 1, 60'000) != 1) _exit(kSilence);
    _exit(recv(fd, &first, 1, 0) == 1 ? kServed : kClosed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return "crashed";
  switch (WEXITSTATUS(status)) {
    case kServed:
      return "served";
    case kClosed:
      return "closed";
    case kSilence:
      return "silence";
    case kNoStranger:
      return "cannot become another user";
    default:
      return std::strerror(WEXITSTATUS(status) - kErrors);
  }
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_STRANGER_H_
