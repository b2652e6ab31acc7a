// The bare exchange: what is left of a lookup service without gRPC, HTTP/2 and
// protobuf. A request is so many addresses and nothing else, its answer so many
// next hops; how many was said once, when the connection began.
//
// This is the floor: the same octets (less some twenty of framing), the same
// lookup, the fewest system calls that move them.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_
#define PLANB_BENCHMARKS_SERVING_RPC_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmarks/serving/rpc/sockets.h"
#include "benchmarks/serving/rpc/workload.h"
#include "client/latency_histogram.h"

namespace planb::rpc {

// What an end does while nothing is there to read.
enum class Waiting {
  kBlock,  // sleeps in the kernel
  kSpin,   // asks again; costs its whole core
};

// Answers `count` addresses packed in `form` into `next_hops`.
using Answerer = std::function<void(Form form, const char* addresses,
                                    size_t count, char* next_hops)>;

// Serves one connection until its client ends it.
// Errors: INVALID_ARGUMENT if its hello makes no sense; UNAVAILABLE if it ends
// within a request.
absl::Status ServeExchange(const Socket& socket, const Answerer& answerer,
                           Waiting waiting);

// What a run came to.
struct ExchangeResult {
  absl::Duration elapsed;  // from the first octet out to the last octet in
  uint64_t batches = 0;
  client::LatencyHistogram latency;  // of a batch, from its sending on
};

// The client's end. Thread-compatible.
class ExchangeClient {
 public:
  // Says hello: every batch will have so many addresses of `form`.
  // REQUIRES: 1 <= batch <= 1 << 20.
  static absl::StatusOr<ExchangeClient> Start(Socket socket, Form form,
                                              size_t batch, Waiting waiting);

  // One batch. `addresses` has Width(form) octets an address, `next_hops` room
  // for 4.
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
  ExchangeClient(Socket socket, Form form, size_t batch, Waiting waiting);

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
