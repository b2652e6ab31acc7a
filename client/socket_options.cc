// SPDX-License-Identifier: Apache-2.0

// A channel makes its sockets anew each time it reconnects, and gRPC 1.51 lets
// nothing but a socket mutator see them. Its public ChannelArguments take one,
// and its libraries export grpc_socket_mutator_init, but its packages leave out
// the header that defines the type. So the definitions stand here, as that
// version has them; socket_options_test.cc looks at real sockets and fails if
// they no longer match.

#include "client/socket_options.h"

#include <grpc/support/sync.h>
#include <sys/socket.h>

#include <utility>

struct grpc_socket_mutator;

struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  const void* mutate_fd_2;  // null: mutate_fd is called
};

struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

// Sets the table and a first reference.
void grpc_socket_mutator_init(grpc_socket_mutator* mutator,
                              const grpc_socket_mutator_vtable* vtable);

namespace planb::client {
namespace {

struct Mutator {
  explicit Mutator(SocketOptions o) : options(std::move(o)) {}

  grpc_socket_mutator base;  // first: gRPC knows no other part
  const SocketOptions options;
};

const SocketOptions& OptionsOf(grpc_socket_mutator* mutator) {
  return reinterpret_cast<Mutator*>(mutator)->options;
}

bool Mutate(int fd, grpc_socket_mutator* mutator) {
  SetUnixSendBuffer(fd, OptionsOf(mutator));
  SetLoopbackCongestion(fd, OptionsOf(mutator));
  return true;
}

// Channels share connections only if their mutators are equal.
int Compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
  const SocketOptions& x = OptionsOf(a);
  const SocketOptions& y = OptionsOf(b);
  if (x.unix_send_buffer != y.unix_send_buffer) {
    return x.unix_send_buffer < y.unix_send_buffer ? -1 : 1;
  }
  return x.loopback_congestion.compare(y.loopback_congestion);
}

void Destroy(grpc_socket_mutator* mutator) {
  delete reinterpret_cast<Mutator*>(mutator);
}

constexpr grpc_socket_mutator_vtable kVtable = {Mutate, Compare, Destroy,
                                                nullptr};

}  // namespace

void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments) {
  auto* const mutator = new Mutator(options);
  grpc_socket_mutator_init(&mutator->base, &kVtable);
  arguments.SetSocketMutator(&mutator->base);
}

}  // namespace planb::client
