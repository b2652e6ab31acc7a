// SPDX-License-Identifier: Apache-2.0

// Logs the results of updates: refused ones as warnings, with a bounded rate,
// and accepted ones at level debug.

#ifndef PLANB_SERVER_CONTROL_LOG_UPDATE_H_
#define PLANB_SERVER_CONTROL_LOG_UPDATE_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/log.h"

namespace planb::server {

// Names an update by what its caller sent.
struct UpdateName {
  absl::string_view method;
  absl::string_view table;
  std::string request_id = "";  // "" if it has none
};

// Thread-safe.
class UpdateLog {
 public:
  // Logs, at most 5 lines a second, and counts by reason. Leaves out CANCELLED
  // and DEADLINE_EXCEEDED: the caller stopped waiting, and the update was not
  // refused.
  void Refused(const UpdateName& update, const grpc::ServerContextBase& call,
               const absl::Status& why);

  void Accepted(const UpdateName& update, uint64_t generation) const;

  // How many were refused, by reason. The contract has few reasons.
  std::vector<std::pair<std::string, uint64_t>> ByReason() const;

 private:
  LogLimit limit_{/*lines_per_second=*/5};
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> by_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_LOG_UPDATE_H_
