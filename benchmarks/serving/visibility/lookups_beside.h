// Lookups at full rate on a core of their own, beside whatever else goes on.

#ifndef PLANB_BENCHMARKS_SERVING_VISIBILITY_LOOKUPS_BESIDE_H_
#define PLANB_BENCHMARKS_SERVING_VISIBILITY_LOOKUPS_BESIDE_H_

#include <sys/types.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::visibility {

struct LookupOptions {
  size_t batch = 4096;  // addresses
  size_t depth = 8;     // batches in flight
  int cpu = -1;         // -1: anywhere
};

// One BatchLookup stream in a closed loop, with addresses random in routes. It
// is another process's: within one, gRPC has all connections watched by
// whichever thread happens to wait, so that lookups and changes would be in
// each other's way at the client already. Thread-compatible.
class LookupsBeside {
 public:
  // Forks. REQUIRES: this process has one thread and has not used gRPC; sorted
  // IPv6 routes, at least one.
  LookupsBeside(const std::string& server, absl::Span<const Route> routes,
                const LookupOptions& options);
  LookupsBeside(const LookupsBeside&) = delete;
  LookupsBeside& operator=(const LookupsBeside&) = delete;
  ~LookupsBeside();

  // Runs `work` while lookups go on, which have begun before. Returns lookups a
  // second during that time.
  // Errors: that of `work`, else that of the lookups.
  absl::StatusOr<double> During(absl::FunctionRef<absl::Status()> work);

 private:
  pid_t child_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
};

}  // namespace planb::visibility

#endif  // PLANB_BENCHMARKS_SERVING_VISIBILITY_LOOKUPS_BESIDE_H_
