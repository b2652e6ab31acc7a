// SPDX-License-Identifier: Apache-2.0

// The addresses of made-up traffic, of a few characteristic kinds. Benchmarks
// and the load driver share them, so that their figures are about the same
// addresses.

#ifndef PLANB_LPM_SYNTHETIC_TRAFFIC_H_
#define PLANB_LPM_SYNTHETIC_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

enum class TraceKind {
  kMatch,    // a route drawn uniformly, then a random address in it
  kUniform,  // random in 2000::/3, or in all of IPv4
  kZipf,     // as match, but the k-th most popular route with weight 1/k
  kLong,     // as match, but only routes longer than /64
  kRepeat,   // sixteen addresses of the match kind, over and over
};

// "match", "uniform", "zipf", "long" or "repeat".
// Errors: INVALID_ARGUMENT naming those.
absl::StatusOr<TraceKind> ParseTraceKind(absl::string_view name);
absl::string_view TraceKindName(TraceKind kind);

// Hands `count` addresses of `family` to `take`, in order. Routes of the other
// family are passed over. The same arguments give the same addresses
// everywhere. O(count log routes).
// Errors: FAILED_PRECONDITION if there is no route to draw from.
absl::Status MakeTraffic(TraceKind kind, Family family,
                         absl::Span<const Route> routes, size_t count,
                         uint64_t seed,
                         absl::FunctionRef<void(const Address&)> take);

}  // namespace planb

#endif  // PLANB_LPM_SYNTHETIC_TRAFFIC_H_
