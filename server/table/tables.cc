// SPDX-License-Identifier: Apache-2.0

#include "server/table/tables.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/base/malloc_trim.h"

namespace planb::server {
namespace {

// Enough that a table that takes long to compile does not hold up the others.
constexpr size_t kExecutorThreads = 4;
// How often a deleted table is looked at while a call still uses it.
constexpr absl::Duration kFreePeriod = absl::Milliseconds(20);
// How often a server that starts looks whether it has all tables, and how long
// it waits until lookups see what other servers did meanwhile.
constexpr absl::Duration kFollowPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestFirstBuild = absl::Minutes(1);
// The pauses before a table is made again for which there was no memory.
constexpr absl::Duration kFirstAttempt = absl::Seconds(1);
constexpr absl::Duration kLastAttempt = absl::Minutes(1);
// How long draining waits for commits, even without patience.
constexpr absl::Duration kLastCommits = absl::Milliseconds(500);

absl::Status NotFound(absl::string_view name) {
  // Escaped, because a name that is cut might not be valid UTF-8.
  return FieldError(
      absl::StatusCode::kNotFound, "TABLE_NOT_FOUND", "table",
      absl::StrCat("there is no table \"",
                   absl::CHexEscape(name.substr(0, kMaxTableName)), "\""));
}

absl::Status Exists(absl::string_view name) {
  return FieldError(absl::StatusCode::kAlreadyExists, "TABLE_EXISTS", "table",
                    absl::StrCat("there is a table \"", name, "\""));
}

// Repeats `attempt` for a second while another server is ahead: what it did is
// on the way from the store.
absl::StatusOr<TableRef> UntilFollowed(
    const std::function<absl::StatusOr<TableRef>()>& attempt) {
  absl::StatusOr<TableRef> table = attempt();
  for (absl::Duration pause = absl::Milliseconds(2);
       IsStoreConflict(table.status()) && pause < absl::Seconds(1);
       pause *= 2) {
    absl::SleepFor(pause);
    table = attempt();
  }
  return table;
}

// Tells the operator of a limit that was lowered below what a table has.
void WarnOfLimit(absl::string_view what, absl::string_view table, uint64_t has,
                 absl::string_view flag, uint64_t limit) {
  if (has <= limit) return;
  Log(LogLevel::kWarning,
      absl::StrCat("a table has more ", what, " than ", flag,
                   " allows; it keeps them and takes no more"),
      {{"table", table}, {"has", has}, {"limit", limit}});
}

// The same of the number of tables.
void WarnOfTables(size_t has, size_t limit) {
  if (has <= limit) return;
  Log(LogLevel::kWarning,
      "there are more tables than --max_tables allows; they stay and no more "
      "can be created",
      {{"has", has}, {"limit", limit}});
}

}  // namespace

Tables::Tables(TablesOptions options, Store* store)
    : executor_(kExecutorThreads),
      options_(std::move(options)),
      store_(store),
      budget_(options_.memory_limit),
      map_(std::make_unique<const Map>()),
      free_job_(executor_, [this] { FreeDeleted(); }),
      follow_job_(executor_, [this] { RunFollow(); }) {
  options_.table.budget = &budget_;
  options_.table.id_budget = &id_budget_;
  options_.table.executor = &executor_;
  options_.table.store = store;
  if (store == nullptr) {
    default_ = MakeEmpty(kDefault, 0, options_.default_fib, 0);
  }
}

Tables::~Tables() = default;

absl::StatusOr<TableRef> Tables::Make(const StoredTable& stored) {
  try {
    absl::StatusOr<Rib> rib =
        UpdateStaging::ToRib(options_.table.limits, stored);
    if (!rib.ok()) return rib.status();
    auto first = Table::Compile(stored, options_.table, *rib);
    if (ErrorReason(first.status()) == kNoBuildMemory) return first.status();
    if (!first.ok()) {
      return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                   absl::StrCat("the store has a table \"", stored.name,
                                "\" that no server can have: ",
                                first.status().message()));
    }
    return std::make_shared<Table>(stored, options_.table, *std::move(rib),
                                   *std::move(first));
  } catch (const std::bad_alloc&) {
    return QuotaError(kNoBuildMemory, "memory",
                      "not enough memory for the table");
  }
}

absl::Status Tables::WhyLeftOut(uint64_t id) const {
  const MutexLock lock(follow_mutex_);
  const auto found = left_out_.find(id);
  return found == left_out_.end() ? absl::OkStatus() : found->second.why;
}

TableRef Tables::MakeEmpty(const std::string& name, uint64_t id,
                           const FibOptions& fib, uint64_t generation) {
  return *Make({.name = name, .id = id, .fib = fib, .generation = generation});
}

absl::StatusOr<std::vector<StoredTable>> Tables::LoadOrResume(
    const Copy& copy) {
  absl::StatusOr<std::vector<StoredTable>> stored = store_->Load();
  if (copy == nullptr || feed() == nullptr ||
      !absl::IsUnavailable(stored.status())) {
    return stored;
  }
  absl::StatusOr<StoredCopy> kept = copy();
  if (absl::IsNotFound(kept.status())) return stored;
  if (!kept.ok()) return kept.status();
  const absl::Status resumed =
      feed()->Resume(absl::MakeSpan(kept->tables), kept->age);
  if (!resumed.ok()) return resumed;
  Log(LogLevel::kWarning,
      "the store does not answer; lookups are answered from the cache",
      {{"error", stored.status().message()},
       {"as_of", absl::FormatTime(kept->as_of, absl::UTCTimeZone())}});
  return std::move(kept->tables);
}

absl::Status Tables::Restore(const Copy& copy) {
  absl::StatusOr<std::vector<StoredTable>> stored = LoadOrResume(copy);
  if (!stored.ok()) return stored.status();
  Map map;
  for (StoredTable& each : *stored) {
    // Moved, so that it is freed before the next table is made.
    StoredTable table = std::move(each);
    if (table.name == kDefault) table.fib = options_.default_fib;
    absl::StatusOr<TableRef> made = Make(table);
    if (!made.ok()) return made.status();
    const RibLimits& limits = options_.table.limits;
    WarnOfLimit("routes", table.name, table.routes.size(), "--max_routes",
                limits.max_routes);
    WarnOfLimit("next hops", table.name,
                table.next_hops.size() + table.groups.size(), "--max_next_hops",
                limits.max_next_hops);
    WarnOfLimit("bytes, with the tables before it,", table.name, budget_.used(),
                "--max_table_memory_bytes", budget_.limit());
    if (table.name == kDefault) {
      default_ = *std::move(made);
    } else {
      map.emplace(table.name, *std::move(made));
    }
  }
  if (default_ == nullptr) {
    if (store_->log() == nullptr) return ReadOnly(*store_);
    const absl::StatusOr<uint64_t> id = store_->log()->CreateTable(kDefault, 0);
    if (!id.ok()) return id.status();
    default_ = MakeEmpty(kDefault, *id, options_.default_fib, 0);
  }
  WarnOfTables(1 + map.size(), options_.max_tables);
  {
    const MutexLock lock(mutex_);
    PublishMap(std::move(map));
  }
  if (feed() == nullptr) return absl::OkStatus();
  following_ = feed()->Follow(*this);
  const absl::Status followed = AwaitFollowed();
  // With a copy, a server starts without the store, and so with what it read.
  if (copy != nullptr && absl::IsUnavailable(followed)) return absl::OkStatus();
  return followed;
}

absl::Status Tables::AwaitFollowed() {
  absl::Status status;
  if (others_write()) status = replicated()->AwaitFollowed();
  if (!status.ok()) return status;
  const auto waits = [this] {
    const MutexLock lock(follow_mutex_);
    return !remote_changes_.empty();
  };
  while (waits()) absl::SleepFor(kFollowPause);
  for (const TableRef& table : All()) {
    status = table->AwaitFollowed(SteadyAfter(kLongestFirstBuild));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<TableRef> Tables::Find(absl::string_view name) const {
  // Without a reference count: the default table lives as long as this, and
  // threads of lookups would compete for the counter.
  if (name.empty() || name == kDefault) {
    return TableRef(std::shared_ptr<void>(), default_.get());
  }
  {
    const auto map = map_.Read();
    const auto it = map->find(name);
    if (it != map->end()) return it->second;
  }
  absl::Status why =
      feed() == nullptr ? absl::OkStatus() : feed()->WhyMissing(name);
  {
    const MutexLock lock(follow_mutex_);
    for (const auto& [id, left] : left_out_) {
      if (left.name == name) why = left.why;
    }
  }
  const absl::Status absent = NotFound(name);
  return why.ok() ? absent
                  : FieldError(absent.code(), ErrorReason(absent), "table",
                               absl::StrCat(absent.message(),
                                            " here: ", why.message()));
}

TableRef Tables::Find(const std::string& name, uint64_t id) const {
  if (name == kDefault) {
    return default_->store_id() == id ? *Find(name) : nullptr;
  }
  const auto map = map_.Read();
  const auto it = map->find(name);
  return it != map->end() && it->second->store_id() == id ? it->second
                                                          : nullptr;
}

absl::StatusOr<TableRef> Tables::FindToUpdate(absl::string_view name) const {
  return UntilFollowed([&]() -> absl::StatusOr<TableRef> {
    absl::StatusOr<TableRef> table = Find(name);
    if (table.ok() || !others_write() || !CheckTableName(name).ok()) {
      return table;
    }
    const absl::StatusOr<uint64_t> id =
        replicated()->FindTable(std::string(name));
    if (!id.ok()) return id.status();
    if (*id == TableLog::kAnyTable) return table.status();
    const absl::Status left_out = WhyLeftOut(*id);
    return left_out.ok() ? StoreConflict() : left_out;
  });
}

absl::StatusOr<TableRef> Tables::Create(const std::string& name,
                                        const FibOptions& fib) {
  const absl::Status valid = CheckTableName(name);
  if (!valid.ok()) return valid;
  return UntilFollowed([&] { return TryCreate(name, fib); });
}

void Tables::Take(const std::string& name) {
  MutexLock lock(mutex_);
  given_back_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !taken_.contains(name);
  });
  taken_.insert(name);
}

void Tables::GiveBack(const std::string& name) {
  const MutexLock lock(mutex_);
  taken_.erase(name);
  given_back_.notify_all();
  const MutexLock follow(follow_mutex_);
  if (!remote_changes_.empty()) follow_job_.ScheduleNow();
}

absl::StatusOr<TableRef> Tables::TryCreate(const std::string& name,
                                           const FibOptions& fib) {
  if (name == kDefault) return draining_ ? DrainingError() : Exists(name);
  Take(name);
  const absl::Cleanup give_back = [&] { GiveBack(name); };
  bool exists = false;
  size_t tables = 1;  // the default table
  uint64_t floor = 0;
  {
    const MutexLock lock(mutex_);
    if (draining_) return DrainingError();
    const auto map = map_.Read();
    exists = map->contains(name);
    floor = floor_;
    tables += map->size();
    // Those that others are about to make.
    for (const std::string& each : taken_) {
      tables += each != name && !map->contains(each) ? 1 : 0;
    }
  }
  if (exists) {
    if (!others_write()) return Exists(name);
    const absl::StatusOr<uint64_t> id = replicated()->FindTable(name);
    if (!id.ok()) return id.status();
    return *id == TableLog::kAnyTable ? StoreConflict() : Exists(name);
  }
  // The store's count has none that other calls here are about to make.
  std::optional<MutexLock> counting;
  if (others_write()) counting.emplace(counting_);
  // Deleted tables that calls still use do not count: the calls are limited.
  // Where others write, this server may lack tables or have deleted ones.
  const absl::StatusOr<size_t> stored =
      others_write() ? replicated()->CountTables() : tables;
  if (!stored.ok()) return stored.status();
  if (*stored >= options_.max_tables) {
    return QuotaError("TOO_MANY_TABLES", "tables",
                      absl::StrCat("the limit is ", options_.max_tables));
  }
  // Starts above all generations that a deleted table of this name may have
  // had, so that its watchers cannot continue from this table.
  TableLog* const log = store_ == nullptr ? nullptr : store_->log();
  if (store_ != nullptr && log == nullptr) return ReadOnly(*store_);
  if (log != nullptr) floor = log->generation_floor();
  const uint64_t first = floor == 0 ? 0 : floor + 1;
  uint64_t id = 0;
  if (log != nullptr) {
    const absl::StatusOr<uint64_t> created = log->CreateTable(name, first, fib);
    if (!created.ok()) return created.status();
    id = *created;
  }
  TableRef table = MakeEmpty(name, id, fib, first);
  Publish(name, table);
  return table;
}

absl::Status Tables::Delete(const std::string& name) {
  if (name.empty() || name == kDefault) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "TABLE_PERMANENT",
                      "table", "the default table cannot be deleted");
  }
  return UntilFollowed([&] { return TryDelete(name); }).status();
}

absl::StatusOr<TableRef> Tables::TryDelete(const std::string& name) {
  Take(name);
  const absl::Cleanup give_back = [&] { GiveBack(name); };
  if (draining_) return DrainingError();
  const absl::StatusOr<TableRef> found = Find(name);
  if (others_write() && CheckTableName(name).ok()) {
    const absl::StatusOr<uint64_t> id = replicated()->FindTable(name);
    if (!id.ok()) return id.status();
    if (*id == TableLog::kAnyTable) return NotFound(name);
    if (!found.ok() && !WhyLeftOut(*id).ok()) {
      const absl::Status deleted =
          replicated()->DeleteTable(name, *id, /*generation=*/0);
      if (!deleted.ok()) return deleted;
      const MutexLock follow(follow_mutex_);
      left_out_.erase(*id);
      return TableRef();
    }
    if (!found.ok() || (*found)->store_id() != *id) return StoreConflict();
  }
  if (!found.ok()) return found.status();
  if (store_ != nullptr && store_->log() == nullptr) return ReadOnly(*store_);
  const TableRef& table = *found;
  table->Freeze(NotFound(name));
  const uint64_t last = table->state().accepted_generation();
  if (store_ != nullptr) {
    const absl::Status deleted =
        store_->log()->DeleteTable(name, table->store_id(), last);
    if (!deleted.ok()) {
      table->Thaw();
      return deleted;
    }
  }
  {
    const MutexLock lock(mutex_);
    floor_ = std::max(floor_, last);
  }
  Remove(table);
  return table;
}

void Tables::Remove(const TableRef& table) {
  const std::string& name = table->name();
  const MutexLock lock(mutex_);
  Map map = *map_.Read();
  map.erase(name);
  PublishMap(std::move(map));
  table->Close(NotFound(name), SteadyNow());
  deleted_.push_back(table);
  free_job_.ScheduleNow();
}

void Tables::Appended(const std::string& table, uint64_t id, uint64_t position,
                      std::vector<AcceptedBatch> batches) {
  Follow({.table = table,
          .id = id,
          .position = position,
          .batches = std::move(batches)});
}

void Tables::Replaced(StoredTable table) {
  Follow({.table = table.name,
          .id = table.id,
          .whole = std::make_unique<StoredTable>(std::move(table))});
}

void Tables::Deleted(const std::string& table, uint64_t id) {
  Follow({.table = table, .id = id, .deleted = true});
}

void Tables::Failed(const std::string& table, uint64_t id,
                    const absl::Status& why) {
  Follow({.table = table, .id = id, .failed = why});
}

StoreFollower::Wants Tables::wants(const std::string& table, uint64_t id) {
  const MutexLock lock(follow_mutex_);
  if (const auto left = left_out_.find(id); left != left_out_.end()) {
    return left->second.attempt <= SteadyNow() ? Wants::kWhole
                                               : Wants::kNothing;
  }
  const auto waiting = waiting_.find(id);
  const size_t bytes = waiting == waiting_.end() ? 0 : waiting->second.bytes;
  if (bytes >= kMostRemoteBytes) return Wants::kNothing;
  const TableRef known = bytes == 0 ? Find(table, id) : nullptr;
  return known == nullptr ? Wants::kNext : known->wants();
}

void Tables::Missed(const std::string& table, uint64_t id) {
  Follow({.table = table, .id = id, .missed = true});
}

void Tables::Follow(RemoteChange change) {
  const MutexLock lock(follow_mutex_);
  const auto left = left_out_.find(change.id);
  if (change.whole != nullptr && left != left_out_.end()) {
    left->second.attempt = SteadyAfter(absl::InfiniteDuration());  // it is due
  }
  // In order: nothing overtakes what waits for the same table.
  const bool waits = waiting_.contains(change.id);
  if (!waits && !change.deleted && HandOver(change)) return;
  Waiting& waiting = waiting_[change.id];
  const size_t bytes = change.bytes();
  remote_changes_.push_back(std::move(change));
  ++waiting.changes;  // not if there was no memory
  waiting.bytes += bytes;
  follow_job_.ScheduleNow();
}

void Tables::Drop(std::list<RemoteChange>::iterator change, size_t bytes) {
  const auto waiting = waiting_.find(change->id);
  waiting->second.bytes -= bytes;
  if (--waiting->second.changes == 0) waiting_.erase(waiting);
  remote_changes_.erase(change);
}

bool Tables::HandOver(RemoteChange& change) const {
  const TableRef table = Find(change.table, change.id);
  if (table != nullptr) table->Follow(std::move(change));
  return table != nullptr;
}

void Tables::RunFollow() {
  for (;;) {
    std::list<RemoteChange>::iterator next;
    size_t bytes = 0;
    {
      const MutexLock lock(mutex_);
      if (draining_) return;
      const MutexLock follow(follow_mutex_);
      // What waits for a name is looked at again when that is given back.
      next = std::find_if(remote_changes_.begin(), remote_changes_.end(),
                          [&](const RemoteChange& change)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                return !taken_.contains(change.table);
                              });
      if (next == remote_changes_.end()) return;
      bytes = next->bytes();
      if (!next->deleted && HandOver(*next)) {
        Drop(next, bytes);
        continue;
      }
      taken_.insert(next->table);
    }
    const std::string name = next->table;
    const absl::Cleanup give_back = [&] { GiveBack(name); };
    Follow(*next, *map_.Read());
    // Until now nothing has overtaken it.
    const MutexLock follow(follow_mutex_);
    if (next->deleted) left_out_.erase(next->id);
    Drop(next, bytes);
  }
}

void Tables::Follow(RemoteChange& change, Map map) {
  const auto it = map.find(change.table);
  const bool known = it != map.end() && it->second->store_id() == change.id;
  if (change.table == kDefault) {
    // No server deletes it, and calls use it without a reference.
    const bool lost = change.deleted && change.id == default_->store_id();
    if (lost || change.whole != nullptr) {
      default_->StopFollowing(
          Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                lost ? "the store has lost the default table"
                     : "the store has another default table"));
    }
  } else if (change.deleted && known) {
    // What it submitted ends with the store's error.
    it->second->Freeze(DeletedRemotely(), SteadyNow());
    Remove(it->second);
  } else if (change.whole != nullptr && it == map.end()) {
    // Made by another server.
    const absl::StatusOr<TableRef> made = Make(*change.whole);
    if (made.ok()) Publish(change.table, *made);
    const MutexLock follow(follow_mutex_);
    const bool was_left_out = left_out_.contains(change.id);
    if (made.ok()) {
      left_out_.erase(change.id);
    } else {
      LeftOut& left = left_out_[change.id];
      left.name = change.table;
      left.why = made.status();
      left.pause = ErrorReason(left.why) == kNoBuildMemory
                       ? std::clamp(2 * left.pause, kFirstAttempt, kLastAttempt)
                       : absl::InfiniteDuration();
      left.attempt = SteadyAfter(left.pause);
    }
    if (made.ok() == was_left_out) {
      Log(made.ok() ? LogLevel::kInfo : LogLevel::kError,
          made.ok() ? "a table that was left out is made"
                    : "a table is left out",
          {{"table", change.table}, {"error", made.status().message()}});
    }
  }
  // Else it is of a table that is deleted by now: this server deleted it, or
  // has made another one of that name, which comes after the deletion.
}

absl::Duration Tables::oldest_contents() const {
  absl::Duration oldest = store_lag();
  for (const TableRef& table : All()) {
    oldest = std::max(oldest, table->out_of_step());
  }
  return oldest;
}

size_t Tables::missing() const {
  if (feed() == nullptr) return 0;
  const size_t missing = feed()->missing();
  const MutexLock lock(follow_mutex_);
  return missing + left_out_.size();
}

std::vector<TableRef> Tables::All() const {
  std::vector<TableRef> all = {*Find("")};
  {
    const auto map = map_.Read();
    for (const auto& [name, table] : *map) all.push_back(table);
  }
  std::sort(all.begin(), all.end(), [](const TableRef& a, const TableRef& b) {
    return a->name() < b->name();
  });
  return all;
}

void Tables::Drain(SteadyInstant deadline) {
  draining_ = true;
  const SteadyInstant answer = std::max(deadline, SteadyAfter(kLastCommits));
  for (const TableRef& table : All()) table->Freeze(DrainingError(), answer);
  if (store_ != nullptr) store_->Close(DrainingError(), answer);
  {
    // Now nothing waits for the store, also no call that has taken a name. Such
    // a call may have created a table or let one thaw.
    MutexLock lock(mutex_);
    given_back_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return taken_.empty();
    });
  }
  const std::vector<TableRef> all = All();
  for (const TableRef& table : all) table->Freeze(DrainingError());
  for (const TableRef& table : all) table->Close(DrainingError(), deadline);
}

void Tables::PublishMap(Map map) {
  std::vector<TableRef> tables;
  if (others_write()) {
    tables.push_back(default_);
    for (const auto& [name, table] : map) tables.push_back(table);
  }
  map_.Publish(std::make_unique<const Map>(std::move(map)));
  // Now that clients find them.
  for (const TableRef& table : tables) {
    replicated()->Report(table->name(), table->store_id(), table->visible());
  }
}

void Tables::Publish(const std::string& name, const TableRef& table) {
  const MutexLock lock(mutex_);
  Map map = *map_.Read();
  map.emplace(name, table);
  PublishMap(std::move(map));
}

void Tables::FreeDeleted() {
  // Retired maps hold references to deleted tables.
  map_.Reclaim([](const Map&) { return size_t{0}; });
  std::vector<TableRef> unused;
  {
    const MutexLock lock(mutex_);
    const auto begin = std::partition(
        deleted_.begin(), deleted_.end(),
        [](const TableRef& table) { return table.use_count() > 1; });
    unused.assign(begin, deleted_.end());
    deleted_.erase(begin, deleted_.end());
    if (!deleted_.empty()) free_job_.Schedule(SteadyAfter(kFreePeriod));
  }
  if (unused.empty()) return;
  unused.clear();
  TrimHeap();
}

}  // namespace planb::server
