// SPDX-License-Identifier: Apache-2.0

#include "server/table/table.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/base/malloc_trim.h"

namespace planb::server {
namespace {

// How long after the last build retired snapshots are freed, and how often that
// is repeated while readers hold some.
constexpr absl::Duration kReclaimPeriod = absl::Milliseconds(100);
// After a build longer than kLongBuild, the rebuild job pauses for half its
// time, at most kLongestPause, to leave the cores to lookups during many
// changes.
constexpr absl::Duration kLongBuild = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(25);
// A failed build is retried after kFirstRetry. Each further pause is twice as
// long, up to kLastRetry.
constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLastRetry = absl::Seconds(5);
// Threads of a table's own executor.
constexpr size_t kOwnThreads = 2;
// After builds with this many changed routes, freed heap memory is returned to
// the system.
constexpr size_t kManyRoutes = 50'000;
// How many appends may fail before the rest of a group that found no room is
// refused.
constexpr int kStoreAttempts = 16;
// How often a batch is staged again because another server was ahead.
constexpr int kMostConflicts = 64;
// How long a lost append waits for what came before it.
constexpr absl::Duration kAwaitLost = absl::Seconds(1);
// How often AwaitFollowed() looks whether it still waits for the same.
constexpr absl::Duration kFollowPoll = absl::Milliseconds(2);

// Afterwards so many elements can be added without an allocation.
template <typename Element>
void MakeRoom(std::vector<Element>& vector, size_t more) {
  const size_t needed = vector.size() + more;
  if (needed > vector.capacity()) vector.reserve(2 * needed);
}

// Does not allocate after the first call.
const absl::Status& NoMemory() {
  static const absl::Status& status = *new absl::Status(QuotaError(
      "MEMORY_LIMIT", "memory", "no memory is left", absl::Seconds(1)));
  return status;
}

}  // namespace

size_t RemoteChange::bytes() const {
  size_t bytes = sizeof(*this);
  for (const AcceptedBatch& batch : batches) {
    bytes += sizeof(batch);
    if (batch.delta != nullptr) bytes += batch.delta->bytes();
    if (batch.request.has_value()) bytes += batch.request->request_id.size();
  }
  return bytes;
}

absl::StatusOr<Table::First> Table::Compile(const StoredTable& stored,
                                            const TableOptions& options,
                                            const Rib& rib) {
  SnapshotBuilder builder(options.build_fault, stored.fib);
  auto snapshot = builder.Build(stored.generation, rib, {});
  if (!snapshot.ok()) return snapshot.status();
  return First{std::move(builder), *std::move(snapshot)};
}

Table::Table(const StoredTable& stored, TableOptions options, Rib rib,
             First first)
    : name_(stored.name),
      store_id_(stored.id),
      fib_options_(stored.fib),
      options_(std::move(options)),
      own_executor_(options_.executor == nullptr
                        ? std::make_unique<Executor>(kOwnThreads)
                        : nullptr),
      executor_(own_executor_ == nullptr ? *options_.executor : *own_executor_),
      staging_({.limits = options_.limits,
                .fib = fib_options_,
                .request_id_window = options_.request_id_window,
                .most_request_ids = options_.most_request_ids,
                .wall_clock = options_.wall_clock,
                .steady_clock = options_.steady_clock,
                .budget = options_.budget,
                .id_budget = options_.id_budget,
                .max_delta_bytes = options_.store == nullptr
                                       ? std::numeric_limits<size_t>::max()
                                       : Store::kMaxBatchBytes},
               stored, std::move(rib)),
      builder_(std::move(first.builder)),
      retry_(kFirstRetry),
      published_(std::move(first.snapshot)),
      history_(options_.history_bytes,
               stored.tail.empty() ? stored.generation : stored.tail_generation,
               stored.tail.empty() ? staging_.Accepted().rib.digest()
                                   : stored.tail_digest),
      visibility_(executor_, stored.generation, options_.max_waiters),
      position_(stored.position),
      apply_retry_(kFirstRetry),
      build_job_(executor_, [this] { RunBuild(); }),
      commit_job_(executor_, [this] { RunCommits(); }) {
  NoMemory();
  history_.Append(stored.tail);
}

Table::~Table() {
  MutexLock lock(mutex_);
  decided_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return phase_ == Phase::kIdle || phase_ == Phase::kBehind;
  });
  stopping_ = true;
}

void Table::Operated(const OperationCounts& counts) const {
  if (options_.events.operated) options_.events.operated(counts);
}

void Table::Stage(Submitted& submitted, UpdateStaging::Prepared* prepared) {
  absl::StatusOr<UpdateStaging::Staged> staged =
      staging_.Stage(submitted.batch, prepared);
  submitted.refusal = staged.status();
  if (staged.ok()) {
    submitted.staged = *std::move(staged);
  } else {
    submitted.staged = UpdateStaging::Staged();
    submitted.staged.operations = RefusedOperations(submitted.batch);
  }
}

absl::Status Table::CheckSubmission() const {
  if (!frozen_.ok()) return frozen_;
  if (!replication_error_.ok()) return replication_error_;
  if (!behind_.ok()) return behind_;
  if (has_store() && log() == nullptr) return ReadOnly(*options_.store);
  if (pending_ < options_.max_pending_updates) return absl::OkStatus();
  return QuotaError(
      "TOO_MANY_PENDING", "pending updates",
      absl::StrCat(options_.max_pending_updates,
                   " batches wait for the store or for their rebuild"),
      absl::Milliseconds(100));
}

std::future<Table::Outcome> Table::Submit(UpdateBatch batch) {
  if (!staging_.WorthPreparing(batch)) return Submit(std::move(batch), nullptr);
  // Applied to a copy of the head, while others are staged.
  const MutexLock preparing(preparing_);
  std::optional<UpdateStaging::Prepared> prepared;
  {
    const MutexLock sequence(sequence_);
    MutexLock lock(mutex_);
    const bool refused = !CheckSubmission().ok();
    lock.unlock();
    if (!refused) prepared = staging_.Begin(batch);
  }
  if (prepared.has_value()) UpdateStaging::Prepare(batch, *prepared);
  return Submit(std::move(batch), prepared.has_value() ? &*prepared : nullptr);
}

std::future<Table::Outcome> Table::Submit(UpdateBatch batch,
                                          UpdateStaging::Prepared* prepared) {
  // Allocated before the batch is staged: an exception after that would leave a
  // generation that is never decided.
  std::list<Group> one(1);
  Submitted& submitted = one.front().batches.emplace_back();
  submitted.batch = std::move(batch);
  auto outcome = submitted.promise.get_future();
  bool begins = false;
  {
    const MutexLock sequence(sequence_);
    {
      const MutexLock lock(mutex_);
      const absl::Status refusal = CheckSubmission();
      if (!refusal.ok()) {
        Operated(RefusedOperations(submitted.batch));
        submitted.promise.set_value(refusal);
        return outcome;
      }
      MakeRoom(accepted_, pending_ + 1);
      staging_now_ = true;
    }
    try {
      Stage(submitted, prepared);
    } catch (...) {
      const MutexLock lock(mutex_);
      staging_now_ = false;
      decided_.notify_all();
      throw;
    }
    one.front().head = staging_.Head();
    const MutexLock lock(mutex_);
    staging_now_ = false;
    if (!frozen_.ok()) decided_.notify_all();
    ++pending_;
    // Nothing is undecided where the queue is idle.
    const bool decided =
        phase_ == Phase::kIdle && !others_write() && !submitted.staged.stores;
    if (!has_store() || decided) {
      Accept(one.front());
    } else if (queue_.empty() || queue_.back().closed) {
      queue_.splice(queue_.end(), one);
    } else {
      Group& last = queue_.back();
      last.batches.splice(last.batches.end(), one.front().batches);
      std::swap(last.head, one.front().head);
    }
    begins = !queue_.empty() && phase_ == Phase::kIdle;
    if (begins) phase_ = Phase::kRunning;
  }
  if (begins) AppendNext();
  return outcome;
}

void Table::Answer(Submitted& batch, absl::Time now) {
  Operated(batch.staged.operations);
  if (batch.staged.record.delta == nullptr) --pending_;
  // A named request has the time that the log has, on every server.
  if (!batch.staged.repeated && !batch.staged.record.request.has_value()) {
    batch.staged.outcome.accepted = now;
  }
  if (batch.refusal.ok()) {
    batch.promise.set_value(std::move(batch.staged.outcome));
  } else {
    batch.promise.set_value(std::move(batch.refusal));
  }
}

void Table::Refuse(Submitted& batch, const absl::Status& why) {
  Operated(AllRefused(batch.staged.operations));
  --pending_;
  batch.promise.set_value(why);
}

void Table::Accept(Group& group) {
  const absl::Time now = options_.wall_clock();
  const SteadyInstant accepted = SteadyNow();
  staging_.Accept(*group.head);
  for (Submitted& batch : group.batches) {
    if (batch.staged.record.delta != nullptr) {
      accepted_.push_back({batch.staged.record.delta, accepted, now});
    }
    Answer(batch, now);
  }
  if (!accepted_.empty()) build_job_.Schedule(std::max(accepted, next_build_));
}

void Table::Await(Phase phase, SteadyInstant at) {
  phase_ = phase;
  step_at_ = at;
  commit_job_.Schedule(at);
}

void Table::RunCommits() {
  absl::Status error;
  bool recovers = false, stopped = false;
  {
    const MutexLock lock(mutex_);
    // A job that is scheduled while it starts runs once more, and may do so
    // early. The phase says if this run has the step.
    const bool awaited = phase_ == Phase::kDue || phase_ == Phase::kBehind;
    if (!awaited || stopping_) return;
    if (SteadyNow() < step_at_) return commit_job_.Schedule(step_at_);
    phase_ = Phase::kRunning;
    error = std::exchange(append_error_, absl::OkStatus());
    recovers = !error.ok() || !remote_changes_.empty();
  }
  if (recovers) Recover(error);
  std::list<Group> ended;
  uint64_t position = 0;
  {
    const MutexLock lock(mutex_);
    ended.swap(ended_);
    if (!behind_.ok()) {
      Await(Phase::kBehind, SteadyAfter(apply_retry_));
      apply_retry_ = std::min(2 * apply_retry_, kLastRetry);
      decided_.notify_all();
      return;
    }
    position = position_;
    stopped = !replication_error_.ok();
  }
  ended.clear();  // may take long
  if (!stopped && log() != nullptr) {
    log()->OfferSnapshot(name_, store_id_, [&] {
      TableVersion version = staging_.ToStore();
      version.position = position;
      return version;
    });
  }
  AppendNext();
}

void Table::AppendNext() {
  const Group* group = nullptr;
  uint64_t position = 0;
  {
    const MutexLock lock(mutex_);
    if (!remote_changes_.empty()) return Await(Phase::kDue, SteadyNow());
    if (queue_.empty()) {
      phase_ = Phase::kIdle;
      decided_.notify_all();
      return;
    }
    queue_.front().closed = true;  // nothing else touches it until it has ended
    group = &queue_.front();
    position = position_;
  }
  const SteadyInstant began = SteadyNow();
  try {
    std::vector<AcceptedBatch> records;
    // What repeats a request that was accepted and answered holds without a
    // word of the store.
    bool asks = false;
    for (const Submitted& batch : group->batches) {
      if (batch.staged.stores) records.push_back(batch.staged.record);
      asks = asks || (others_write() && !batch.staged.repeated);
    }
    const bool appends = !records.empty();
    if (appends || asks) {
      // Without records it confirms the position.
      return log()->StartAppend(name_, store_id_, position, records,
                                [=, this](const absl::Status& status) {
                                  Appended(status, appends, began);
                                });
    }
  } catch (const std::bad_alloc&) {
    return Appended(NoMemory(), /*records=*/false, began);
  }
  Appended(absl::OkStatus(), /*records=*/false, began);
}

void Table::Appended(const absl::Status& status, bool records,
                     SteadyInstant began) {
  if (records && options_.events.stored) {
    options_.events.stored(ElapsedSince(began), status.ok());
  }
  if (records && !status.ok() && ErrorReason(status) != kStoreConflict) {
    Log(LogLevel::kError, "the store refused an update",
        {{"table", name_}, {"error", status.message()}});
  }
  const MutexLock lock(mutex_);
  ABSL_RAW_CHECK(phase_ == Phase::kRunning, "an append ends once");
  if (status.ok()) {
    if (records) ++position_;
    Accept(queue_.front());
    ended_.splice(ended_.end(), queue_, queue_.begin());
  }
  append_error_ = status;
  // What the other server appended is on the way from the store to here.
  const bool lost = IsStoreConflict(status) && remote_changes_.empty() &&
                    replication_error_.ok();
  // All that takes long is not for this thread.
  Await(Phase::kDue, lost ? SteadyAfter(kAwaitLost) : SteadyNow());
}

void Table::Recover(const absl::Status& error) {
  const MutexLock sequence(sequence_);
  staging_.Rollback();
  const absl::Status why = ApplyRemoteChanges();
  std::list<Group> queue;
  {
    const MutexLock lock(mutex_);
    if (!error.ok() && why.ok()) {
      KeepOrRefuse(error);
    } else if (!error.ok()) {
      RefuseFirst(IsStoreConflict(error) ? why : error);
    }
    // The store has entries that this table has not applied. A batch that is
    // staged here does not follow them.
    while (!why.ok() && !queue_.empty()) RefuseFirst(why);
    queue.swap(queue_);
  }
  for (Group& group : queue) {
    for (Submitted& batch : group.batches) {
      try {
        Stage(batch, nullptr);
      } catch (const std::bad_alloc&) {
        batch.staged = UpdateStaging::Staged();
        batch.staged.operations = RefusedOperations(batch.batch);
        batch.refusal = NoMemory();
      }
    }
    group.head = staging_.Head();
  }
  const MutexLock lock(mutex_);
  queue_.swap(queue);
  const absl::Time now = options_.wall_clock();
  while (!queue_.empty() && Holds(queue_.front().batches.front())) {
    Group& first = queue_.front();
    Answer(first.batches.front(), now);
    first.batches.pop_front();
    if (first.batches.empty()) queue_.pop_front();
  }
}

void Table::KeepOrRefuse(const absl::Status& error) {
  Group& first = queue_.front();
  if (IsStoreConflict(error)) {
    const uint64_t position = ConflictPosition(error);
    for (auto next = first.batches.begin(); next != first.batches.end();) {
      const auto batch = next++;
      batch->confirmed = std::min(batch->confirmed, position);
      // What holds waits for those before it only.
      if (++batch->conflicts <= kMostConflicts || Holds(*batch)) continue;
      Refuse(*batch, StoreConflict());
      first.batches.erase(batch);
    }
    // Goes on with what came meanwhile, as one. What may take long to free
    // goes to `ended_`.
    first.closed = false;
    first.no_room = 0;
    for (auto each = std::next(queue_.begin()); each != queue_.end(); ++each) {
      first.batches.splice(first.batches.end(), each->batches);
    }
    ended_.splice(ended_.end(), queue_, std::next(queue_.begin()),
                  queue_.end());
    if (first.batches.empty()) {
      ended_.splice(ended_.end(), queue_, queue_.begin());
    }
    return;
  }
  const bool no_room = absl::IsResourceExhausted(error);
  if (no_room) {
    for (Group& part : queue_) part.no_room += part.closed ? 1 : 0;
  }
  if (no_room && first.batches.size() > 1 && first.no_room <= kStoreAttempts) {
    try {
      Group& second = *queue_.emplace(std::next(queue_.begin()));
      second.closed = true;
      second.no_room = first.no_room;
      second.batches.splice(
          second.batches.end(), first.batches,
          std::next(first.batches.begin(),
                    static_cast<ptrdiff_t>(first.batches.size() / 2)),
          first.batches.end());
      return;
    } catch (const std::bad_alloc&) {
    }
  }
  RefuseFirst(error);
  // The other parts, unless another one may have room.
  while (!queue_.empty() && queue_.front().closed &&
         (!no_room || queue_.front().no_room > kStoreAttempts)) {
    RefuseFirst(error);
  }
}

void Table::RefuseFirst(const absl::Status& why) {
  for (Submitted& batch : queue_.front().batches) Refuse(batch, why);
  ended_.splice(ended_.end(), queue_, queue_.begin());
}

void Table::Follow(RemoteChange change) {
  if (!change.failed.ok()) return StopFollowing(change.failed);
  std::list<RemoteChange> replaced;  // freed without the lock
  const MutexLock lock(mutex_);
  if (!replication_error_.ok()) return;
  if (change.missed) {
    if (InStep()) in_step_ = SteadyNow();
    misses_ = true;
    return;
  }
  if (change.whole != nullptr) {
    change.position = change.whole->position;
    // The first may be applied at this moment. A whole table that goes back is
    // of another history, which only what waits can show.
    if (remote_changes_.size() > 1 &&
        change.whole->generation >= remote_generation_) {
      replaced.splice(replaced.end(), remote_changes_,
                      std::next(remote_changes_.begin()),
                      remote_changes_.end());
      remote_bytes_ = 0;
    }
    remote_generation_ = change.whole->generation;
  }
  for (const AcceptedBatch& batch : change.batches) {
    if (batch.delta != nullptr) remote_generation_ = batch.delta->generation;
  }
  if (!remote_changes_.empty()) remote_bytes_ += change.bytes();
  remote_changes_.push_back(std::move(change));
  misses_ = false;
  if (phase_ == Phase::kIdle || phase_ == Phase::kDue) {
    Await(Phase::kDue, SteadyNow());
  }
}

StoreFollower::Wants Table::wants() const {
  const MutexLock lock(mutex_);
  return remote_bytes_ < kMostRemoteBytes ? StoreFollower::Wants::kNext
                                          : StoreFollower::Wants::kNothing;
}

void Table::StopFollowing(const absl::Status& why) {
  const MutexLock lock(mutex_);
  if (!replication_error_.ok()) return;
  if (InStep()) in_step_ = SteadyNow();
  replication_error_ = why;
  if (phase_ == Phase::kDue) Await(Phase::kDue, SteadyNow());
  Log(LogLevel::kError, "a table is no longer followed",
      {{"table", name_}, {"error", why.message()}});
}

absl::Status Table::AwaitFollowed(SteadyInstant deadline) const {
  for (;;) {
    uint64_t generation = 0;
    {
      const MutexLock lock(mutex_);
      if (!replication_error_.ok()) return absl::OkStatus();
      // What is kept from it comes later.
      generation =
          misses_ ? std::numeric_limits<uint64_t>::max() : remote_generation_;
    }
    const absl::Status visible =
        AwaitVisible(generation, std::min(deadline, SteadyAfter(kFollowPoll)));
    // Or the table is deleted meanwhile.
    if (!absl::IsDeadlineExceeded(visible)) return absl::OkStatus();
    if (SteadyNow() >= deadline) return visible;
  }
}

absl::Status Table::Apply(RemoteChange& change) {
  try {
    Group group;
    absl::Status status;
    const auto add = [&](absl::StatusOr<UpdateStaging::Staged> staged) {
      status = staged.status();
      if (staged.ok()) group.batches.emplace_back().staged = *std::move(staged);
    };
    if (change.whole != nullptr) add(staging_.StageWhole(*change.whole));
    for (const AcceptedBatch& batch : change.batches) {
      if (status.ok()) add(staging_.StageAccepted(batch));
    }
    group.head = staging_.Head();
    const MutexLock lock(mutex_);
    MakeRoom(accepted_, pending_ + group.batches.size());
    pending_ += group.batches.size();
    Accept(group);
    if (status.ok()) position_ = change.position;
    return status;
  } catch (const std::bad_alloc&) {
    staging_.Rollback();
    return NoMemory();
  }
}

absl::Status Table::ApplyRemoteChanges() {
  absl::Status status;
  std::list<RemoteChange> ended;  // freed without the lock
  for (;;) {
    ended.clear();
    RemoteChange* next = nullptr;
    {
      const MutexLock lock(mutex_);
      if (remote_changes_.empty()) break;
      next = &remote_changes_.front();
    }
    status = Apply(*next);
    if (!status.ok()) break;
    const MutexLock lock(mutex_);
    ended.splice(ended.end(), remote_changes_, remote_changes_.begin());
    if (remote_changes_.empty()) continue;
    remote_bytes_ -= remote_changes_.front().bytes();
  }
  const bool behind = absl::IsResourceExhausted(status);
  const bool stops = !status.ok() && !behind;
  if (stops) {
    status = Error(status.code(), "STORE_CORRUPT", status.message());
    StopFollowing(status);
    if (others_write()) replicated()->StopTable(name_, store_id_, status);
  }
  bool was_behind = false;
  {
    const MutexLock lock(mutex_);
    if (stops) {
      ended.splice(ended.end(), remote_changes_);
      remote_bytes_ = 0;
    }
    was_behind = !behind_.ok();
    if (InStep()) in_step_ = SteadyNow();
    behind_ = behind ? status : absl::OkStatus();
    if (!behind) apply_retry_ = kFirstRetry;
    if (!replication_error_.ok()) status = replication_error_;
  }
  if (behind != was_behind) {
    try {  // to log it needs memory too
      Log(behind ? LogLevel::kError : LogLevel::kInfo,
          behind ? "what other servers did waits for memory"
                 : "what other servers did is applied again",
          {{"table", name_}});
    } catch (const std::bad_alloc&) {
    }
  }
  return status;
}

void Table::RunBuild() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  std::move(accepted_.begin(), accepted_.end(), std::back_inserter(building_));
  accepted_.clear();
  if (building_.empty()) {
    lock.unlock();
    Tidy();
    return;
  }
  const UpdateStaging::Version version = staging_.Accepted();
  lock.unlock();

  const SteadyInstant start = SteadyNow();
  const bool built = Build(version.generation, version.rib, building_);
  const absl::Duration took = ElapsedSince(start);
  absl::Duration pause;
  if (built) {
    building_.clear();
    retry_ = kFirstRetry;
    if (took > kLongBuild) pause = std::min(took / 2, kLongestPause);
  } else {
    pause = retry_;
    retry_ = std::min(2 * retry_, kLastRetry);
  }
  lock.lock();
  next_build_ = SteadyAfter(pause);
  const bool idle = accepted_.empty() && building_.empty();
  build_job_.Schedule(idle ? SteadyAfter(kReclaimPeriod) : next_build_);
}

bool Table::Build(uint64_t generation, const Rib& rib,
                  const std::vector<Accepted>& batches) {
  const SteadyInstant start = SteadyNow();
  std::vector<std::shared_ptr<const Delta>> deltas;
  for (const Accepted& batch : batches) {
    deltas.push_back(batch.delta);
    routes_built_ += batch.delta->routes.size();
  }
  const uint64_t full_before = builder_.full_builds();
  auto snapshot = builder_.Build(generation, rib, deltas);
  const RebuildRecord record = {
      .table = name_,
      .generation = generation,
      .full = builder_.full_builds() != full_before,
      .took = ElapsedSince(start),
      .at = absl::Now(),
      .error = std::string(snapshot.status().message())};
  {
    // Before the publication, so that state() of a visible generation includes
    // its build.
    const MutexLock lock(mutex_);
    builds_.set_incremental_builds(builder_.incremental_builds());
    builds_.set_full_builds(builder_.full_builds());
    builds_.set_last_build_error(record.error);
    if (snapshot.ok()) {
      builds_.set_last_build_nanos(
          static_cast<uint64_t>(absl::ToInt64Nanoseconds(record.took)));
      builds_.set_last_build_unix_nanos(
          static_cast<uint64_t>(absl::ToUnixNanos(record.at)));
    } else {
      builds_.set_failed_builds(builds_.failed_builds() + 1);
    }
  }
  if (options_.events.rebuilt) options_.events.rebuilt(record);
  if (!snapshot.ok()) {
    if (options_.events.build_failed) options_.events.build_failed();
    Log(LogLevel::kError, "a rebuild failed and will be tried again",
        {{"table", name_},
         {"generation", generation},
         {"error", snapshot.status().message()}});
    return false;
  }
  Publish(*std::move(snapshot), batches);
  if (options_.events.built) {
    options_.events.built(record.took, record.full);
  }
  return true;
}

void Table::Tidy() {
  if (Reclaim() > 0) build_job_.Schedule(SteadyAfter(kReclaimPeriod));
  if (std::exchange(routes_built_, 0) >= kManyRoutes) TrimHeap();
}

void Table::Publish(std::unique_ptr<const Snapshot> snapshot,
                    const std::vector<Accepted>& batches) {
  const uint64_t generation = snapshot->generation();
  published_.Publish(std::move(snapshot));
  const SteadyInstant now = SteadyNow();
  // Derived from the acceptances, because the wall clock may have jumped back
  // since: no batch is visible before it is accepted.
  absl::Time moment = absl::InfinitePast();
  std::vector<History::DeltaPtr> deltas;
  for (const Accepted& batch : batches) {
    moment = std::max(moment, batch.wall + absl::FromChrono(now - batch.at));
    deltas.push_back(batch.delta);
  }
  // Before the acknowledgements: a client may watch from an acknowledged
  // generation.
  history_.Append(deltas);
  {
    const MutexLock lock(mutex_);
    pending_ -= batches.size();
  }
  visibility_.Advance(generation, moment);
  if (others_write()) replicated()->Report(name_, store_id_, generation);
  for (const Accepted& batch : batches) {
    if (options_.events.visible) {
      options_.events.visible(absl::FromChrono(now - batch.at));
    }
  }
}

uint64_t Table::persisted() const {
  return durable() ? staging_.accepted_generation() : 0;
}

size_t Table::Reclaim() const {
  const void* const visible = Read()->fib(Family::kIpv6).memory();
  absl::flat_hash_set<const void*> counted = {
      visible, Read()->fib(Family::kIpv4).memory()};
  return published_.Reclaim([&counted](const Snapshot& snapshot) {
    size_t bytes = 0;
    for (Family family : {Family::kIpv4, Family::kIpv6}) {
      const Fib& fib = snapshot.fib(family);
      bytes +=
          counted.insert(fib.memory()).second ? fib.bytes() : Fib::own_bytes();
    }
    return bytes;
  });
}

std::string Table::replication_error() const {
  const MutexLock lock(mutex_);
  const absl::Status& why =
      replication_error_.ok() ? behind_ : replication_error_;
  return why.ok() && misses_ ? "more came than may wait; it is read again"
                             : std::string(why.message());
}

absl::Duration Table::out_of_step() const {
  const MutexLock lock(mutex_);
  return InStep() ? absl::ZeroDuration() : ElapsedSince(in_step_);
}

void Table::Freeze(absl::Status why, SteadyInstant deadline) {
  MutexLock lock(mutex_);
  frozen_ = std::move(why);
  decided_.wait_until(
      lock, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !staging_now_ &&
               (phase_ == Phase::kIdle || phase_ == Phase::kBehind);
      });
}

void Table::Thaw() {
  const MutexLock lock(mutex_);
  frozen_ = absl::OkStatus();
}

absl::Status Table::refusal() const {
  const MutexLock lock(mutex_);
  return frozen_;
}

void Table::Close(const absl::Status& why, SteadyInstant deadline) {
  uint64_t last = 0;
  {
    const MutexLock lock(mutex_);
    ABSL_RAW_CHECK(!frozen_.ok(), "the table must be frozen");
    last = staging_.accepted_generation();
  }
  AwaitVisible(last, deadline).IgnoreError();
  history_.Close(why);
  visibility_.Close(why);
}

}  // namespace planb::server
