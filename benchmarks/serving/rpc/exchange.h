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
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmarks/serving/rpc/workload.h"
#include "client/load/latency_histogram.h"

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

// Answers `count` addresses packed in `form` into `next_hops`.
using Answerer = std::function<void(AddressForm form, const char* addresses,
                                    size_t count, char* next_hops)>;

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

// The client's end. Thread-compatible.
class ExchangeClient {
 public:
  // Announces the size of all batches: so many addresses of `form`.
  // REQUIRES: 1 <= batch <= 1 << 20.
  static absl::StatusOr<ExchangeClient> Start(Socket socket, AddressForm form,
                                              size_t batch, Waiting waiting);

  // Exchanges one batch. `addresses` has Width(form) bytes an address,
  // `next_hops` room for 4.
  absl::Status Ask(const char* addresses, char* next_hops);

  // Asks for the whole batches of `trace` once and compares.
  // Errors: DATA_LOSS naming the first answer that is not as expected.
  // REQUIRES: as many `expected` as there are addresses.
  absl::Status Check(absl::string_view trace,
                     absl::Span<const NextHopId> expected);

  // Asks for the batches of `trace` in turns for `duration`, with `depth` of
  // them on the way: 1 is ping-pong. REQUIRES: trace holds a whole batch;
  // depth > 0; none is on the way.
  absl::StatusOr<ExchangeResult> Run(absl::string_view trace, size_t depth,
                                     absl::Duration duration);

 private:
  ExchangeClient(Socket socket, AddressForm form, size_t batch,
                 Waiting waiting);

  absl::StatusOr<ExchangeResult> PingPong(absl::string_view trace,
                                          absl::Duration duration);
  absl::StatusOr<ExchangeResult> Pipelined(absl::string_view trace,
                                           size_t depth,
                                           absl::Duration duration);

  Socket socket_;
  Waiting waiting_;
  size_t request_bytes_;
  size_t reply_bytes_;
};

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_
