// SPDX-License-Identifier: Apache-2.0

#include "server/control/log_update.h"

#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

absl::string_view NameOf(absl::string_view table) {
  return table.empty() ? "default" : table;
}

}  // namespace

void UpdateLog::Refused(const UpdateName& update,
                        const grpc::ServerContextBase& call,
                        const absl::Status& why) {
  if (absl::IsCancelled(why) || absl::IsDeadlineExceeded(why)) return;
  const std::string reason = ErrorReason(why);
  {
    const std::lock_guard lock(mutex_);
    ++by_reason_[reason.empty() ? absl::StatusCodeToString(why.code())
                                : reason];
  }
  const auto left_out = limit_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarning, "update refused",
      {{"method", update.method},
       {"table", NameOf(update.table)},
       {"request_id", update.request_id},
       {"peer", call.peer()},
       {"reason", reason},
       {"error", why.message()},
       {"not_logged", *left_out}});
}

void UpdateLog::Accepted(const UpdateName& update, uint64_t generation) const {
  if (!IsLogged(LogLevel::kDebug)) return;
  Log(LogLevel::kDebug, "update accepted",
      {{"method", update.method},
       {"table", NameOf(update.table)},
       {"generation", generation},
       {"request_id", update.request_id}});
}

std::vector<std::pair<std::string, uint64_t>> UpdateLog::ByReason() const {
  const std::lock_guard lock(mutex_);
  return {by_reason_.begin(), by_reason_.end()};
}

}  // namespace planb::server
