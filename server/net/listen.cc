// SPDX-License-Identifier: Apache-2.0

#include "server/net/listen.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/socket_options.h"
#include "lpm/address.h"

namespace planb::server {
namespace {

constexpr absl::string_view kUnixScheme = "unix://";
// The kernel bounds it by net.core.somaxconn.
constexpr int kBacklog = 65535;

absl::Status UnixError(absl::string_view path, absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(kUnixScheme, path, ": ", what));
}

// The same with the text of errno.
absl::Status UnixErrno(absl::string_view path, absl::string_view what) {
  return UnixError(path, absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<sockaddr_un> UnixAddress(absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] != '/' ||
      path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kUnixScheme, path, ": needs an absolute path of at most ",
                     sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// An error that names the directory of `path` if no socket can be made there.
// bind() would not name it.
absl::Status CheckDirectory(absl::string_view path) {
  const std::string directory(path.substr(0, path.rfind('/') + 1));
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return UnixErrno(path, directory);
}

// Removes the socket file of a killed server, because bind() fails while it
// exists. Leaves the socket of a running server and any file that is no socket
// (connect() fails with the same error for it as for a dead server's socket).
absl::Status RemoveDeadSocket(const sockaddr_un& address) {
  const absl::string_view path = address.sun_path;
  struct stat file;
  if (lstat(address.sun_path, &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kUnixScheme, path, ": exists and is no socket"));
  }
  // Non-blocking: the full queue of a stopped server would block forever.
  const int probe =
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return absl::ErrnoToStatus(errno, "socket");
  const int connected = connect(
      probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  close(probe);
  if (connected == 0 || error == EAGAIN) {
    return UnixError(path, "another server listens there");
  }
  if (error != ECONNREFUSED) {
    errno = error;
    return UnixErrno(path, "cannot tell whether another server listens there");
  }
  unlink(address.sun_path);
  return absl::OkStatus();
}

// Sets the owner and then the mode of a bound socket's file. `found` is set to
// its attributes. Works on a descriptor of the file, so that a link in its
// place is not followed.
absl::Status SetSocketFile(const std::string& path,
                           const SocketFileOptions& options,
                           struct stat& found) {
  const int file = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return UnixErrno(path, "cannot find the socket");
  const absl::Cleanup close_file = [file] { close(file); };
  if (fstat(file, &found) != 0) {
    return UnixErrno(path, "cannot look at the socket");
  }
  if (!S_ISSOCK(found.st_mode)) {
    return UnixError(path, "was replaced while starting");
  }
  constexpr uint32_t kAsItIs = std::numeric_limits<uint32_t>::max();
  const uid_t uid = options.uid.value_or(kAsItIs);
  const gid_t gid = options.gid.value_or(kAsItIs);
  if ((uid != kAsItIs || gid != kAsItIs) &&
      fchownat(file, "", uid, gid, AT_EMPTY_PATH) != 0) {
    return UnixErrno(path, "cannot change the owner");
  }
  // fchmod() refuses an O_PATH descriptor. Without /proc only the path is left.
  const std::string by_descriptor = absl::StrCat("/proc/self/fd/", file);
  if (chmod(by_descriptor.c_str(), options.mode) != 0 &&
      (errno != ENOENT || chmod(path.c_str(), options.mode) != 0)) {
    return UnixErrno(path,
                     absl::StrFormat("cannot set mode %04o", options.mode));
  }
  return absl::OkStatus();
}

struct TcpAddress {
  absl::string_view host;  // without brackets
  absl::string_view port;
};

bool IsPort(absl::string_view text) {
  int port = 0;
  return text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

// Splits HOST:PORT, in which the host may be in brackets. False if malformed.
bool SplitTcpAddress(absl::string_view address, absl::string_view& host,
                     absl::string_view& port) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  host = address.substr(0, colon);
  port = address.substr(colon + 1);
  return IsPort(port);
}

// Reads HOST:PORT. The result refers to `address`.
absl::StatusOr<TcpAddress> ParseTcpAddress(absl::string_view address) {
  absl::string_view host, port;
  const bool tcp = SplitTcpAddress(address, host, port);
  const bool brackets =
      tcp && host.size() > 2 && host.front() == '[' && host.back() == ']';
  // A colon outside brackets belongs to a scheme, such as "unix:/a:1".
  if (!tcp || (!brackets && absl::StrContains(host, ':')) ||
      absl::StrContains(host, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address,
                     "\" is no address to listen on; expected unix:///PATH or "
                     "HOST:PORT"));
  }
  if (brackets) host = host.substr(1, host.size() - 2);
  return TcpAddress{host, port};
}

absl::Status CannotListen(absl::string_view address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// The addresses of `host`, a name or an address. Empty: the wildcard addresses.
absl::StatusOr<Addresses> Resolve(absl::string_view address,
                                  const std::string& host,
                                  const std::string& port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                port.c_str(), &hints, &list);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  return Addresses(list);
}

in_port_t& PortOf(sockaddr_storage& address) {
  return address.ss_family == AF_INET6
             ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
             : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

// Returns a listening socket, or a negative number and sets errno. With `both`,
// an IPv6 socket accepts IPv4 as well.
int ListenTcp(const addrinfo& to, int port, bool both) {
  const int fd = socket(
      to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (fd < 0) return fd;
  sockaddr_storage address = {};
  std::memcpy(&address, to.ai_addr, to.ai_addrlen);
  if (port > 0) PortOf(address) = htons(static_cast<in_port_t>(port));
  const int yes = 1, only_v6 = both ? 0 : 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (to.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6));
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), to.ai_addrlen) ==
          0 &&
      listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int BoundPort(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(PortOf(address));
}

std::optional<mode_t> ParseMode(absl::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  mode_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    mode = mode * 8 + static_cast<mode_t>(c - '0');
  }
  return mode <= 0777 ? std::optional(mode) : std::nullopt;
}

std::optional<uint32_t> ParseId(absl::string_view text) {
  uint32_t id = 0;
  // The largest number means "do not change" to chown().
  if (!absl::SimpleAtoi(text, &id) ||
      id == std::numeric_limits<uint32_t>::max()) {
    return std::nullopt;
  }
  return id;
}

}  // namespace

bool IsUnixAddress(absl::string_view address) {
  return absl::StartsWith(address, kUnixScheme);
}

absl::string_view UnixSocketPath(absl::string_view address) {
  return address.substr(kUnixScheme.size());
}

absl::Status CheckAddress(absl::string_view address) {
  return IsUnixAddress(address) ? UnixAddress(UnixSocketPath(address)).status()
                                : ParseTcpAddress(address).status();
}

absl::Status CheckPlaintext(absl::Span<const std::string> addresses) {
  for (const std::string& address : addresses) {
    absl::string_view host, port;
    if (!IsUnixAddress(address) && SplitTcpAddress(address, host, port) &&
        !IsLoopbackHost(host)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "will not listen on ", address,
          " in plaintext, for other hosts can reach it: give --tls_cert and "
          "--tls_key, or --insecure if that is what you want"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketFileOptions> ParseSocketFileOptions(
    absl::string_view mode, absl::string_view owner) {
  SocketFileOptions options;
  const std::optional<mode_t> bits = ParseMode(mode);
  if (!bits.has_value() || (*bits & S_IWUSR) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--unix_socket_mode: \"", mode,
                     "\" is no octal mode, such as 0660, that lets the owner "
                     "write"));
  }
  options.mode = *bits;
  if (owner.empty()) return options;
  const std::vector<absl::string_view> ids = absl::StrSplit(owner, ':');
  options.uid = ParseId(ids.front());
  if (ids.size() == 2) options.gid = ParseId(ids.back());
  if (ids.size() > 2 || !options.uid.has_value() ||
      (ids.size() == 2 && !options.gid.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--unix_socket_owner: \"", owner, "\" is not UID[:GID] in numbers"));
  }
  return options;
}

absl::StatusOr<Listener> Listener::Open(const std::string& address,
                                        const SocketFileOptions& file) {
  Listener listener;
  const absl::Status status =
      IsUnixAddress(address) ? listener.OpenUnix(UnixSocketPath(address), file)
                             : listener.OpenTcp(address);
  if (!status.ok()) return status;
  return listener;
}

Listener& Listener::operator=(Listener&& other) noexcept {
  Close();
  sockets_ = std::exchange(other.sockets_, {});
  port_ = other.port_;
  path_ = std::exchange(other.path_, {});
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

absl::Status Listener::OpenUnix(absl::string_view path,
                                const SocketFileOptions& file) {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(path);
  if (!address.ok()) return address.status();
  absl::Status status = CheckDirectory(path);
  if (status.ok()) status = RemoveDeadSocket(*address);
  if (!status.ok()) return status;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return UnixErrno(path, "socket");
  sockets_.push_back(fd);
  // bind() gives the file the mode of the socket, less the umask. So the file
  // is for the owner alone until it gets its final mode.
  if (fchmod(fd, S_IRUSR | S_IWUSR) != 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&*address),
           sizeof(*address)) != 0) {
    return UnixErrno(path, "cannot bind");
  }
  struct stat found = {};
  status = SetSocketFile(std::string(path), file, found);
  if (S_ISSOCK(found.st_mode)) {
    path_ = std::string(path);
    device_ = found.st_dev;
    inode_ = found.st_ino;
  }
  if (!status.ok()) return status;
  if (listen(fd, kBacklog) != 0) return UnixErrno(path, "cannot listen");
  return absl::OkStatus();
}

absl::Status Listener::OpenTcp(absl::string_view address) {
  const absl::StatusOr<TcpAddress> tcp = ParseTcpAddress(address);
  if (!tcp.ok()) return tcp.status();
  const auto& [host, port] = *tcp;
  const auto parsed = Address::Parse(host);
  static const Address kAnyV6 = *Address::Parse("::");
  static const Address kAnyV4 = *Address::Parse("0.0.0.0");
  const bool wildcard = parsed.ok() && (*parsed == kAnyV6 || *parsed == kAnyV4);
  const absl::StatusOr<Addresses> addresses =
      Resolve(address, wildcard ? "" : std::string(host), std::string(port));
  if (!addresses.ok()) return addresses.status();
  const bool any_port = port == "0";
  int error = EADDRNOTAVAIL;
  // A wildcard address is one socket: of IPv6, for both families, if possible.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* to = addresses->get(); to != nullptr;
         to = to->ai_next) {
      if (to->ai_family != family || (wildcard && !sockets_.empty())) continue;
      const int fd = ListenTcp(*to, port_, wildcard);
      if (fd < 0) {
        error = errno;
        // A name may have addresses that this host lacks. But an address that
        // another server has is an error.
        if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT || any_port) {
          continue;
        }
        return CannotListen(address, std::strerror(error));
      }
      sockets_.push_back(fd);
      port_ = BoundPort(fd);
    }
  }
  return sockets_.empty() ? CannotListen(address, std::strerror(error))
                          : absl::OkStatus();
}

void Listener::Close() {
  for (const int fd : sockets_) close(fd);
  sockets_.clear();
  struct stat found;
  if (!path_.empty() && lstat(path_.c_str(), &found) == 0 &&
      found.st_dev == device_ && found.st_ino == inode_) {
    unlink(path_.c_str());
  }
  path_.clear();
}

}  // namespace planb::server
