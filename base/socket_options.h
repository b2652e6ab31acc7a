// SPDX-License-Identifier: Apache-2.0

// Options of connected sockets for fast lookups.
//
// Two defaults of Linux cost lookups a third of their throughput. The send
// buffer of a Unix socket is 208 KiB: a batch of 16,384 addresses does not fit,
// and each message takes several wake-ups. And a congestion control such as BBR
// paces even loopback.

#ifndef PLANB_BASE_SOCKET_OPTIONS_H_
#define PLANB_BASE_SOCKET_OPTIONS_H_

#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"

namespace planb {

struct SocketOptions {
  // SO_SNDBUF of Unix sockets in bytes (net.core.wmem_max bounds it); 0 leaves
  // the host's default. TCP sizes its buffers by itself.
  int unix_send_buffer = 1 << 20;
  // TCP_CONGESTION of connections within this host; empty leaves the host's
  // default. A kernel that does not offer the algorithm leaves it as well.
  std::string loopback_congestion = "cubic";
};

// True for 127.0.0.0/8, for these addresses mapped into IPv6, and for ::1.
bool IsLoopback(const sockaddr_storage& address);

// True for an address in 127.0.0.0/8, ::1, in brackets or not, and "localhost".
// Any other name may resolve to another host.
bool IsLoopbackHost(absl::string_view host);

// Sets SO_SNDBUF of a Unix socket, connected or not. Does nothing for other
// sockets or if the kernel refuses.
void SetUnixSendBuffer(int fd, const SocketOptions& options);

// Sets TCP_CONGESTION of a TCP socket. REQUIRES: its peer is on this host.
void SetLoopbackCongestion(int fd, const SocketOptions& options);

}  // namespace planb

#endif  // PLANB_BASE_SOCKET_OPTIONS_H_
