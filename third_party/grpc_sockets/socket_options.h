// Options of the sockets that gRPC makes.
//
// Two of the host's defaults cost lookups a third of their throughput. A Unix
// socket's send buffer is 208 KiB, so a batch of 16,384 addresses does not fit
// and each message takes several wake-ups. And a host may pick a congestion
// control, such as BBR, that paces even loopback. gRPC sets TCP_NODELAY itself.

#ifndef PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_OPTIONS_H_
#define PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_OPTIONS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <string>

namespace planb {

struct SocketOptions {
  // SO_SNDBUF of Unix sockets in octets (net.core.wmem_max bounds it); 0
  // leaves the host's default. TCP sizes its buffers by itself.
  int unix_send_buffer = 1 << 20;
  // TCP_CONGESTION of connections within this host, if the kernel offers it;
  // empty leaves the host's default. A server sees for itself which these are;
  // a client's socket is set before it is connected, so whoever makes a channel
  // to another host must leave this empty.
  std::string loopback_congestion = "cubic";
};

// Sets them on all sockets of channels made with `arguments`. What a kernel
// refuses is left as it is.
void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments);

// What a server wants to do with its sockets besides. Called by gRPC's threads,
// by several at once: quick, thread-safe, and alive as long as the server.
struct ServerSocketHooks {
  // A socket that is about to be bound. False keeps it from being bound.
  std::function<bool(int fd)> before_bind = nullptr;
  // A connection just accepted. False refuses it: the other end finds it
  // closed, and nothing that it may have sent already is read.
  std::function<bool(int fd)> accept = nullptr;
  // So many connections were closed for want of file descriptors.
  std::function<void(int connections)> dropped = nullptr;
};

// Sets the options of a server's connections, and its hooks. Besides, the
// server drops connections while the process has hardly any file descriptors
// left: gRPC 1.51 would accept until none is left, and then none ever again.
void SetSocketOptions(const SocketOptions& options, ServerSocketHooks hooks,
                      grpc::ServerBuilder& builder);

}  // namespace planb

#endif  // PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_OPTIONS_H_
