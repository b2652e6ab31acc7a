// Stream sockets for the bare exchange, set up as well as one can: what gRPC is
// held against must not lose to a default.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_SOCKETS_H_
#define PLANB_BENCHMARKS_SERVING_RPC_SOCKETS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::rpc {

// A file descriptor, closed at the end. Thread-compatible.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct SocketOptions {
  // Octets of either buffer: beyond the host's limit for root, else up to it.
  int buffer_bytes = 4 << 20;
  // TCP congestion control, such as "reno"; empty: the host's.
  std::string congestion = {};
};

// Listens on "unix:///path" (an old socket there is replaced) or on
// "a.b.c.d:port", where port 0 picks a free one.
// Errors: INVALID_ARGUMENT for another address; UNAVAILABLE with the system's
// word.
absl::StatusOr<Socket> ListenOn(absl::string_view address,
                                const SocketOptions& options);

// Waits for a connection. Errors: UNAVAILABLE.
absl::StatusOr<Socket> Accept(const Socket& listener,
                              const SocketOptions& options);

// Connects to such an address. Errors: likewise.
absl::StatusOr<Socket> ConnectTo(absl::string_view address,
                                 const SocketOptions& options);

// The TCP port it is bound to; 0 for a Unix socket.
int LocalPort(const Socket& socket);

// Octets of the send buffer that the kernel granted.
int SendBuffer(const Socket& socket);

// The congestion control in use; empty for a Unix socket.
std::string Congestion(const Socket& socket);

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_SOCKETS_H_
