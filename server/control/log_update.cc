// SPDX-License-Identifier: Apache-2.0

#include "server/control/log_update.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

absl::string_view NameOf(absl::string_view table) {
  return table.empty() ? "default" : table;
}

// What a log or a span keeps of a text that a caller sent.
constexpr size_t kMaxName = 128;
constexpr size_t kMaxMessage = 512;

}  // namespace

UpdateName UpdateLog::Begin(absl::string_view method,
                            const grpc::ServerContextBase& call) const {
  UpdateName update = {method};
  if (tracer_ != nullptr) {
    update.span = Tracer::Begin(absl::StrCat("planb.v1.RouteTable/", method),
                                TraceParentOf(call));
  }
  return update;
}

void UpdateLog::Name(absl::string_view table, absl::string_view request_id,
                     UpdateName& update) {
  update.table = std::string(NameOf(table).substr(0, kMaxName));
  update.request_id = std::string(request_id.substr(0, kMaxName));
}

void UpdateLog::Ended(UpdateName update, const grpc::ServerContextBase& call,
                      const absl::Status& status, const UpdateOutcome* outcome,
                      absl::Time visible) {
  if (status.ok()) {
    Accepted(update, outcome->generation);
  } else {
    Refused(update, call, status);
  }
  Trace(std::move(update), status, outcome, visible);
}

void UpdateLog::Trace(UpdateName update, const absl::Status& status,
                      const UpdateOutcome* outcome, absl::Time visible) const {
  if (!update.span.has_value()) return;
  Span& span = *update.span;
  span.end = absl::Now();
  span.status =
      absl::Status(status.code(), status.message().substr(0, kMaxMessage));
  span.attributes = {{"rpc.system", "grpc"},
                     {"rpc.service", "planb.v1.RouteTable"},
                     {"rpc.method", std::string(update.method)}};
  if (update.table != "?") {
    span.attributes.emplace_back("planb.table", update.table);
  }
  if (!update.request_id.empty()) {
    span.attributes.emplace_back("planb.request_id", update.request_id);
  }
  if (!status.ok()) {
    span.attributes.emplace_back("planb.reason", ErrorReason(status));
  }
  if (outcome != nullptr) {
    const auto count = [&](const char* name, uint64_t number) {
      span.attributes.emplace_back(name, static_cast<int64_t>(number));
    };
    count("planb.generation", outcome->generation);
    count("planb.routes.added", outcome->counts.added);
    count("planb.routes.changed", outcome->counts.changed);
    count("planb.routes.removed", outcome->counts.removed);
    count("planb.next_hops.added", outcome->counts.next_hops_added);
    count("planb.next_hops.changed", outcome->counts.next_hops_changed);
    count("planb.next_hops.removed", outcome->counts.next_hops_removed);
    span.events.emplace_back(outcome->accepted, "accepted");
    if (visible != absl::InfinitePast()) {
      span.events.emplace_back(visible, "visible");
    }
  }
  tracer_->Add(*std::move(update.span));
}

void UpdateLog::Refused(const UpdateName& update,
                        const grpc::ServerContextBase& call,
                        const absl::Status& why) {
  if (absl::IsCancelled(why) || absl::IsDeadlineExceeded(why)) return;
  const std::string reason = ErrorReason(why);
  {
    const MutexLock lock(mutex_);
    ++by_reason_[reason.empty() ? absl::StatusCodeToString(why.code())
                                : reason];
  }
  const auto left_out = limit_.Admit();
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarning, "update refused",
      {{"method", update.method},
       {"table", update.table},
       {"request_id", update.request_id},
       {"peer", call.peer()},
       {"reason", reason},
       {"error", why.message()},
       {IfTraced(update.span, "trace_id"), TraceIdText(update.span)},
       {IfTraced(update.span, "span_id"), SpanIdText(update.span)},
       {"not_logged", *left_out}});
}

void UpdateLog::Accepted(const UpdateName& update, uint64_t generation) const {
  if (!IsLogged(LogLevel::kDebug)) return;
  Log(LogLevel::kDebug, "update accepted",
      {{"method", update.method},
       {"table", update.table},
       {"generation", generation},
       {IfTraced(update.span, "trace_id"), TraceIdText(update.span)},
       {IfTraced(update.span, "span_id"), SpanIdText(update.span)},
       {"request_id", update.request_id}});
}

std::vector<std::pair<std::string, uint64_t>> UpdateLog::ByReason() const {
  const MutexLock lock(mutex_);
  return {by_reason_.begin(), by_reason_.end()};
}

}  // namespace planb::server
