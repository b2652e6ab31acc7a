// SPDX-License-Identifier: Apache-2.0

// Makes what every program of this package looks up. The bare socket, bare gRPC
// and the real server have the same routes and addresses, or else ratios would
// compare tables and not transports.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_WORKLOAD_H_
#define PLANB_BENCHMARKS_SERVING_RPC_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"

namespace planb::rpc {

// How an address is written in a request.
enum class AddressForm {
  kFull,   // 16 bytes
  kUpper,  // its first 8
};

// Returns the bytes of one address.
constexpr size_t Width(AddressForm form) {
  return form == AddressForm::kFull ? 16 : 8;
}

// Parses "full" or "upper". Errors: INVALID_ARGUMENT naming those.
absl::StatusOr<AddressForm> ParseAddressForm(absl::string_view name);

// Returns the IPv6 routes of a file (any format of lpm/io), or so many made up
// as `planb_server --generate` makes them: sorted, each prefix once.
// Errors: those of reading; INVALID_ARGUMENT unless exactly one is given, or
// if there is no IPv6 route.
absl::StatusOr<std::vector<Route>> LoadRoutes(const std::string& path,
                                              uint64_t generate);

// Makes `count` addresses packed in `form`, each in a route drawn uniformly, as
// `planbctl bench --trace=match` does. They are the same on every machine.
// REQUIRES: there are routes.
std::string PackedTrace(absl::Span<const Route> routes, AddressForm form,
                        size_t count);

// Finds, without the engine, the table's answer to each of the packed
// addresses. It is kUndecided where the addresses below an upper half disagree.
// O(routes + addresses).
std::vector<NextHopId> ExpectedAnswers(absl::Span<const Route> routes,
                                       AddressForm form,
                                       absl::string_view addresses);

// Looks up `count` addresses packed in `form` by the best kernel, and writes 4
// bytes of answer each. Everything here uses it.
void Answer(const Fib& fib, AddressForm form, const char* addresses,
            size_t count, char* next_hops);

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_WORKLOAD_H_
