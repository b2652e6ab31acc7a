// SPDX-License-Identifier: Apache-2.0

// A connection to a server's Unix socket by another user of the machine.

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

// Connects in a child process with `uid`, `gid` and no further group. Returns
// "served" if the server sent a byte, as an HTTP/2 server does first of all;
// "closed" if it closed the connection before; else the error of connect().
// REQUIRES: this process is root's and has one thread.
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
