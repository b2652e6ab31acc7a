// SPDX-License-Identifier: Apache-2.0

// Bare gRPC servers: the contract's two lookup methods on raw bytes, in each
// of the styles that gRPC offers a server, with nothing around them. Answering
// with the request itself they show the least latency that gRPC allows;
// answering lookups as the server does, they show which style is fastest.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_
#define PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/fib/fib.h"

namespace planb::rpc {

// Answers one message; called from several threads at once. False refuses it:
// the call ends with INVALID_ARGUMENT.
using Handler =
    std::function<bool(grpc::ByteBuffer& request, grpc::ByteBuffer& reply)>;

// Answers with the request itself.
Handler EchoHandler();

// Answers a BatchLookupRequest with IPv6 addresses, in full or by their upper
// halves, by a BatchLookupResponse as the server does: addresses are read where
// they were received, next hops written where they are sent from. Refuses what
// is malformed, IPv4, named tables and prefix lengths. `fib`, of IPv6, outlives
// the handler.
Handler LookupHandler(const Fib& fib);

// The most replies that wait to be written on one stream; then reading stops.
inline constexpr size_t kMaxReplies = 8;

// One way of writing a server. Lives longer than the grpc::Server it is
// registered with.
class Style {
 public:
  virtual ~Style() = default;
  virtual grpc::Service& service() = 0;
  // Run before the server is built, and once it has started.
  virtual void Prepare(grpc::ServerBuilder&) {}
  virtual void Start() {}
  // Ends all threads after the server was told to shut down.
  virtual void Stop() {}
};

// BatchLookup is answered by `handler`, message by message; Lookup, which is
// only here to be timed bare, with the request itself.
std::unique_ptr<Style> MakeCallbackStyle(Handler handler);
// One completion queue and one thread that waits in it, or asks it again and
// again if `spin`.
std::unique_ptr<Style> MakeAsyncStyle(Handler handler, bool spin);
// A style with a thread of gRPC's pool for each call.
std::unique_ptr<Style> MakeSyncStyle(Handler handler);

// A server that runs from construction to destruction. Thread-safe.
class BareServer {
 public:
  // `style` is callback, async, async_spin or sync; `addresses` are gRPC's.
  // Errors: INVALID_ARGUMENT for another style; UNAVAILABLE if an address
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<BareServer>> Start(
      absl::string_view style, const std::vector<std::string>& addresses,
      Handler handler);
  ~BareServer();

  // The TCP port of addresses[i]; meaningless for a Unix socket.
  int port(size_t i) const { return ports_[i]; }

 private:
  BareServer() = default;

  std::unique_ptr<Style> style_;
  std::vector<int> ports_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_BARE_SERVER_H_
