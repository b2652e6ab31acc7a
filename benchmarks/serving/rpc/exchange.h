// SPDX-License-Identifier: Apache-2.0

// The socket baseline: a lookup service without gRPC, HTTP/2 and protobuf. A
// request is a batch of addresses and nothing else, its answer as many next
// hops. The size of a batch is sent once, when the connection begins. The bytes
// are those of gRPC (less some twenty of framing), the lookup is the same, and
// no fewer system calls could move them.
//
// The sockets are tuned, because a comparison with defaults would favour gRPC.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_
#define PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/latency_histogram.h"
#include "client/load/trace.h"
#include "lpm/fib/fib.h"

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

// Listens on "unix:///path" (an old socket there is replaced) or on
// "a.b.c.d:port", where port 0 picks a free one.
// Errors: INVALID_ARGUMENT for another address; UNAVAILABLE with the system's
// message.
absl::StatusOr<Socket> ListenOn(absl::string_view address);

// Waits for a connection and accepts it. Errors: UNAVAILABLE.
absl::StatusOr<Socket> Accept(const Socket& listener);

// Connects to such an address. Errors: likewise.
absl::StatusOr<Socket> ConnectTo(absl::string_view address);

// Returns the TCP port that a socket is bound to; 0 for a Unix socket.
int LocalPort(const Socket& socket);

// How an end waits while nothing is there to read.
enum class Waiting {
  kBlock,  // sleeps in the kernel
  kSpin,   // asks again; costs its whole core
};

// Answers `count` addresses of `width` bytes each, 16 or the upper 8, into
// `next_hops`.
using Answerer = std::function<void(size_t width, const char* addresses,
                                    size_t count, char* next_hops)>;

// The answers of `fib`, which outlives it, by the best kernel.
Answerer AnswersOf(const Fib& fib);

// Serves one connection until its client ends it.
// Errors: INVALID_ARGUMENT if its hello makes no sense; UNAVAILABLE if it ends
// within a request.
absl::Status ServeExchange(const Socket& socket, const Answerer& answerer,
                           Waiting waiting);

// The result of a run.
struct ExchangeResult {
  absl::Duration elapsed;  // from the first byte out to the last byte in
  uint64_t batches = 0;
  client::LatencyHistogram latency;  // of a batch, from its sending on
};

// The client's end, which asks for the batches of a trace in turns. Thread-
// compatible.
class ExchangeClient {
 public:
  // Announces the size of all batches. REQUIRES: `trace`, of IPv6, outlives the
  // client; its batches have at most 1 << 20 addresses.
  static absl::StatusOr<ExchangeClient> Start(Socket socket,
                                              const client::Trace& trace,
                                              Waiting waiting);

  // Asks for each batch once and compares. Errors: DATA_LOSS naming the first
  // answer that is not as expected. REQUIRES: `expected` is the trace's.
  absl::Status Check(const std::vector<NextHopId>& expected);

  // Asks for `duration`, with `depth` batches on the way: 1 is ping-pong.
  // REQUIRES: depth > 0; none is on the way.
  absl::StatusOr<ExchangeResult> Run(size_t depth, absl::Duration duration);

 private:
  ExchangeClient(Socket socket, const client::Trace& trace, Waiting waiting);

  // The bytes of a batch, from the first one again after the last one.
  const char* Request(size_t index) const;
  // Exchanges a batch.
  absl::Status Ask(size_t index, char* next_hops);
  absl::StatusOr<ExchangeResult> PingPong(absl::Duration duration);
  absl::StatusOr<ExchangeResult> Pipelined(size_t depth,
                                           absl::Duration duration);

  Socket socket_;
  const client::Trace* trace_;
  Waiting waiting_;
  size_t request_bytes_;
  size_t reply_bytes_;
};

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_
