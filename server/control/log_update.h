// SPDX-License-Identifier: Apache-2.0

// Logs the results of updates: refused ones as warnings, with a bounded rate,
// and accepted ones at level debug.

#ifndef PLANB_SERVER_CONTROL_LOG_UPDATE_H_
#define PLANB_SERVER_CONTROL_LOG_UPDATE_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/base/log.h"
#include "server/base/trace.h"
#include "server/table/update.h"

namespace planb::server {

// Names an update by what its caller sent: unchecked, and cut where it is
// longer than what a caller may send.
struct UpdateName {
  absl::string_view method;
  std::string table = "?";        // "?" until its first message is read
  std::string request_id = "";    // "" if it has none
  std::optional<Span> span = {};  // if it is traced
};

// Logs and traces updates. Thread-safe.
class UpdateLog {
 public:
  // Null: nothing is traced.
  explicit UpdateLog(Tracer* tracer) : tracer_(tracer) {}

  // An update that begins now, before its first message is read.
  UpdateName Begin(absl::string_view method,
                   const grpc::ServerContextBase& call) const;
  // Names it by its first message.
  static void Name(absl::string_view table, absl::string_view request_id,
                   UpdateName& update);

  // Logs an update that ended with `status`, and adds its span, as below.
  void Ended(UpdateName update, const grpc::ServerContextBase& call,
             const absl::Status& status, const UpdateOutcome* outcome,
             absl::Time visible);

  // Adds the span of an update that ended with `status`. `outcome` is null if
  // it was not accepted; `visible` is when it became visible, or
  // InfinitePast().
  void Trace(UpdateName update, const absl::Status& status,
             const UpdateOutcome* outcome, absl::Time visible) const;

  // Logs, at most 5 lines a second, and counts by reason. Leaves out CANCELLED
  // and DEADLINE_EXCEEDED: the caller stopped waiting, and the update was not
  // refused.
  void Refused(const UpdateName& update, const grpc::ServerContextBase& call,
               const absl::Status& why);

  void Accepted(const UpdateName& update, uint64_t generation) const;

  // How many were refused, by reason. The contract has few reasons.
  std::vector<std::pair<std::string, uint64_t>> ByReason() const;

 private:
  Tracer* const tracer_;
  LogLimit limit_{/*lines_per_second=*/5};
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> by_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_LOG_UPDATE_H_
