// SPDX-License-Identifier: Apache-2.0

#include "base/socket_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "absl/strings/strip.h"

namespace planb {

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

bool IsLoopbackHost(absl::string_view host) {
  if (host == "localhost") return true;
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return false;
  }
  const std::string text(host);
  in_addr v4 = {};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr v6 = {};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

void SetUnixSendBuffer(int fd, const SocketOptions& options) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  if (options.unix_send_buffer > 0 &&
      getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
      domain == AF_UNIX) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options.unix_send_buffer,
               sizeof(options.unix_send_buffer));
  }
}

void SetLoopbackCongestion(int fd, const SocketOptions& options) {
  if (options.loopback_congestion.empty()) return;
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION,
             options.loopback_congestion.data(),
             static_cast<socklen_t>(options.loopback_congestion.size()));
}

}  // namespace planb
