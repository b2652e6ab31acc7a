// Stands between gRPC and the kernel where clients come in, and keeps from gRPC
// 1.51 what it does not survive:
// - an accept() that fails for want of files ends its listener for good
//   (CVE-2023-4785): here the connection is closed instead, and the listener
//   lives;
// - clients that open connections, or send frames that only make work, beyond
//   their credit, and header blocks without end: their connections are ended.
//
// gRPC has no hook for either, so this defines accept4, recvmsg, sendmsg and
// close (and accept_turns.h epoll_ctl), which the linker prefers to libc's in
// the whole process. They do as libc's do but for connections that were
// accepted after GuardConnections. Frames are looked at in plaintext only: of
// TLS, connections alone are counted.

#ifndef PLANB_SERVER_CONNECTION_GUARD_H_
#define PLANB_SERVER_CONNECTION_GUARD_H_

#include <cstddef>
#include <cstdint>

#include "server/http2_meter.h"

namespace planb::server {

struct GuardOptions {
  // Connections at once; 0: as many as there may be open files (but see
  // third_party/grpc_sockets, which keeps some of these for the server).
  uint32_t max_connections = 0;
  // What one peer (a process, by the Unix socket; an IPv4 address or IPv6 /64)
  // has to spend, and gets back each second; 0: nobody is counted. A frame that
  // only makes work costs 1, a call that is refused 5, a connection 10, one
  // that had to be ended 1,000.
  uint32_t peer_credit = 20'000;
  uint32_t peer_credit_per_second = 1'000;
  // Calls that a peer may have open, on all its connections. 0: any number.
  uint32_t peer_calls = 2'000;
  Http2Limits http2;
};

// For all connections accepted from now on, in the whole process. From any
// thread, and again with other options.
void GuardConnections(const GuardOptions& options);

// Since the process began.
struct GuardCounts {
  uint64_t open = 0;     // connections, now
  uint64_t refused = 0;  // closed when they came
  uint64_t ended = 0;    // for what they sent
};
GuardCounts CountGuarded();

}  // namespace planb::server

#endif  // PLANB_SERVER_CONNECTION_GUARD_H_
