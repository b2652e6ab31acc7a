#include "server/listen.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::server {
namespace {

constexpr absl::string_view kUnixScheme = "unix://";

// Why a socket cannot be made in the directory of `path`, if it cannot.
absl::Status CheckDirectory(absl::string_view path) {
  const std::string directory(path.substr(0, path.rfind('/') + 1));
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("unix://", path, ": ", directory,
                                             ": ", std::strerror(errno)));
}

// A socket file that a killed server left behind would keep us from binding;
// one that somebody still answers on must not be taken away, and what is no
// socket never (connect() refuses it just like a dead server's socket).
absl::Status PrepareSocket(absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] != '/' ||
      path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unix://", path, ": needs an absolute path of at most ",
                     sizeof(address.sun_path) - 1, " octets"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const absl::Status directory = CheckDirectory(path);
  if (!directory.ok()) return directory;
  struct stat file;
  if (lstat(address.sun_path, &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unix://", path, ": exists and is no socket"));
  }
  // Not blocking: a stopped server's full queue would hold us up for ever.
  const int probe =
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return absl::ErrnoToStatus(errno, "socket");
  const int connected = connect(
      probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  close(probe);
  if (connected == 0 || error == EAGAIN) {
    return absl::UnavailableError(
        absl::StrCat("unix://", path, ": another server listens there"));
  }
  // gRPC would take away any other socket as well, alive or not.
  if (error != ECONNREFUSED) {
    return absl::UnavailableError(absl::StrCat(
        "unix://", path, ": cannot tell whether another server listens there: ",
        std::strerror(error)));
  }
  unlink(address.sun_path);
  return absl::OkStatus();
}

bool IsPort(absl::string_view text) {
  int port = 0;
  return text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

// Splits HOST:PORT, of which the host may be in brackets; false if it is none.
bool SplitTcpAddress(absl::string_view address, absl::string_view& host) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      !IsPort(address.substr(colon + 1))) {
    return false;
  }
  host = address.substr(0, colon);
  return true;
}

// A name other than "localhost" may lead anywhere, today or tomorrow.
bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return false;
  }
  const auto address = Address::Parse(host);
  if (!address.ok()) return false;
  static const Prefix kV4 = *Prefix::Parse("127.0.0.0/8");
  static const Address kV6 = *Address::Parse("::1");
  return *address == kV6 || kV4.Contains(*address);
}

}  // namespace

bool IsUnixAddress(absl::string_view address) {
  return absl::StartsWith(address, kUnixScheme);
}

absl::string_view UnixSocketPath(absl::string_view address) {
  return address.substr(kUnixScheme.size());
}

absl::Status PrepareListenAddress(absl::string_view address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, kUnixScheme)) return PrepareSocket(path);
  absl::string_view host;
  // An unbracketed colon in it is a scheme's: to gRPC "unix:/a:1" is a socket,
  // which would be ours to open.
  if (!SplitTcpAddress(address, host) ||
      (host.front() != '[' && absl::StrContains(host, ':'))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address,
                     "\" is no address to listen on; expected unix:///PATH or "
                     "HOST:PORT"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlaintext(absl::Span<const std::string> addresses) {
  for (const std::string& address : addresses) {
    absl::string_view host;
    if (!IsUnixAddress(address) && SplitTcpAddress(address, host) &&
        !IsLoopback(host)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "will not listen on ", address,
          " in plaintext, for other hosts can reach it: give --tls_cert and "
          "--tls_key, or --insecure if that is what you want"));
    }
  }
  return absl::OkStatus();
}

}  // namespace planb::server
