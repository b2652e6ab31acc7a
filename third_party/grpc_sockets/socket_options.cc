#include "third_party/grpc_sockets/socket_options.h"

#include <grpcpp/impl/server_builder_option.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "third_party/grpc_sockets/socket_mutator.h"

namespace planb {
namespace {

// The address `of` (getsockname or getpeername) tells; AF_UNSPEC if none.
sockaddr_storage AddressOf(int fd, decltype(getsockname)* of) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (of(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address;
}

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

struct Mutator {
  Mutator(SocketOptions o, ServerSocketHooks h)
      : options(std::move(o)), hooks(std::move(h)) {}

  grpc_socket_mutator base;  // first: gRPC knows no other part
  const SocketOptions options;
  const ServerSocketHooks hooks;
  std::vector<int> listeners;  // complete before the first is accepted from
};

Mutator& Of(grpc_socket_mutator* mutator) {
  return *reinterpret_cast<Mutator*>(mutator);
}

// Leaves gRPC an accepted connection at its end, which it takes for one that
// the client closed at once. (A hook that returns false would do worse: gRPC
// 1.51 then leaks the connection and never accepts another one.) After the
// shutdown nothing can arrive any more; what came before is thrown away, lest
// gRPC read it, and run the calls in it.
void Refuse(int fd) {
  shutdown(fd, SHUT_RDWR);
  char lost[4096];
  while (recv(fd, lost, sizeof(lost), MSG_DONTWAIT) > 0) continue;
}

// Descriptors get the lowest number that is free, so a high one tells that
// nearly all are in use. The limit may change under a running process.
bool IsAmongTheLast(int fd) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t spare = std::clamp<rlim_t>(limit.rlim_cur / 16, 4, 64);
  return static_cast<rlim_t>(fd) + spare >= limit.rlim_cur;
}

// Closes what waits to be accepted. gRPC accepts until nothing waits and closes
// nothing in between: refusing each would use up the descriptors all the same.
int DropWaiting(const std::vector<int>& listeners) {
  int dropped = 0;
  for (const int listener : listeners) {
    int fd;
    while ((fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0) {
      close(fd);
      ++dropped;
    }
  }
  return dropped;
}

void SetOptions(const SocketOptions& options,
                const grpc_mutate_socket_info* info) {
  const sockaddr_storage self = AddressOf(info->fd, getsockname);
  if (self.ss_family == AF_UNIX && options.unix_send_buffer > 0) {
    setsockopt(info->fd, SOL_SOCKET, SO_SNDBUF, &options.unix_send_buffer,
               sizeof(options.unix_send_buffer));
  } else if (!options.loopback_congestion.empty() &&
             (info->usage == GRPC_FD_CLIENT_CONNECTION_USAGE ||
              IsLoopback(AddressOf(info->fd, getpeername)))) {
    setsockopt(info->fd, IPPROTO_TCP, TCP_CONGESTION,
               options.loopback_congestion.data(),
               static_cast<socklen_t>(options.loopback_congestion.size()));
  }
}

bool Mutate(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator) {
  Mutator& self = Of(mutator);
  SetOptions(self.options, info);
  const ServerSocketHooks& hooks = self.hooks;
  if (info->usage == GRPC_FD_SERVER_LISTENER_USAGE) {
    self.listeners.push_back(info->fd);
    return !hooks.before_bind || hooks.before_bind(info->fd);
  }
  if (info->usage != GRPC_FD_SERVER_CONNECTION_USAGE) return true;
  if (IsAmongTheLast(info->fd)) {
    Refuse(info->fd);
    const int dropped = 1 + DropWaiting(self.listeners);
    if (hooks.dropped) hooks.dropped(dropped);
  } else if (hooks.accept && !hooks.accept(info->fd)) {
    Refuse(info->fd);
  }
  return true;
}

// Channels, which have no hooks, share connections only if their mutators are
// equal.
int Compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
  const SocketOptions& x = Of(a).options;
  const SocketOptions& y = Of(b).options;
  if (x.unix_send_buffer != y.unix_send_buffer) {
    return x.unix_send_buffer < y.unix_send_buffer ? -1 : 1;
  }
  return x.loopback_congestion.compare(y.loopback_congestion);
}

void Destroy(grpc_socket_mutator* mutator) {
  delete reinterpret_cast<Mutator*>(mutator);
}

constexpr grpc_socket_mutator_vtable kVtable = {nullptr, Compare, Destroy,
                                                Mutate};

// Hands a new mutator to `arguments`.
void Install(const SocketOptions& options, const ServerSocketHooks& hooks,
             grpc::ChannelArguments& arguments) {
  auto* const mutator = new Mutator(options, hooks);
  grpc_socket_mutator_init(&mutator->base, &kVtable);
  arguments.SetSocketMutator(&mutator->base);
}

class Option final : public grpc::ServerBuilderOption {
 public:
  Option(SocketOptions options, ServerSocketHooks hooks)
      : options_(std::move(options)), hooks_(std::move(hooks)) {}
  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    Install(options_, hooks_, *arguments);
  }
  void UpdatePlugins(
      std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*) override {}

 private:
  const SocketOptions options_;
  const ServerSocketHooks hooks_;
};

}  // namespace

void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments) {
  Install(options, {}, arguments);
}

void SetSocketOptions(const SocketOptions& options, ServerSocketHooks hooks,
                      grpc::ServerBuilder& builder) {
  builder.SetOption(std::make_unique<Option>(options, std::move(hooks)));
}

}  // namespace planb
