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
      store_job_(executor_, [this] { RunStore(); }) {
  NoMemory();
  history_.Append(stored.tail);
}

Table::~Table() {
  MutexLock lock(mutex_);
  stored_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return submitted_.empty() && !storing_;
  });
  stopping_ = true;
}

std::future<Table::Outcome> Table::Refuse(const UpdateBatch& batch,
                                          absl::Status why) const {
  Operated(RefusedOperations(batch));
  std::promise<Outcome> promise;
  promise.set_value(std::move(why));
  return promise.get_future();
}

void Table::Refuse(absl::Span<Submitted> group, const absl::Status& why) const {
  for (Submitted& submitted : group) {
    Operated(AllRefused(submitted.operations));
    submitted.promise.set_value(why);
  }
}

void Table::Operated(const OperationCounts& counts) const {
  if (options_.events.operated) options_.events.operated(counts);
}

void Table::Stage(const UpdateBatch& batch, UpdateStaging::Prepared* prepared,
                  Submitted& submitted) {
  absl::StatusOr<UpdateStaging::Staged> staged =
      staging_.Stage(batch, prepared);
  submitted.refusal = staged.status();
  if (staged.ok()) {
    submitted.staged = *std::move(staged);
    submitted.operations = submitted.staged.operations;
  } else {
    submitted.staged = {};
    submitted.operations = RefusedOperations(batch);
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

std::optional<UpdateStaging::Prepared> Table::Prepare(
    const UpdateBatch& batch) {
  std::optional<UpdateStaging::Prepared> prepared;
  {
    const MutexLock sequence(sequence_);
    {
      const MutexLock lock(mutex_);
      if (!CheckSubmission().ok()) return std::nullopt;
    }
    prepared = staging_.Begin(batch);
  }
  if (!prepared.has_value()) return prepared;
  try {
    UpdateStaging::Prepare(batch, *prepared);
  } catch (...) {
    const MutexLock sequence(sequence_);
    staging_.Forget();
    throw;
  }
  return prepared;
}

std::future<Table::Outcome> Table::Submit(UpdateBatch batch) {
  if (!staging_.WorthPreparing(batch)) return Submit(std::move(batch), nullptr);
  const MutexLock preparing(preparing_);
  auto prepared = Prepare(batch);
  return Submit(std::move(batch), prepared.has_value() ? &*prepared : nullptr);
}

std::future<Table::Outcome> Table::Submit(UpdateBatch batch,
                                          UpdateStaging::Prepared* prepared) {
  MutexLock sequence(sequence_);
  Submitted submitted;
  auto outcome = submitted.promise.get_future();
  {
    const MutexLock lock(mutex_);
    const absl::Status refusal = CheckSubmission();
    if (!refusal.ok()) {
      if (prepared != nullptr) staging_.Forget();
      return Refuse(batch, refusal);
    }
    // Allocated before the batch is staged: an exception after that would leave
    // a generation that is never decided.
    MakeRoom(submitted_, 1);
    MakeRoom(accepted_, pending_ + 1);
    staging_now_ = true;
  }
  try {
    Stage(batch, prepared, submitted);
  } catch (...) {
    const MutexLock lock(mutex_);
    staging_now_ = false;
    stored_.notify_all();
    throw;
  }
  UpdateStaging::Version head = staging_.Head();
  if (has_store()) submitted.batch = std::move(batch);
  bool stores = false;
  {
    const MutexLock lock(mutex_);
    staging_now_ = false;
    if (!frozen_.ok()) stored_.notify_all();
    // A refusal may depend on undecided batches, on their routes, generation or
    // writer epoch. The store may still refuse those, so the answer waits for
    // them; or for the store's word that no other server is ahead.
    const bool undecided = storing_ || !submitted_.empty() || others_write();
    if (!submitted.refusal.ok() && !undecided) {
      Refuse({&submitted, 1}, submitted.refusal);
      return outcome;
    }
    if (submitted.staged.record.delta != nullptr) ++pending_;
    submitted_.push_back(std::move(submitted));
    if (has_store()) {
      submitted_head_ = std::move(head);
      stores = !std::exchange(storing_, true);
    } else {
      Accept(absl::MakeSpan(submitted_), head);
      submitted_.clear();
    }
  }
  sequence.unlock();
  if (stores) StoreGroup();
  return outcome;
}

void Table::Answer(Submitted& batch, absl::Time now) const {
  Operated(batch.operations);
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

void Table::Accept(absl::Span<Submitted> group, UpdateStaging::Version& head) {
  const absl::Time now = options_.wall_clock();
  const SteadyInstant accepted = SteadyNow();
  staging_.Accept(head);
  for (Submitted& batch : group) {
    if (batch.staged.record.delta != nullptr) {
      accepted_.push_back({batch.staged.record.delta, accepted, now});
    }
    Answer(batch, now);
  }
  if (!accepted_.empty()) build_job_.Schedule(std::max(accepted, next_build_));
}

std::vector<AcceptedBatch> Table::Records(absl::Span<const Submitted> group) {
  std::vector<AcceptedBatch> records;
  for (const Submitted& batch : group) {
    if (batch.staged.stores) records.push_back(batch.staged.record);
  }
  return records;
}

size_t Table::CountChanges(absl::Span<const Submitted> group) {
  return static_cast<size_t>(
      std::count_if(group.begin(), group.end(), [](const Submitted& batch) {
        return batch.staged.record.delta != nullptr;
      }));
}

bool Table::NeedsStore(absl::Span<const Submitted> group) const {
  return std::any_of(group.begin(), group.end(), [&](const Submitted& batch) {
    return batch.staged.stores || (others_write() && !batch.staged.repeated);
  });
}

void Table::StoreGroup() {
  {
    const MutexLock lock(mutex_);
    if (!remote_changes_.empty()) return ScheduleStep(SteadyNow());
    storing_ = !submitted_.empty();
    stored_.notify_all();
    if (!storing_) return;
    group_.swap(submitted_);
    group_head_.swap(submitted_head_);
  }
  store_began_ = SteadyNow();
  try {
    const std::vector<AcceptedBatch> records = Records(group_);
    if (!NeedsStore(group_)) return Stored(absl::OkStatus());
    // Without records it confirms the position.
    const bool appends = !records.empty();
    log()->StartAppend(name_, store_id_, position_, records,
                       [this, appends](const absl::Status& s) {
                         if (appends) StoreEnded(store_began_, s);
                         if (appends && s.ok()) ++position_;
                         Stored(s);
                       });
  } catch (const std::bad_alloc&) {
    Stored(NoMemory());
  }
}

void Table::StoreEnded(SteadyInstant began, const absl::Status& status) const {
  if (options_.events.stored) {
    options_.events.stored(ElapsedSince(began), status.ok());
  }
  if (status.ok() || ErrorReason(status) == kStoreConflict) return;
  Log(LogLevel::kError, "the store refused an update",
      {{"table", name_}, {"error", status.message()}});
}

void Table::Stored(const absl::Status& status) {
  const MutexLock lock(mutex_);
  store_error_ = status;
  if (status.ok()) Accept(absl::MakeSpan(group_), *group_head_);
  // All that takes long is not for this thread.
  ScheduleStep(SteadyNow());
}

void Table::ScheduleStep(SteadyInstant at) {
  step_due_ = true;
  store_job_.Schedule(at);
}

void Table::RunStore() {
  bool recovers = false;
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(step_due_, false)) return;
    recovers = !store_error_.ok();
    if (!behind_.ok()) {
      if (stopping_) return;
      storing_ = true;
    }
    recovers = recovers || !behind_.ok() || !remote_changes_.empty();
    // What the other server appended is on the way from the store to here.
    if (IsStoreConflict(store_error_) && remote_changes_.empty() &&
        replication_error_.ok()) {
      if (!lost_until_.has_value()) lost_until_ = SteadyAfter(kAwaitLost);
      if (SteadyNow() < *lost_until_) return ScheduleStep(*lost_until_);
    }
    lost_until_.reset();
  }
  if (recovers) Recover();
  Group().swap(group_);
  group_head_.reset();
  store_error_ = absl::OkStatus();
  bool stopped = false;
  {
    const MutexLock lock(mutex_);
    stopped = !replication_error_.ok();
    if (!behind_.ok()) {
      // Nothing waits for this, not even the end of the table.
      storing_ = false;
      stored_.notify_all();
      ScheduleStep(SteadyAfter(apply_retry_));
      apply_retry_ = std::min(2 * apply_retry_, kLastRetry);
      return;
    }
  }
  if (!stopped && log() != nullptr) {
    log()->OfferSnapshot(name_, store_id_, [this] {
      TableVersion version = staging_.ToStore();
      version.position = position_;
      return version;
    });
  }
  StoreGroup();
}

void Table::Add(RemoteChange change) {
  const MutexLock lock(mutex_);
  if (!replication_error_.ok()) return;
  if (change.whole != nullptr) {
    remote_generation_ = change.whole->generation;
  }
  for (const AcceptedBatch& batch : change.batches) {
    if (batch.delta == nullptr) continue;
    remote_generation_ = batch.delta->generation;
  }
  remote_changes_.push_back(std::move(change));
  if (lost_until_.has_value()) return store_job_.ScheduleNow();
  // The job that ends the append applies it, or the one that tries again.
  if (storing_ || !behind_.ok()) return;
  storing_ = true;
  ScheduleStep(SteadyNow());
}

void Table::RemoteAppended(uint64_t position,
                           std::vector<AcceptedBatch> batches) {
  Add({.position = position, .batches = std::move(batches)});
}

void Table::RemoteReplaced(StoredTable whole) {
  Add({.position = whole.position,
       .whole = std::make_unique<StoredTable>(std::move(whole))});
}

void Table::RemoteFailed(const absl::Status& why) {
  const MutexLock lock(mutex_);
  if (!replication_error_.ok()) return;
  replication_error_ = why;
  if (lost_until_.has_value()) store_job_.ScheduleNow();
  Log(LogLevel::kError, "a table is no longer followed",
      {{"table", name_}, {"error", why.message()}});
}

absl::Status Table::AwaitFollowed(SteadyInstant deadline) const {
  for (;;) {
    uint64_t generation = 0;
    {
      const MutexLock lock(mutex_);
      if (!replication_error_.ok()) return absl::OkStatus();
      generation = remote_generation_;
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
      if (staged.ok()) group.emplace_back().staged = *std::move(staged);
    };
    if (change.whole != nullptr) {
      add(staging_.StageWhole(*change.whole));
    }
    for (const AcceptedBatch& batch : change.batches) {
      if (status.ok()) add(staging_.StageAccepted(batch));
    }
    UpdateStaging::Version head = staging_.Head();
    const MutexLock lock(mutex_);
    const size_t changes = CountChanges(group);
    MakeRoom(accepted_, pending_ + changes);
    pending_ += changes;
    Accept(absl::MakeSpan(group), head);
    if (status.ok()) position_ = change.position;
    return status;
  } catch (const std::bad_alloc&) {
    staging_.Rollback();
    return NoMemory();
  }
}

absl::Status Table::ApplyRemoteChanges() {
  absl::Status behind;
  size_t applied = 0;
  for (; applied < unapplied_.size(); ++applied) {
    const absl::Status status = Apply(unapplied_[applied]);
    if (status.ok()) continue;
    if (absl::IsResourceExhausted(status)) {
      behind = status;
      break;
    }
    const absl::Status why =
        Error(status.code(), "STORE_CORRUPT", status.message());
    RemoteFailed(why);
    if (others_write()) replicated()->StopTable(name_, store_id_, why);
    applied = unapplied_.size();
    break;
  }
  unapplied_.erase(unapplied_.begin(),
                   unapplied_.begin() + static_cast<ptrdiff_t>(applied));
  if (behind.ok()) apply_retry_ = kFirstRetry;
  absl::Status before = behind;
  absl::Status replication_error;
  {
    const MutexLock lock(mutex_);
    std::swap(behind_, before);
    replication_error = replication_error_;
  }
  if (behind.ok() != before.ok()) {
    try {  // to log it needs memory too
      Log(behind.ok() ? LogLevel::kInfo : LogLevel::kError,
          behind.ok() ? "what other servers did is applied again"
                      : "what other servers did waits for memory",
          {{"table", name_}});
    } catch (const std::bad_alloc&) {
    }
  }
  return replication_error.ok() ? behind : replication_error;
}

void Table::Recover() {
  const MutexLock sequence(sequence_);
  staging_.Rollback();
  Group later;
  {
    const MutexLock lock(mutex_);
    later.swap(submitted_);
    submitted_head_.reset();
    if (unapplied_.empty()) unapplied_.swap(remote_changes_);
    pending_ -= CountChanges(later);
    if (!store_error_.ok()) pending_ -= CountChanges(group_);
  }
  const absl::Status why = ApplyRemoteChanges();
  // The store has entries that this table has not applied. A batch that is
  // staged here does not follow them.
  if (!why.ok()) {
    Refuse(absl::MakeSpan(later), why);
    later.clear();
  }
  if (!why.ok() && !store_error_.ok()) {
    Refuse(absl::MakeSpan(group_),
           IsStoreConflict(store_error_) ? why : store_error_);
  } else if (IsStoreConflict(store_error_)) {
    StageGroupAgain(later);
  } else if (absl::IsResourceExhausted(store_error_) && group_.size() > 1) {
    const auto half = group_.size() / 2;
    int attempts = kStoreAttempts;
    StoreParts(absl::MakeSpan(group_).first(half), attempts);
    StoreParts(absl::MakeSpan(group_).subspan(half), attempts);
  } else if (!store_error_.ok()) {
    Refuse(absl::MakeSpan(group_), store_error_);
  }
  for (Submitted& submitted : later) StageAgain(submitted);
  const auto rest =
      std::find_if_not(later.begin(), later.end(),
                       [this](const Submitted& each) { return Holds(each); });
  for (auto held = later.begin(); held != rest; ++held) {
    Answer(*held, options_.wall_clock());
  }
  later.erase(later.begin(), rest);
  const MutexLock lock(mutex_);
  try {
    // Some came to change something.
    MakeRoom(accepted_, pending_ + CountChanges(later));
  } catch (const std::bad_alloc&) {
    staging_.Rollback();
    Refuse(absl::MakeSpan(later), NoMemory());
    later.clear();
  }
  submitted_ = std::move(later);
  submitted_head_ = staging_.Head();
  pending_ += CountChanges(submitted_);
}

void Table::StageGroupAgain(Group& later) {
  const uint64_t position = ConflictPosition(store_error_);
  std::erase_if(group_, [&](Submitted& submitted) {
    submitted.confirmed = std::min(submitted.confirmed, position);
    // What holds waits for those before it only.
    if (++submitted.conflicts <= kMostConflicts || Holds(submitted)) {
      return false;
    }
    Refuse({&submitted, 1}, StoreConflict());
    return true;
  });
  try {
    later.insert(later.begin(), std::make_move_iterator(group_.begin()),
                 std::make_move_iterator(group_.end()));
  } catch (const std::bad_alloc&) {
    Refuse(absl::MakeSpan(group_), NoMemory());
  }
}

void Table::StageAgain(Submitted& submitted) {
  try {
    Stage(submitted.batch, nullptr, submitted);
  } catch (const std::bad_alloc&) {
    submitted.staged = {};
    submitted.refusal = NoMemory();
    submitted.operations = RefusedOperations(submitted.batch);
  }
}

void Table::StoreParts(absl::Span<Submitted> part, int& attempts) {
  for (Submitted& submitted : part) StageAgain(submitted);
  UpdateStaging::Version head = staging_.Head();
  absl::Status status;
  try {
    const std::vector<AcceptedBatch> records = Records(part);
    {
      const MutexLock lock(mutex_);
      MakeRoom(accepted_, pending_ + CountChanges(part));
    }
    if (attempts <= 0) status = store_error_;
    if (status.ok() && NeedsStore(part)) {
      const SteadyInstant began = SteadyNow();
      status = log()->Append(name_, records, position_, store_id_);
      if (status.ok() && !records.empty()) ++position_;
      if (!records.empty()) StoreEnded(began, status);
    }
  } catch (const std::bad_alloc&) {
    status = NoMemory();
  }
  if (status.ok()) {
    const MutexLock lock(mutex_);
    pending_ += CountChanges(part);
    return Accept(part, head);
  }
  staging_.Rollback();
  --attempts;
  store_error_ = status;
  if (part.size() == 1 || attempts <= 0 || !absl::IsResourceExhausted(status)) {
    return Refuse(part, IsStoreConflict(status) ? StoreConflict() : status);
  }
  StoreParts(part.first(part.size() / 2), attempts);
  StoreParts(part.subspan(part.size() / 2), attempts);
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
  return std::string(
      (replication_error_.ok() ? behind_ : replication_error_).message());
}

void Table::Freeze(absl::Status why, SteadyInstant deadline) {
  MutexLock lock(mutex_);
  frozen_ = std::move(why);
  stored_.wait_until(lock, deadline,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                       return !staging_now_ && submitted_.empty() && !storing_;
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
