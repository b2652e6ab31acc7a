// SPDX-License-Identifier: Apache-2.0

#include "server/observe/http_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb::server {
namespace {

constexpr int kBacklog = 64;
constexpr absl::string_view kAnyV6 = "[::]";

absl::Status NoAddress(absl::string_view address) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address,
                   "\" is no address for metrics; expected IPv4:PORT or "
                   "[IPv6]:PORT, such as 0.0.0.0:9464 or [::]:9464"));
}

// An IPv4 or IPv6 address, in memory that is large enough for both.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

absl::StatusOr<SocketAddress> Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return NoAddress(text);
  const absl::string_view port_text = text.substr(colon + 1);
  absl::string_view host = text.substr(0, colon);
  int port = 0;
  if (port_text.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(port_text, &port) || port > 65535) {
    return NoAddress(text);
  }
  const bool brackets =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  const in_port_t network_port = htons(static_cast<in_port_t>(port));
  const std::string name(host);
  SocketAddress address;
  if (brackets) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = network_port;
    address.size = sizeof(*v6);
    if (inet_pton(AF_INET6, name.c_str(), &v6->sin6_addr) == 1) return address;
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = network_port;
    address.size = sizeof(*v4);
    if (inet_pton(AF_INET, name.c_str(), &v4->sin_addr) == 1) return address;
  }
  return NoAddress(text);
}

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// -1 and errno if it cannot be bound.
int Listen(SocketAddress& where) {
  const bool v6 = where.storage.ss_family == AF_INET6;
  const int listener = socket(where.storage.ss_family,
                              SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  // Binds also while connections of an earlier server are in TIME_WAIT.
  Set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (v6) Set(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(listener, where.raw(), where.size) == 0 &&
      listen(listener, kBacklog) == 0) {
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<int> ListenHttp(const std::string& address) {
  absl::StatusOr<SocketAddress> where = Parse(address);
  if (!where.ok()) return where.status();
  int listener = Listen(*where);
  if (listener < 0 && absl::StartsWith(address, kAnyV6)) {
    // The host has no IPv6.
    where = Parse(absl::StrCat("0.0.0.0", address.substr(kAnyV6.size())));
    listener = Listen(*where);
  }
  if (listener >= 0) return listener;
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address, " for metrics: ", std::strerror(errno)));
}

absl::Status CheckHttpAddress(absl::string_view address) {
  return Parse(address).status();
}

int PortOf(int socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (getsockname(socket, address.raw(), &address.size) != 0) return 0;
  // The port has the same offset in both families.
  static_assert(offsetof(sockaddr_in, sin_port) ==
                offsetof(sockaddr_in6, sin6_port));
  return ntohs(reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace planb::server
