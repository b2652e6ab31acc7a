// Lookups at full rate on a core of their own, beside whatever else goes on.

#ifndef PLANB_BENCHMARKS_VISIBILITY_LOOKUPS_BESIDE_H_
#define PLANB_BENCHMARKS_VISIBILITY_LOOKUPS_BESIDE_H_

#include <grpcpp/channel.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/trace.h"
#include "lpm/prefix.h"

namespace planb::visibility {

struct LookupOptions {
  size_t batch = 4096;  // addresses
  size_t depth = 8;     // batches in flight
  int cpu = 1;          // -1: anywhere
};

// One BatchLookup stream in a closed loop, with addresses random in routes.
// Thread-compatible.
class LookupsBeside {
 public:
  // REQUIRES: sorted IPv6 routes, at least one.
  LookupsBeside(std::shared_ptr<grpc::Channel> channel,
                absl::Span<const Route> routes, const LookupOptions& options);

  // Runs `work` while lookups go on, which have begun before. Returns lookups a
  // second during that time.
  // Errors: that of `work`, else that of the lookups.
  absl::StatusOr<double> During(absl::FunctionRef<absl::Status()> work) const;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const LookupOptions options_;
  client::Trace trace_;
};

}  // namespace planb::visibility

#endif  // PLANB_BENCHMARKS_VISIBILITY_LOOKUPS_BESIDE_H_
