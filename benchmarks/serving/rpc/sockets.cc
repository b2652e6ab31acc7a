#include "benchmarks/serving/rpc/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace planb::rpc {
namespace {

// One of the two kinds, as the system calls want it.
struct Name {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string path;  // of a Unix socket

  int family() const { return storage.ss_family; }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<Name> Parse(absl::string_view address) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", address,
                   "\" is neither \"unix:///path\" nor "
                   "\"a.b.c.d:port\""));
  Name name;
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    absl::ConsumePrefix(&path, "//");
    sockaddr_un un = {};
    un.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(un.sun_path)) return wrong;
    std::memcpy(un.sun_path, path.data(), path.size());
    std::memcpy(&name.storage, &un, sizeof(un));
    name.size = sizeof(un);
    name.path = std::string(path);
    return name;
  }
  const size_t colon = address.rfind(':');
  uint32_t port;
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  if (colon == address.npos ||
      inet_pton(AF_INET, std::string(address.substr(0, colon)).c_str(),
                &in.sin_addr) != 1 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return wrong;
  }
  in.sin_port = htons(static_cast<uint16_t>(port));
  std::memcpy(&name.storage, &in, sizeof(in));
  name.size = sizeof(in);
  return name;
}

void SetBuffer(int fd, int forced, int option, int bytes) {
  // Only root may go beyond net.core.{w,r}mem_max.
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) == 0) return;
  setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes));
}

absl::Status Tune(const Socket& socket, const SocketOptions& options) {
  const int fd = socket.fd();
  SetBuffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options.buffer_bytes);
  SetBuffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options.buffer_bytes);
  int domain = 0;
  socklen_t size = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_UNIX) return absl::OkStatus();
  const int yes = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0) {
    return Failed("TCP_NODELAY");
  }
  if (!options.congestion.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(),
                 static_cast<socklen_t>(options.congestion.size())) != 0) {
    return Failed(absl::StrCat("congestion control ", options.congestion));
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> Open(const Name& name, const SocketOptions& options) {
  Socket socket(::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Failed("socket");
  const absl::Status tuned = Tune(socket, options);
  if (!tuned.ok()) return tuned;
  return socket;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Socket> ListenOn(absl::string_view address,
                                const SocketOptions& options) {
  const auto name = Parse(address);
  if (!name.ok()) return name.status();
  auto socket = Open(*name, options);
  if (!socket.ok()) return socket;
  if (name->path.empty()) {
    const int yes = 1;
    setsockopt(socket->fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  } else {
    unlink(name->path.c_str());
  }
  if (bind(socket->fd(), name->get(), name->size) != 0 ||
      listen(socket->fd(), SOMAXCONN) != 0) {
    return Failed(absl::StrCat("cannot listen on ", address));
  }
  return socket;
}

absl::StatusOr<Socket> Accept(const Socket& listener,
                              const SocketOptions& options) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.fd() < 0) return Failed("accept");
  const absl::Status tuned = Tune(socket, options);
  if (!tuned.ok()) return tuned;
  return socket;
}

absl::StatusOr<Socket> ConnectTo(absl::string_view address,
                                 const SocketOptions& options) {
  const auto name = Parse(address);
  if (!name.ok()) return name.status();
  auto socket = Open(*name, options);
  if (!socket.ok()) return socket;
  if (connect(socket->fd(), name->get(), name->size) != 0) {
    return Failed(absl::StrCat("cannot connect to ", address));
  }
  return socket;
}

int LocalPort(const Socket& socket) {
  sockaddr_in in = {};
  socklen_t size = sizeof(in);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&in), &size) != 0 ||
      in.sin_family != AF_INET) {
    return 0;
  }
  return ntohs(in.sin_port);
}

int SendBuffer(const Socket& socket) {
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  getsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, &size);
  return bytes;
}

std::string Congestion(const Socket& socket) {
  char name[16] = {};
  socklen_t size = sizeof(name);
  if (getsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) {
    return "";
  }
  return std::string(name, strnlen(name, size));
}

}  // namespace planb::rpc
