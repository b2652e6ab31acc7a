// gRPC's hook for setting options of its sockets, as gRPC 1.51 defines it in a
// header that its packages leave out, though its libraries export it and its
// public ChannelArguments::SetSocketMutator takes one. The layout is part of
// that version; socket_options_test.cc looks at real sockets and would tell.

#ifndef PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_MUTATOR_H_
#define PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_MUTATOR_H_

#include <grpc/support/sync.h>

enum grpc_fd_usage {
  GRPC_FD_CLIENT_CONNECTION_USAGE,
  GRPC_FD_SERVER_LISTENER_USAGE,
  GRPC_FD_SERVER_CONNECTION_USAGE,
};

struct grpc_mutate_socket_info {
  int fd;
  grpc_fd_usage usage;
};

struct grpc_socket_mutator;

struct grpc_socket_mutator_vtable {
  bool (*mutate_fd)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  bool (*mutate_fd_2)(const grpc_mutate_socket_info* info,
                      grpc_socket_mutator* mutator);
};

struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

// Sets the table and a first reference.
void grpc_socket_mutator_init(grpc_socket_mutator* mutator,
                              const grpc_socket_mutator_vtable* vtable);

#endif  // PLANB_THIRD_PARTY_GRPC_SOCKETS_SOCKET_MUTATOR_H_
