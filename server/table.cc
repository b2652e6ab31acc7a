#include "server/table.h"

#include <chrono>
#include <limits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/error.h"

namespace planb::server {
namespace {

// How often a retired snapshot is looked after when nothing is published.
constexpr auto kReclaimPeriod = std::chrono::milliseconds(100);

size_t FibBytes(const Snapshot& snapshot) { return snapshot.fib_bytes(); }

std::unique_ptr<const Snapshot> EmptySnapshot() {
  return Snapshot::Compile(0, {}, std::make_shared<const NextHopMap>());
}

}  // namespace

Table::Table(TableOptions options)
    : options_(std::move(options)),
      published_(EmptySnapshot()),
      acks_(std::numeric_limits<size_t>::max()),
      waiters_(options_.max_waiters),
      rib_(options_.limits),
      rebuilder_([this] { RebuildLoop(); }) {}

Table::~Table() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  rebuilder_.join();
}

absl::StatusOr<UpdateOutcome> Table::Apply(const UpdateBatch& batch) {
  const std::lock_guard lock(mutex_);
  return ApplyLocked(batch);
}

absl::StatusOr<UpdateOutcome> Table::ApplyLocked(const UpdateBatch& batch) {
  if (draining_) {
    return Error(absl::StatusCode::kUnavailable, "DRAINING",
                 "the server is going down");
  }
  if (!batch.request_id.empty()) {
    const auto it = answered_.find(batch.request_id);
    if (it != answered_.end()) {
      if (it->second.fingerprint == batch.fingerprint) {
        return it->second.outcome;
      }
      return FieldError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                        "request_id",
                        "names an earlier request with other contents");
    }
  }
  if (batch.expected_generation.has_value() &&
      *batch.expected_generation != accepted_) {
    return FieldError(absl::StatusCode::kAborted, "GENERATION_MISMATCH",
                      "expected_generation",
                      absl::StrCat("the table is at generation ", accepted_,
                                   ", not ", *batch.expected_generation));
  }
  if (accepted_ - visible_ >= options_.max_pending_updates) {
    return QuotaError("TOO_MANY_PENDING", "pending updates",
                      absl::StrCat(options_.max_pending_updates,
                                   " accepted batches await their rebuild"),
                      absl::Milliseconds(100));
  }
  // Said before the batch is in: afterwards it would be a lie.
  if (acks_.size() >= options_.max_waiters) {
    return QuotaError("TOO_MANY_WAITERS", "waiters",
                      "too many updates wait for their acknowledgement",
                      absl::Milliseconds(100));
  }
  const absl::StatusOr<ChangeCounts> counts =
      rib_.Check(batch.changes, batch.next_hops, batch.require_next_hops);
  if (!counts.ok()) return counts.status();
  UpdateOutcome outcome = {accepted_, *counts, rib_.digest(), absl::Now()};
  if (batch.validate_only) return outcome;
  if (counts->Any()) {
    rib_.Apply(batch.changes, batch.next_hops);
    outcome.generation = ++accepted_;
    outcome.digest = rib_.digest();
    work_.notify_one();
  }
  Remember(batch, outcome);
  return outcome;
}

void Table::Remember(const UpdateBatch& batch, const UpdateOutcome& outcome) {
  if (batch.request_id.empty() || options_.request_id_window == 0) return;
  if (answered_order_.size() == options_.request_id_window) {
    answered_.erase(answered_order_.front());
    answered_order_.pop_front();
  }
  answered_order_.push_back(batch.request_id);
  answered_[batch.request_id] = {batch.fingerprint, outcome};
}

void Table::WhenAcknowledged(uint64_t generation, absl::Time deadline,
                             Waiters::Callback done) {
  const absl::Status waits = acks_.Wait(generation, deadline, std::move(done));
  ABSL_RAW_CHECK(waits.ok(), "acks are not limited");
}

void Table::AwaitVisible(uint64_t generation, absl::Time deadline) {
  absl::Notification visible;
  WhenAcknowledged(generation, deadline,
                   [&visible](const absl::Status&) { visible.Notify(); });
  visible.WaitForNotification();
}

void Table::Drain(absl::Time deadline) {
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    last = accepted_;
  }
  AwaitVisible(last, deadline);
  acks_.Close();
  waiters_.Close();
}

TableState Table::state() const {
  TableState state;
  state.retired_fib_bytes = published_.Reclaim(FibBytes);
  {
    const auto snapshot = published_.Read();
    state.fib_bytes = snapshot->fib_bytes();
    state.intervals_v4 = snapshot->intervals(Family::kIpv4);
    state.intervals_v6 = snapshot->intervals(Family::kIpv6);
  }
  const std::lock_guard lock(mutex_);
  state.accepted = accepted_;
  state.visible = visible_;
  state.lengths_v4 = rib_.lengths(Family::kIpv4);
  state.lengths_v6 = rib_.lengths(Family::kIpv6);
  state.routes_v4 = rib_.size(Family::kIpv4);
  state.routes_v6 = rib_.size(Family::kIpv6);
  state.next_hops = rib_.next_hops()->size();
  state.digest = rib_.digest();
  state.rib_bytes = rib_.bytes();
  state.rebuilds = rebuilds_;
  state.last_build = last_build_;
  state.last_build_at = last_build_at_;
  state.max_routes = options_.limits.max_routes;
  return state;
}

void Table::RebuildLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (accepted_ == visible_) {
      work_.wait_for(lock, kReclaimPeriod);
      if (accepted_ == visible_) {
        // Nothing new; free what slow readers held at the last swap.
        lock.unlock();
        published_.Reclaim(FibBytes);
        lock.lock();
      }
      continue;
    }
    const uint64_t generation = accepted_;
    std::vector<Route> routes = rib_.Routes();
    std::shared_ptr<const NextHopMap> next_hops = rib_.next_hops();
    lock.unlock();

    const absl::Time start = absl::Now();
    auto snapshot =
        Snapshot::Compile(generation, std::move(routes), std::move(next_hops));
    published_.Publish(std::move(snapshot));
    const absl::Time end = absl::Now();
    options_.on_rebuild(absl::ToDoubleSeconds(end - start));

    lock.lock();
    visible_ = generation;
    ++rebuilds_;
    last_build_ = end - start;
    last_build_at_ = end;
    lock.unlock();
    acks_.Advance(generation);
    waiters_.Advance(generation);
    lock.lock();
  }
}

}  // namespace planb::server
