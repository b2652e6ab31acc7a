// SPDX-License-Identifier: Apache-2.0

#include "server/net/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace planb::server {
namespace {

// Connections accepted from one listener before the next listener has its turn.
constexpr int kTurn = 64;
// The thread pauses after so many rejected connections.
constexpr int kRejections = 64;
constexpr absl::Duration kRejectionPause = absl::Milliseconds(5);
// Its pause if there is no descriptor or no memory for another socket.
constexpr absl::Duration kStarvationPause = absl::Milliseconds(100);

}  // namespace

Acceptor::Acceptor(AcceptorOptions options)
    : options_(std::move(options)),
      admission_(options_.peers, options_.limits),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ABSL_RAW_CHECK(stop_ >= 0, "eventfd");
}

Acceptor::~Acceptor() {
  Stop();
  close(stop_);
}

absl::StatusOr<int> Acceptor::Listen(
    const std::string& address, const SocketFileOptions& file,
    std::shared_ptr<grpc::ServerCredentials> creds,
    grpc::ServerBuilder& builder) {
  absl::StatusOr<Listener> listener = Listener::Open(address, file);
  if (!listener.ok()) return listener.status();
  const int port = listener->port();
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  endpoints_.push_back({*std::move(listener),
                        builder.experimental().AddExternalConnectionAcceptor(
                            Type::FROM_FD, std::move(creds))});
  return port;
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    ABSL_RAW_CHECK(write(stop_, &one, sizeof(one)) == sizeof(one), "eventfd");
    thread_.join();
  }
  endpoints_.clear();
}

void Acceptor::Run() {
  pthread_setname_np(pthread_self(), "planb_accept");
  std::vector<pollfd> waits = {{stop_, POLLIN, 0}};
  std::vector<Endpoint*> owners = {nullptr};
  for (Endpoint& endpoint : endpoints_) {
    for (const int socket : endpoint.listener.sockets()) {
      waits.push_back({socket, POLLIN, 0});
      owners.push_back(&endpoint);
    }
  }
  while (true) {
    if (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) continue;
    if (waits[0].revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0) AcceptFrom(waits[i].fd, *owners[i]);
    }
    if (std::exchange(starved_, false) && !Pause(kStarvationPause)) return;
    if (rejected_ >= kRejections) {
      rejected_ = 0;
      if (!Pause(kRejectionPause)) return;
    }
  }
}

void Acceptor::AcceptFrom(int socket, Endpoint& endpoint) {
  for (int i = 0; i < kTurn && rejected_ < kRejections; ++i) {
    const int fd =
        accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const Peer peer = Peer::Of(fd);
      if (!admission_.Admit(fd, peer)) {
        close(fd);
        ++rejected_;
        continue;
      }
      SetOptions(fd, peer);
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
          connection;
      connection.listener_fd = socket;
      connection.fd = fd;
      endpoint.grpc->HandleNewConnection(&connection);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        // The connection stays in the kernel's queue.
        starved_ = true;
        return;
      default:
        // An error of this connection, not of the listener: accept(2) says to
        // accept the next one.
        ++rejected_;
    }
  }
}

void Acceptor::SetOptions(int fd, const Peer& peer) const {
  if (peer.process() != nullptr) {
    SetUnixSendBuffer(fd, options_.sockets);
    return;
  }
  const int yes = 1;
  const auto timeout = static_cast<unsigned>(
      absl::ToInt64Milliseconds(options_.unacknowledged_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
  if (IsLoopback(peer.address())) SetLoopbackCongestion(fd, options_.sockets);
}

bool Acceptor::Pause(absl::Duration length) const {
  pollfd stop = {stop_, POLLIN, 0};
  return poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(length))) ==
         0;
}

}  // namespace planb::server
