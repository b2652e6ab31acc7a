// SPDX-License-Identifier: Apache-2.0

// Sends the current batch before it waits for the next change.

#include "client/load/update_replayer.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/call.h"

namespace planb::client {
namespace {

ReplayOptions Normalized(ReplayOptions options) {
  options.batch = std::max<size_t>(options.batch, 1);
  return options;
}

}  // namespace

UpdateReplayer::UpdateReplayer(const std::shared_ptr<grpc::Channel>& channel,
                               const ReplayOptions& options)
    : options_(Normalized(options)),
      start_(MonotonicNow()),
      stream_(channel, options.stream,
              [this](const UpdateReply& reply) { OnReply(reply); }) {}

absl::Status UpdateReplayer::OnNextHop(const NextHop& next_hop) {
  next_hops_[next_hop.id] = next_hop;
  return absl::OkStatus();
}

absl::Status UpdateReplayer::OnChanges(
    const std::vector<TraceChange>& changes) {
  for (const TraceChange& change : changes) {
    const absl::Time due = DueTime(change.at);
    if (due > MonotonicNow()) {
      absl::Status status = SendBatch();
      if (!status.ok()) return status;
      absl::SleepFor(due - MonotonicNow());
    }
    absl::Status status = AddChange(change.route, due);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplayReport> UpdateReplayer::Finish() {
  absl::Status status = SendBatch();
  if (!status.ok()) return status;
  status = stream_.Finish(Deadline::After(options_.timeout));
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  report_.took = MonotonicNow() - start_;
  if (recorded_first_.has_value()) {
    report_.recorded = recorded_last_ - *recorded_first_;
  }
  return report_;
}

absl::Time UpdateReplayer::DueTime(absl::Time at) {
  if (!recorded_first_.has_value()) recorded_first_ = recorded_last_ = at;
  recorded_last_ = std::max(recorded_last_, at);
  if (options_.speed <= 0) return absl::InfinitePast();
  return start_ + (at - *recorded_first_) / options_.speed;
}

absl::Status UpdateReplayer::AddChange(const Route& route, absl::Time due) {
  if (routes_.size() == options_.batch || routes_.contains(route.prefix)) {
    absl::Status status = SendBatch();
    if (!status.ok()) return status;
  }
  if (routes_.empty()) due_ = due;
  routes_[route.prefix] = route.next_hop;
  return absl::OkStatus();
}

absl::Status UpdateReplayer::SendBatch() {
  if (routes_.empty() && next_hops_.empty()) return absl::OkStatus();
  v1::StreamUpdatesRequest batch;
  batch.set_require_next_hops(options_.require_next_hops);
  for (const auto& [prefix, next_hop] : routes_) {
    *batch.add_updates() = ToUpdate({prefix, next_hop});
  }
  for (const auto& [id, next_hop] : next_hops_) {
    *batch.add_next_hops() = ToProto(next_hop);
  }
  const absl::Time now = MonotonicNow();
  const bool timed = options_.speed > 0 && !routes_.empty();
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time due = timed ? due_ : now;
    in_flight_.push_back(due);
    report_.send_lag.Add(now - due);
    ++report_.batches;
    report_.changes += routes_.size();
    report_.next_hops += next_hops_.size();
  }
  routes_.clear();
  next_hops_.clear();
  return stream_.Send(std::move(batch), Deadline::After(options_.timeout))
      .status();
}

void UpdateReplayer::OnReply(const UpdateReply& reply) {
  const absl::Time now = MonotonicNow();
  absl::MutexLock lock(&mutex_);
  report_.answer_lag.Add(now - in_flight_.front());
  in_flight_.pop_front();
  if (reply.status.ok()) {
    report_.generation = reply.response.generation();
    report_.visible_generation = reply.response.visible_generation();
  } else if (report_.refused++ == 0) {
    report_.first_refusal = reply.status;
  }
}

}  // namespace planb::client
