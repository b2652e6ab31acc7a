// SPDX-License-Identifier: Apache-2.0

// What a server does beside: reports of what is visible there, and snapshots.

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/base/periodic.h"
#include "server/store/etcd_store.h"
#include "server/store/etcd_txn.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

using etcd::LogRecord;
using etcd::SnapshotRecord;
using etcdserverpb::KeyValue;

constexpr int64_t kLeaseSeconds = 10;
constexpr absl::Duration kLeaseRefresh = absl::Seconds(3);
// Reports of all servers together come no more often than the second, and those
// of one server no more often than the first.
constexpr absl::Duration kReportPause = absl::Milliseconds(50);
constexpr absl::Duration kReportShare = absl::Milliseconds(10);
// How often a server that starts looks how far it has followed.
constexpr auto kFollowedPause = std::chrono::milliseconds(2);

}  // namespace

void EtcdStore::Report(const std::string& table, uint64_t id,
                       uint64_t generation) {
  {
    const MutexLock lock(report_mutex_);
    Reported& visible = visible_[id];
    visible.name = table;
    visible.generation = std::max(visible.generation, generation);
  }
  ReportAgain();
}

void EtcdStore::ReportAgain() {
  const MutexLock lock(report_mutex_);
  report_due_ = true;
  report_changed_.notify_one();
}

void EtcdStore::ReportLoop() {
  int64_t lease = 0;
  SteadyInstant kept;
  int64_t servers = 1;
  bool due = true;
  MutexLock lock(report_mutex_);
  while (!report_ending_) {
    lock.unlock();
    absl::Status status;
    if (lease != 0 && ElapsedSince(kept) >= kLeaseRefresh) {
      status = client_->KeepLease(lease);
      if (status.ok()) {
        kept = SteadyNow();
        // The report may be gone with other keys, or be that of a table which
        // has stopped since.
        due = true;
      }
    }
    if (lease == 0 && status.ok()) {
      const auto granted = client_->GrantLease(kLeaseSeconds);
      status = granted.status();
      if (status.ok()) {
        lease = *granted;
        kept = SteadyNow();
        due = true;
      }
    }
    if (due && status.ok()) {
      const auto sent = SendReport(lease);
      status = sent.status();
      if (status.ok()) servers = *sent;
      due = !status.ok();
    }
    const bool reported = lease != 0 && !due;
    // It has ended if this server was paused, and the record with it.
    if (absl::IsNotFound(status)) lease = 0;
    lock.lock();
    if (reported && !std::exchange(reported_, true)) {
      report_changed_.notify_all();
    }
    report_changed_.wait_for(lock,
                             absl::ToChronoMilliseconds(std::max(
                                 kReportPause, kReportShare * servers)),
                             [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                 report_mutex_) { return report_ending_; });
    if (lease == 0) continue;
    report_changed_.wait_for(lock, absl::ToChronoMilliseconds(kLeaseRefresh),
                             [&]()
                                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(report_mutex_) {
                                   return report_ending_ || report_due_ || due;
                                 });
    due = std::exchange(report_due_, false) || due;
  }
  lock.unlock();
  if (lease != 0) client_->RevokeLease(lease).IgnoreError();
  lock.lock();
  report_ended_ = true;
  report_changed_.notify_all();
}

size_t EtcdStore::missing() const {
  const MutexLock lock(mutex_);
  return missing_.size();
}

absl::Status EtcdStore::AwaitFollowed() {
  if (resumed_) return absl::OkStatus();  // it begins with what it has
  const SteadyInstant began = SteadyNow();
  const auto silent = [] {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "etcd does not answer since the tables were read");
  };
  {
    MutexLock lock(report_mutex_);
    report_changed_.wait_until(
        lock, SteadyAfter(options_.patience),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(report_mutex_) {
          return reported_ || report_ending_;
        });
    if (!reported_) return silent();
  }
  // An update may yet be acknowledged by reports that were read before.
  absl::SleepFor(2 * kReplicasAge);
  // The watch is past all before, once it has told of this.
  etcdserverpb::TxnRequest txn;
  AddPut(Key("state/started"), Hex(instance_), txn);
  const auto put = client_->Txn(txn);
  if (!put.ok()) return Failed(put.status());
  // The watch is heard, too: appends would be refused at once without.
  MutexLock lock(mutex_);
  for (;;) {
    const SteadyInstant heard{SteadyInstant::duration(last_contact_.load())};
    if (heard >= began && revision_ >= put->header().revision()) {
      return absl::OkStatus();
    }
    if (!closed_.ok()) return closed_;
    if (ElapsedSince(std::max(heard, began)) > options_.patience) {
      return silent();
    }
    changed_.wait_for(
        lock, kFollowedPause,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
  }
}

absl::StatusOr<int64_t> EtcdStore::SendReport(int64_t lease) {
  etcd::ReplicaRecord record;
  record.set_name(options_.replica_name);
  record.set_version(options_.version);
  record.set_reported_unix_nanos(absl::GetCurrentTimeNanos());
  {
    // Both: a table that is made meanwhile reports itself once it is followed.
    const MutexLock lock(mutex_);
    const MutexLock report(report_mutex_);
    // Not of a table that stopped: its generations may be of another history.
    std::erase_if(visible_,
                  [&](const auto& table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                    const auto log = logs_.find(table.first);
                    return log == logs_.end() || !log->second.failed.ok();
                  });
    for (const auto& [id, table] : visible_) {
      auto& reported = *record.add_tables();
      reported.set_table(table.name);
      reported.set_id(id);
      reported.set_generation(table.generation);
    }
  }
  etcdserverpb::TxnRequest txn;
  const std::string prefix = Key("replicas/");
  AddPut(absl::StrCat(prefix, Hex(instance_)), record.SerializeAsString(), txn);
  txn.mutable_success(0)->mutable_request_put()->set_lease(lease);
  auto& count = *txn.add_success()->mutable_request_range();
  count.set_key(prefix);
  count.set_range_end(EndOfPrefix(prefix));
  count.set_count_only(true);
  const auto response = client_->Txn(txn);
  if (!response.ok()) return response.status();
  return response->responses(1).response_range().count();
}

absl::StatusOr<std::vector<StoreReplica>> EtcdStore::Replicas(
    absl::Duration max_age) {
  const SteadyInstant came = SteadyNow();
  const MutexLock lock(replicas_mutex_);
  // A read that failed while this call waited for it tells it, too, and so does
  // one that began since: calls do not wait for etcd one after another.
  if (!replicas_error_.ok() && replicas_failed_ >= came) return replicas_error_;
  if (!replicas_.empty() &&
      (replicas_read_ >= came || ElapsedSince(replicas_read_) <= max_age)) {
    return replicas_;
  }
  const SteadyInstant began = SteadyNow();
  const std::string prefix = Key("replicas/");
  const std::string self = absl::StrCat(prefix, Hex(instance_));
  std::vector<StoreReplica> replicas;
  const auto read =
      client_->ReadPrefix(prefix, 0, [&](const KeyValue& kv) -> absl::Status {
        etcd::ReplicaRecord record;
        if (!record.ParseFromString(kv.value())) {
          return Corrupt(kv.key(), "is not a server's report");
        }
        StoreReplica& replica = replicas.emplace_back();
        replica.name = record.name();
        replica.version = record.version();
        replica.self = kv.key() == self;
        replica.reported = absl::FromUnixNanos(record.reported_unix_nanos());
        for (const auto& table : record.tables()) {
          replica.visible[table.table()] = {table.id(), table.generation()};
        }
        return absl::OkStatus();
      });
  if (!read.ok()) {
    replicas_error_ = ErrorReason(read.status()) == "STORE_CORRUPT"
                          ? read.status()
                          : Failed(read.status());
    replicas_failed_ = SteadyNow();
    return replicas_error_;
  }
  replicas_error_ = absl::OkStatus();
  std::sort(replicas.begin(), replicas.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  replicas_ = replicas;
  replicas_read_ = began;
  return replicas;
}

void EtcdStore::OfferSnapshot(const std::string& table, uint64_t id,
                              absl::FunctionRef<TableVersion()> version) {
  {
    const MutexLock lock(mutex_);
    auto* const log = Find(table, id);
    if (log == nullptr || !log->failed.ok() || log->offered || !closed_.ok()) {
      return;
    }
    if (log->log_bytes <=
        std::max(options_.log_bytes, log->snapshot_bytes / 2)) {
      return;
    }
  }
  TableVersion taken = version();
  const MutexLock lock(mutex_);
  auto* const log = Find(table, id);
  if (log == nullptr || log->offered || !log->failed.ok()) return;
  // The last entry that the table has. The log may have later ones of the same
  // generation: they answer requests and raise the writer's epoch.
  const auto end =
      std::find_if(log->ends.begin(), log->ends.end(), [&](const End& e) {
        return e.number == taken.position && e.generation == taken.generation;
      });
  if (end == log->ends.end()) return;
  if (end->digest != taken.rib.digest()) {
    return server::Log(LogLevel::kError,
                       "no snapshot of a table that is not the store's",
                       {{"table", log->name}, {"generation", end->generation}});
  }
  log->offered = true;
  offers_.push_back({log->name, log->id, log->created, *end, std::move(taken)});
  changed_.notify_all();
}

void EtcdStore::SnapshotLoop() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ending_ || !offers_.empty();
    });
    if (ending_) return;
    Offer offer = std::move(offers_.front());
    offers_.pop_front();
    const uint64_t id = offer.id;
    lock.unlock();
    const absl::Status status = WriteSnapshot(std::move(offer));
    if (!status.ok()) {
      server::Log(LogLevel::kWarning, "the store could not be compacted",
                  {{"error", status.message()}});
    }
    Pause(absl::Seconds(1));  // not again at once
    lock.lock();
    const auto log = logs_.find(id);
    if (log != logs_.end()) log->second.offered = false;
  }
}

absl::Status EtcdStore::WriteSnapshot(Offer offer) {
  SnapshotRecord record;
  record.set_next(offer.end.number + 1);
  record.set_generation(offer.version.generation);
  record.set_chain(offer.end.chain);
  record.set_digest(offer.end.digest);
  // The offer may have waited long: while others had the turn, or while etcd
  // did not answer. An older snapshot would lack entries that are deleted.
  etcdserverpb::RangeRequest read;
  read.set_key(Key(absl::StrCat("state/snapshots/", Hex(offer.id))));
  const auto found = client_->Range(read);
  if (!found.ok()) return found.status();
  SnapshotRecord before;
  int64_t revision = 0;
  if (!found->kvs().empty()) {
    revision = found->kvs(0).mod_revision();
    if (!before.ParseFromString(found->kvs(0).value())) {
      return Corrupt(read.key(), "is not a snapshot's record");
    }
    if (before.next() >= record.next()) return absl::OkStatus();
  }
  // The last of the entries that are replaced must be the one that this server
  // knows, not one of another history.
  etcdserverpb::RangeRequest last;
  last.set_key(EntryKey(offer.id, offer.end.number));
  const auto entry = client_->Range(last);
  if (!entry.ok()) return entry.status();
  LogRecord replaced;
  if (entry->kvs().empty() ||
      !replaced.ParseFromString(entry->kvs(0).value()) ||
      replaced.chain() != offer.end.chain) {
    return Corrupt(last.key(), "is not the entry that this server followed");
  }
  const auto lease = client_->GrantLease(kLeaseSeconds);
  if (!lease.ok()) return lease.status();
  const Periodic keep(kLeaseRefresh,
                      [&] { client_->KeepLease(*lease).IgnoreError(); });
  // One server at a time writes snapshots. Each step needs this turn, so no
  // other server replaces the snapshot that was read until then. What others
  // that ended left of theirs is removed: it may be below the same keys.
  const std::string turn = Key("compactor");
  const std::string parts =
      Key(absl::StrCat("data/snapshots/", Hex(offer.id), "/"));
  const std::string kept = PartPrefix(offer.id, before.next());
  etcdserverpb::TxnRequest take;
  CompareCreation(turn, 0, take);
  CompareRevision(read.key(), revision, take);
  CompareRevision(last.key(), entry->kvs(0).mod_revision(), take);
  AddPut(turn, Hex(instance_), take);
  take.mutable_success(0)->mutable_request_put()->set_lease(*lease);
  AddDelete(parts, kept, take);
  AddDelete(EndOfPrefix(kept), EndOfPrefix(parts), take);
  const auto taken = client_->Txn(take);
  absl::Status status = taken.status();
  if (status.ok() && taken->succeeded()) {
    // Of the same table, and in this turn: a server that was paused must not
    // write over the parts of one that had the next turn.
    etcdserverpb::TxnRequest step;
    CompareCreation(TableKey(offer.name), offer.created, step);
    CompareRevision(turn, taken->header().revision(), step);
    const auto make = [&](const etcdserverpb::TxnRequest& txn) {
      const auto made = client_->Txn(txn);
      return !made.ok() || made->succeeded()
                 ? made.status()
                 : absl::AbortedError(
                       "the turn to write snapshots, or the table, is gone");
    };
    const std::string prefix = PartPrefix(offer.id, record.next());
    status = ForEachPart(ContentsOf(offer.version), options_.chunk_bytes,
                         [&](absl::string_view part) {
                           etcdserverpb::TxnRequest txn = step;
                           AddPut(absl::StrCat(prefix, Hex(record.parts())),
                                  std::string(part), txn);
                           record.set_parts(record.parts() + 1);
                           record.set_checksum(Xxh3(part, record.checksum()));
                           record.set_bytes(record.bytes() + part.size());
                           return make(txn);
                         });
    if (status.ok()) {
      AddPut(read.key(), record.SerializeAsString(), step);
      AddDelete(LogPrefix(offer.id), EntryKey(offer.id, record.next()), step);
      AddDelete(Key(absl::StrCat("data/chunks/", Hex(offer.id), "/")),
                ChunkPrefix(offer.id, record.next()), step);
      AddDelete(parts, prefix, step);
      status = make(step);
    }
  }
  client_->RevokeLease(*lease).IgnoreError();
  return status;
}

}  // namespace planb::server
