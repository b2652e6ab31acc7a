// Options of the sockets of a channel.
//
// Two of the host's defaults cost lookups a third of their throughput. A Unix
// socket's send buffer is 208 KiB, so a batch of 16,384 addresses does not fit
// and each message takes several wake-ups. And a host may pick a congestion
// control, such as BBR, that paces even loopback. gRPC sets TCP_NODELAY itself.

#ifndef PLANB_CLIENT_SOCKET_OPTIONS_H_
#define PLANB_CLIENT_SOCKET_OPTIONS_H_

#include <grpcpp/support/channel_arguments.h>

#include <string>

namespace planb::client {

struct SocketOptions {
  // SO_SNDBUF of Unix sockets in bytes (net.core.wmem_max bounds it); 0 leaves
  // the host's default. TCP sizes its buffers by itself.
  int unix_send_buffer = 1 << 20;
  // TCP_CONGESTION of all TCP sockets, if the kernel offers it; empty leaves
  // the host's default. A socket gets it before it is connected, so only the
  // caller knows whether the server is on this host.
  std::string congestion = "cubic";
};

// Sets them on each socket that a channel made with `arguments` connects, also
// when it reconnects. A value that the kernel refuses has no effect.
void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_SOCKET_OPTIONS_H_
