// SPDX-License-Identifier: Apache-2.0

// Which lookup batches took long, and whose they were: --slow_batch.

#ifndef PLANB_SERVER_LOOKUP_LOG_SLOW_BATCH_H_
#define PLANB_SERVER_LOOKUP_LOG_SLOW_BATCH_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "server/base/log.h"

namespace planb::server {

// Thread-safe. Logs at most 5 lines a second.
class SlowBatchLog {
 public:
  // Slow is what takes `threshold` or longer; 0: nothing is.
  explicit SlowBatchLog(absl::Duration threshold)
      : threshold_(absl::ToChronoNanoseconds(threshold)) {}

  // Costs a comparison: for every batch.
  bool IsSlow(SteadyInstant::duration elapsed) const {
    return elapsed >= threshold_ && threshold_.count() > 0;
  }

  void Report(absl::string_view table, size_t addresses,
              SteadyInstant::duration elapsed, uint64_t request_id,
              const grpc::ServerContextBase& call);

 private:
  const SteadyInstant::duration threshold_;
  LogLimit limit_{/*lines_per_second=*/5};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOG_SLOW_BATCH_H_
