// SPDX-License-Identifier: Apache-2.0

#include "server/table/table.h"

#include <algorithm>
#include <iterator>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

std::unique_ptr<const Snapshot> FirstSnapshot(SnapshotBuilder& builder,
                                              UpdateStaging::Version& version) {
  auto snapshot = builder.Build(version.generation, version.rib, {});
  ABSL_RAW_CHECK(snapshot.ok(), snapshot.status().ToString().c_str());
  return *std::move(snapshot);
}

}  // namespace

Table::Table(const StoredTable& stored, TableOptions options)
    : name_(stored.name),
      options_(std::move(options)),
      staging_({options_.limits, options_.request_id_window, options_.budget},
               stored),
      builder_(options_.build_fault),
      published_(FirstSnapshot(builder_, staging_.accepted())),
      history_(options_.history_bytes, stored.generation,
               staging_.accepted().rib.digest()),
      visibility_(stored.generation),
      waiters_(options_.max_waiters),
      rebuilder_([this] { BuildLoop(); }) {
  waiters_.Advance(stored.generation);
  if (durable()) storer_ = std::thread([this] { StoreLoop(); });
}

Table::~Table() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  to_store_.notify_one();
  to_build_.notify_one();
  if (storer_.joinable()) storer_.join();
  rebuilder_.join();
}

std::future<Table::Outcome> Table::Refuse(const UpdateBatch& batch,
                                          absl::Status why) const {
  Operated(RefusedOperations(batch));
  std::promise<Outcome> promise;
  promise.set_value(std::move(why));
  return promise.get_future();
}

void Table::Operated(const OperationCounts& counts) const {
  if (options_.events.operated) options_.events.operated(counts);
}

std::future<Table::Outcome> Table::Submit(const UpdateBatch& batch) {
  const std::lock_guard lock(mutex_);
  if (!frozen_.ok()) return Refuse(batch, frozen_);
  if (staging_.generation() - visibility_.generation() >=
      options_.max_pending_updates) {
    const auto why =
        absl::StrCat(options_.max_pending_updates,
                     " batches wait for the store or for their rebuild");
    return Refuse(batch, QuotaError("TOO_MANY_PENDING", "pending updates", why,
                                    absl::Milliseconds(100)));
  }
  absl::StatusOr<UpdateStaging::Staged> staged = staging_.Stage(batch);
  // A refusal, too, rests on those before: it may be their routes, generation
  // or epoch that it names, and they may yet be lost.
  const bool unsure = storing_ || !submitted_.empty();
  if (!staged.ok() && !unsure) return Refuse(batch, staged.status());
  Submitted& submitted = submitted_.emplace_back();
  submitted.refusal = staged.status();
  if (staged.ok()) {
    submitted.staged = *std::move(staged);
    submitted.operations =
        AppliedOperations(batch, submitted.staged.record.delta.get());
  } else {
    submitted.operations = RefusedOperations(batch);
  }
  auto outcome = submitted.promise.get_future();
  if (durable()) {
    to_store_.notify_one();
  } else {
    Decide(submitted_, staging_.Head(), absl::OkStatus());
    submitted_.clear();
  }
  return outcome;
}

void Table::StoreLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    to_store_.wait(lock, [this] { return stopping_ || !submitted_.empty(); });
    if (submitted_.empty()) return;
    std::vector<Submitted> batches;
    batches.swap(submitted_);
    UpdateStaging::Version head = staging_.Head();
    storing_ = true;
    lock.unlock();
    const absl::Status stored = Store(batches);
    lock.lock();
    storing_ = false;
    Decide(batches, std::move(head), stored);
    stored_.notify_all();
  }
}

absl::Status Table::Store(const std::vector<Submitted>& batches) {
  std::vector<AcceptedBatch> records;
  for (const Submitted& batch : batches) {
    if (batch.staged.stores) records.push_back(batch.staged.record);
  }
  if (records.empty()) return absl::OkStatus();
  const SteadyInstant start = SteadyNow();
  absl::Status status = options_.store->Commit(name_, records);
  if (options_.events.stored) {
    options_.events.stored(ElapsedSince(start), status.ok());
  }
  if (!status.ok()) {
    Log(LogLevel::kError, "the store refused an update",
        {{"table", name_}, {"error", status.message()}});
  }
  return status;
}

void Table::Decide(std::vector<Submitted>& batches, UpdateStaging::Version head,
                   const absl::Status& stored) {
  if (!stored.ok()) {
    // What was staged since rests on what is taken back.
    staging_.Rollback();
    std::move(submitted_.begin(), submitted_.end(),
              std::back_inserter(batches));
    submitted_.clear();
    for (Submitted& batch : batches) {
      Operated(AllRefused(batch.operations));
      batch.promise.set_value(stored);
    }
    return;
  }
  const absl::Time now = absl::Now();
  const SteadyInstant accepted = SteadyNow();
  staging_.Accept(std::move(head), now);
  for (Submitted& batch : batches) {
    Operated(batch.operations);
    if (batch.staged.record.delta != nullptr) {
      accepted_.push_back({batch.staged.record.delta, accepted});
    }
    if (!batch.staged.repeated) batch.staged.outcome.accepted = now;
    if (batch.refusal.ok()) {
      batch.promise.set_value(std::move(batch.staged.outcome));
    } else {
      batch.promise.set_value(std::move(batch.refusal));
    }
  }
  to_build_.notify_one();
}

uint64_t Table::persisted() const {
  if (!durable()) return 0;
  const std::lock_guard lock(mutex_);
  return staging_.accepted().generation;
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

TableState Table::state() const {
  TableState state;
  state.name = name_;
  state.retired_fib_bytes = Reclaim();
  const auto oldest = published_.OldestRetired();
  if (oldest.has_value()) state.oldest_fib_age = absl::FromChrono(*oldest);
  {
    const auto snapshot = published_.Read();
    state.fib_bytes = snapshot->fib_bytes();
    state.intervals_v4 = snapshot->intervals(Family::kIpv4);
    state.intervals_v6 = snapshot->intervals(Family::kIpv6);
  }
  state.history_bytes = history_.bytes();
  state.oldest_watch = history_.oldest();
  state.max_routes = options_.limits.max_routes;
  if (options_.budget != nullptr) state.memory_limit = options_.budget->limit();
  if (durable()) {
    state.store = std::string(options_.store->kind());
    state.store_path = options_.store->path();
  }
  const std::lock_guard lock(mutex_);
  const UpdateStaging::Version& accepted = staging_.accepted();
  state.accepted = accepted.generation;
  // What lookups see, which those who wait learn of a moment later.
  state.visible = Read()->generation();
  state.persisted = durable() ? accepted.generation : 0;
  state.writer_epoch = accepted.writer_epoch;
  state.memory_bound = accepted.memory_bound;
  const Rib& rib = accepted.rib;
  state.lengths_v4 = rib.lengths(Family::kIpv4);
  state.lengths_v6 = rib.lengths(Family::kIpv6);
  state.routes_v4 = rib.routes(Family::kIpv4).size();
  state.routes_v6 = rib.routes(Family::kIpv6).size();
  state.next_hops = rib.next_hops().next_hops()->size();
  state.groups = rib.next_hops().groups()->size();
  state.digest = rib.digest();
  state.rib_bytes = rib.bytes();
  state.builds = builds_;
  return state;
}

void Table::Freeze(absl::Status why) {
  std::unique_lock lock(mutex_);
  frozen_ = std::move(why);
  stored_.wait(lock, [this] { return submitted_.empty() && !storing_; });
}

void Table::Thaw() {
  const std::lock_guard lock(mutex_);
  frozen_ = absl::OkStatus();
}

absl::Status Table::refusal() const {
  const std::lock_guard lock(mutex_);
  return frozen_;
}

void Table::Close(const absl::Status& why, SteadyInstant deadline) {
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    ABSL_RAW_CHECK(!frozen_.ok(), "Freeze comes first");
    last = staging_.accepted().generation;
  }
  AwaitVisible(last, deadline).IgnoreError();
  visibility_.Close(why);
  history_.Close(why);
  waiters_.Close(why);
}

}  // namespace planb::server
