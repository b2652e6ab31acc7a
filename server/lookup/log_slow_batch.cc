// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/log_slow_batch.h"

#include "base/monotonic_time.h"
#include "server/base/log.h"

namespace planb::server {

void SlowBatchLog::Report(absl::string_view table, size_t addresses,
                          SteadyInstant::duration elapsed, uint64_t request_id,
                          const grpc::ServerContextBase& call) {
  const auto left_out = limit_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarning, "slow batch",
      {{"table", table.empty() ? "default" : table},
       {"addresses", addresses},
       {"microseconds", absl::ToInt64Microseconds(absl::FromChrono(elapsed))},
       {"request_id", request_id},
       {"peer", call.peer()},
       {"not_logged", *left_out}});
}

}  // namespace planb::server
