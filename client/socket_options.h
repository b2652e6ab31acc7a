// SPDX-License-Identifier: Apache-2.0

// The options of base/socket_options.h for the sockets of a channel.

#ifndef PLANB_CLIENT_SOCKET_OPTIONS_H_
#define PLANB_CLIENT_SOCKET_OPTIONS_H_

#include <grpcpp/support/channel_arguments.h>

#include "base/socket_options.h"

namespace planb::client {

// Sets `options` on each socket that a channel made with `arguments` connects,
// also when it reconnects. TCP sockets are taken for loopback: a socket gets
// its options before it is connected, so only the caller knows where the server
// is. An empty loopback_congestion leaves the sockets of a channel to another
// host as they are.
void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_SOCKET_OPTIONS_H_
