// What a bare server answers with.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_HANDLERS_H_
#define PLANB_BENCHMARKS_SERVING_RPC_HANDLERS_H_

#include "benchmarks/serving/rpc/bare_server.h"
#include "lpm/fib.h"

namespace planb::rpc {

// The request itself.
Handler EchoHandler();

// A planb.v1.BatchLookupResponse to a BatchLookupRequest with IPv6 addresses,
// in full or by their upper halves, as the server answers it: addresses are
// read where they were received, next hops written where they are sent from.
// Refuses what is malformed, IPv4, named tables and prefix lengths. `fib`, of
// IPv6, outlives the handler.
Handler LookupHandler(const Fib& fib);

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_HANDLERS_H_
