// SPDX-License-Identifier: Apache-2.0

// What other servers do: reading the whole store, and its watch.

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/store/etcd_store.h"
#include "server/store/etcd_txn.h"
#include "server/store/store_entry.h"
#include "server/store/store_replay.h"

namespace planb::server {
namespace {

using etcd::LogRecord;
using etcd::SnapshotRecord;
using etcd::TableRecord;
using etcdserverpb::KeyValue;

constexpr char kFormat[] = "planb store 3";
// What may be wrong with what stands where a table's record should.
constexpr char kNoName[] = "does not have a table's name";
constexpr char kNoRecord[] = "is not a table's record";
constexpr char kOtherId[] = "has the id of another table";
constexpr int kLoadAttempts = 5;
// The longest pauses before the store is watched or read again: the first, and
// that after many failures. They are random, so that the servers of a member
// that was restarted come back one by one.
constexpr absl::Duration kWatchPause = absl::Milliseconds(500);
constexpr absl::Duration kLongestPause = absl::Seconds(8);
// How often the follower is asked whether it wants tables as a whole.
constexpr absl::Duration kAskPause = absl::Seconds(1);

absl::Duration RandomPause(absl::Duration longest) {
  return longest * absl::Uniform<double>(absl::BitGen(), 0.1, 1.0);
}

bool IsCorrupt(const absl::Status& status) {
  return ErrorReason(status) == "STORE_CORRUPT";
}

}  // namespace

absl::Status EtcdStore::CheckFormat(absl::Duration patience) {
  const std::string key = Key("format");
  etcdserverpb::TxnRequest txn;
  CompareCreation(key, 0, txn);
  AddPut(key, kFormat, txn);
  ReadElse(key, txn);
  const auto response = client_->Txn(txn, patience);
  if (absl::IsPermissionDenied(response.status()) ||
      absl::IsUnauthenticated(response.status()) ||
      absl::IsInvalidArgument(response.status())) {  // a wrong password
    return Error(absl::StatusCode::kPermissionDenied, "STORE_FAILED",
                 response.status().message());
  }
  if (!response.ok()) return Failed(response.status());
  if (response->succeeded()) return absl::OkStatus();
  const KeyValue* const found = FoundElse(*response);
  if (found != nullptr && found->value() == kFormat) return absl::OkStatus();
  const bool old = found != nullptr && found->value() < kFormat;
  return Error(
      absl::StatusCode::kFailedPrecondition,
      old ? "STORE_TOO_OLD" : "STORE_TOO_NEW",
      absl::StrCat(key, " is not \"", kFormat,
                   "\", which this server reads; begin with another prefix"));
}

absl::StatusOr<std::string> EtcdStore::Contents(uint64_t id, uint64_t number,
                                                const LogRecord& record,
                                                int64_t revision) {
  if (record.chunks() == 0) return record.contents();
  std::string contents;
  const auto read = client_->ReadPrefix(
      absl::StrCat(ChunkPrefix(id, number), Hex(record.writer()),
                   Hex(record.append()), "/"),
      revision, [&](const KeyValue& kv) {
        contents += kv.value();
        return contents.size() <= record.bytes()
                   ? absl::OkStatus()
                   : Corrupt(kv.key(), "is more than its entry has");
      });
  if (!read.ok()) return read.status();
  return contents;
}

absl::StatusOr<StoredTable> EtcdStore::LoadTable(Log& log, int64_t revision) {
  LogReplay replay;
  StoredTable& table = replay.table();
  table.name = log.name;
  table.id = log.id;
  table.fib.prefix_lengths = log.record.prefix_lengths();
  table.generation = log.record.first_generation();
  uint64_t next = 1;
  uint64_t chain = 0;
  etcdserverpb::RangeRequest request;
  request.set_key(Key(absl::StrCat("state/snapshots/", Hex(log.id))));
  request.set_revision(revision);
  const auto pointer = client_->Range(request);
  if (!pointer.ok()) return pointer.status();
  if (!pointer->kvs().empty()) {
    SnapshotRecord snapshot;
    if (!snapshot.ParseFromString(pointer->kvs(0).value())) {
      return Corrupt(request.key(), "is not a snapshot's record");
    }
    next = snapshot.next();
    chain = snapshot.chain();
    log.snapshot_bytes = snapshot.bytes();
    replay.Reserve(snapshot.bytes());
    const std::string prefix = PartPrefix(log.id, next);
    uint64_t parts = 0;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
    const auto read = client_->ReadPrefix(
        prefix, revision, [&](const KeyValue& kv) -> absl::Status {
          ++parts;
          bytes += kv.value().size();
          checksum = Xxh3(kv.value(), checksum);
          if (parts > snapshot.parts() || bytes > snapshot.bytes()) {
            return Corrupt(kv.key(), "is more than its snapshot has");
          }
          const absl::Status part = replay.Read(kv.value(), /*is_part=*/true);
          return part.ok() ? part : Corrupt(kv.key(), part.message());
        });
    if (!read.ok()) return read.status();
    if (parts != snapshot.parts() || bytes != snapshot.bytes() ||
        checksum != snapshot.checksum()) {
      return Corrupt(prefix, "does not have the parts that were written");
    }
    if (replay.digest() != snapshot.digest() ||
        table.generation != snapshot.generation()) {
      return Corrupt(request.key(),
                     "has another digest than the contents of its snapshot");
    }
  }
  const std::string prefix = LogPrefix(log.id);
  const auto read = client_->ReadPrefix(
      prefix, revision, [&](const KeyValue& kv) -> absl::Status {
        LogRecord record;
        if (kv.key() != EntryKey(log.id, next)) {
          return Corrupt(EntryKey(log.id, next), "is missing");
        }
        if (!record.ParseFromString(kv.value())) {
          return Corrupt(kv.key(), "is not an entry");
        }
        const auto contents = Contents(log.id, next, record, revision);
        if (!contents.ok()) return contents.status();
        chain = Xxh3(*contents, chain);
        if (chain != record.chain() || contents->size() != record.bytes()) {
          return Corrupt(kv.key(),
                         "is damaged, or does not follow the one before it");
        }
        const absl::Status replayed = replay.Read(*contents, /*is_part=*/false);
        if (!replayed.ok()) return Corrupt(kv.key(), replayed.message());
        log.log_bytes += contents->size();
        log.ends.push_back({next++, table.generation, chain, contents->size(),
                            replay.digest()});
        return absl::OkStatus();
      });
  if (!read.ok()) return read.status();
  if (next != log.record.next() || chain != log.record.chain()) {
    return Corrupt(prefix, "ends at another entry than the last one");
  }
  if (replay.digest() != log.record.digest()) {
    return Corrupt(TableKey(log.name),
                   "has another digest than the contents of its table");
  }
  table.position = next - 1;
  auto finished = replay.Finish();
  if (!finished.ok()) return Corrupt(prefix, finished.status().message());
  return finished;
}

absl::StatusOr<EtcdStore::Loaded> EtcdStore::LoadAll() {
  for (int attempt = 1;; ++attempt) {
    Loaded loaded;
    const std::string prefix = TableKey("");
    const auto revision =
        client_->ReadPrefix(prefix, 0, [&](const KeyValue& kv) -> absl::Status {
          Log log;
          log.name = kv.key().substr(prefix.size());
          const auto unreadable = [&](absl::string_view what) {
            loaded.unreadable[log.name] = {Corrupt(kv.key(), what),
                                           kv.create_revision()};
          };
          if (!CheckTableName(log.name).ok()) {
            unreadable(kNoName);
            return absl::OkStatus();
          }
          log.created = kv.create_revision();
          log.revision = kv.mod_revision();
          const bool parsed = log.record.ParseFromString(kv.value());
          log.id = log.record.id();
          if (!parsed || log.id == 0) {
            unreadable(kNoRecord);
          } else if (!loaded.logs.try_emplace(log.id, log).second) {
            unreadable(kOtherId);
          }
          return absl::OkStatus();
        });
    absl::Status status = revision.status();
    if (status.ok()) {
      loaded.revision = *revision;
      etcdserverpb::RangeRequest request;
      request.set_key(Key("state/floor"));
      request.set_revision(loaded.revision);
      const auto floor = client_->Range(request);
      status = floor.status();
      if (status.ok() && !floor->kvs().empty()) {
        loaded.floor_revision = floor->kvs(0).mod_revision();
        if (!absl::SimpleAtoi(floor->kvs(0).value(), &loaded.floor)) {
          status = Corrupt(request.key(), "is not a number");
        }
      }
    }
    for (auto& [id, log] : loaded.logs) {
      if (!status.ok()) break;
      auto table = LoadTable(log, loaded.revision);
      status = table.status();
      if (status.ok()) loaded.tables.push_back(*std::move(table));
      if (IsCorrupt(status)) log.failed = std::exchange(status, {});
    }
    if (status.ok()) {
      std::sort(loaded.tables.begin(), loaded.tables.end(),
                [](const auto& a, const auto& b) { return a.name < b.name; });
      return loaded;
    }
    // Compacted while it was read.
    if (absl::IsOutOfRange(status) && attempt < kLoadAttempts) continue;
    return IsCorrupt(status) ? status : Failed(status);
  }
}

absl::StatusOr<std::vector<StoredTable>> EtcdStore::Load() {
  const absl::Status format = CheckFormat(options_.patience);
  if (!format.ok()) return format;
  SteadyInstant began;
  // A server does not start with a part of its tables.
  const auto load_whole = [&]() -> absl::StatusOr<Loaded> {
    began = SteadyNow();
    auto loaded = LoadAll();
    if (!loaded.ok()) return loaded;
    for (const auto& [name, left] : loaded->unreadable) return left.why;
    for (const auto& [id, log] : loaded->logs) {
      if (!log.failed.ok()) return log.failed;
    }
    return loaded;
  };
  auto loaded = load_whole();
  if (!loaded.ok()) return loaded.status();
  const bool has_default =
      std::any_of(loaded->tables.begin(), loaded->tables.end(),
                  [](const StoredTable& t) { return t.name == "default"; });
  if (!has_default) {
    // The first of all servers; or another one makes it at this moment.
    {
      const MutexLock lock(mutex_);
      floor_revision_ = loaded->floor_revision;
    }
    const auto made = CreateTable("default", loaded->floor, FibOptions());
    if (!made.ok() && !absl::IsAlreadyExists(made.status())) {
      return made.status();
    }
    loaded = load_whole();
    if (!loaded.ok()) return loaded.status();
  }
  const MutexLock lock(mutex_);
  logs_ = std::move(loaded->logs);
  floor_ = loaded->floor;
  floor_revision_ = loaded->floor_revision;
  revision_ = loaded->revision;
  last_contact_ = began.time_since_epoch().count();
  return std::move(loaded->tables);
}

absl::Status EtcdStore::Resume(absl::Span<StoredTable> tables,
                               absl::Duration age) {
  resumed_ = true;
  last_contact_ = SteadyAfter(-age).time_since_epoch().count();
  const MutexLock lock(mutex_);
  // Without an entry, so that the store is ahead once it is read.
  for (const StoredTable& table : tables) {
    logs_[table.id] = {.name = table.name, .id = table.id};
  }
  return absl::OkStatus();
}

Following EtcdStore::Follow(StoreFollower& follower) {
  {
    const MutexLock lock(mutex_);
    follower_ = &follower;
  }
  {
    const MutexLock lock(report_mutex_);
    reporting_ = true;
  }
  threads_.emplace_back([this] { WatchLoop(); });
  threads_.emplace_back([this] { ReadLoop(); });
  threads_.emplace_back([this] { ReportLoop(); });
  return Following([this] {
    const MutexLock lock(mutex_);
    follower_ = nullptr;
  });
}

void EtcdStore::Fail(Log& log, const absl::Status& why) {
  // An append that is on the way may still be made. Its thread ends it.
  log.failed = why;
  ReportAgain();
  if (follower_ != nullptr) follower_->Failed(log.name, log.id, why);
}

void EtcdStore::Fail(Log& log, absl::string_view key, absl::string_view what) {
  Fail(log, Corrupt(key, what));
}

absl::Status EtcdStore::Deliver(uint64_t id, uint64_t number, int64_t revision,
                                const std::string& value) {
  LogRecord entry;
  const bool parsed = entry.ParseFromString(value);
  bool own = false;
  {
    const MutexLock lock(mutex_);
    const auto found = logs_.find(id);
    if (found == logs_.end() || !found->second.failed.ok())
      return absl::OkStatus();
    Log& log = found->second;
    if (number < log.record.next()) return absl::OkStatus();
    if (number > log.record.next()) {
      if (!log.skips()) return absl::OutOfRangeError("entries are missing");
      log.skipped_to = std::max(log.skipped_to, number + 1);
      return absl::OkStatus();
    }
    if (!parsed) {
      Fail(log, EntryKey(id, number), "is not an entry");
      return absl::OkStatus();
    }
    own = log.append != 0 && entry.writer() == instance_ &&
          entry.append() == log.append;
    if (!own && follower_ != nullptr &&
        follower_->wants(log.name, id) != StoreFollower::Wants::kNext) {
      log.skipped_to = std::max(log.skipped_to, number + 1);
      follower_->Missed(log.name, id);
      return absl::OkStatus();
    }
  }
  std::string contents;
  std::vector<AcceptedBatch> batches;
  std::string damage;
  if (!own) {
    auto read = Contents(id, number, entry, revision);
    if (!read.ok() && !IsCorrupt(read.status())) return read.status();
    if (read.ok()) contents = *std::move(read);
    auto accepted = ReadEntry(contents);
    if (accepted.ok()) {
      batches = *std::move(accepted);
    } else {
      damage = std::string(accepted.status().message());
    }
  }
  MutexLock lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end() || !found->second.failed.ok())
    return absl::OkStatus();
  Log& log = found->second;
  if (number != log.record.next()) return absl::OkStatus();  // another thread
  if (!own) {
    if (Xxh3(contents, log.record.chain()) != entry.chain() ||
        contents.size() != entry.bytes()) {
      damage = "is damaged, or does not follow the one before it";
    }
    if (!damage.empty()) {
      Fail(log, EntryKey(id, number), damage);
      return absl::OkStatus();
    }
    for (const AcceptedBatch& batch : batches) {
      if (batch.delta == nullptr) continue;
      log.record.set_generation(batch.delta->generation);
      log.record.set_digest(batch.delta->digest);
    }
  }
  Done done;
  if (own) {
    done = Take(log, entry.append());
    if (done == nullptr) {
      // The append was given up meanwhile: its table must learn of the entry.
      lock.unlock();
      return Deliver(id, number, revision, value);
    }
    log.record.set_generation(log.append_generation);
    log.record.set_digest(log.append_digest);
  }
  log.record.set_next(number + 1);
  log.record.set_chain(entry.chain());
  log.revision = revision;
  log.log_bytes += entry.bytes();
  log.ends.push_back({number, log.record.generation(), entry.chain(),
                      entry.bytes(), log.record.digest()});
  if (own) {
    done(absl::OkStatus());
  } else if (follower_ != nullptr) {
    follower_->Appended(log.name, id, number, std::move(batches));
    if (log.skips()) follower_->Missed(log.name, id);  // there is more
  }
  return absl::OkStatus();
}

void EtcdStore::LeaveOut(const std::string& name, const KeyValue& kv,
                         absl::string_view what) {
  Unreadable left = {Corrupt(kv.key(), what), kv.create_revision()};
  server::Log(
      LogLevel::kError, "a table is left out",
      {{"table", absl::CHexEscape(name)}, {"error", left.why.message()}});
  missing_.insert_or_assign(name, std::move(left));
}

void EtcdStore::Created(const std::string& name, const KeyValue& kv) {
  const MutexLock lock(mutex_);
  if (!CheckTableName(name).ok()) return LeaveOut(name, kv, kNoName);
  TableRecord record;
  const bool parsed = record.ParseFromString(kv.value()) && record.id() != 0;
  const auto known = logs_.find(record.id());
  if (parsed && known != logs_.end() && known->second.name == name) return;
  Log* const other = Find(name, kAnyTable);
  if (other != nullptr && other->revision < kv.mod_revision()) {
    // It was not deleted, or it is the default table.
    if (other->failed.ok()) {
      Fail(*other, kv.key(), parsed ? "is of another table now" : kNoRecord);
    }
    return;
  }
  if (!parsed) return LeaveOut(name, kv, kNoRecord);
  if (known != logs_.end()) return LeaveOut(name, kv, kOtherId);
  if (kv.version() != 1) return;
  if (record.next() != 1 || record.chain() != 0 ||
      record.generation() != record.first_generation() ||
      record.digest() != TableDigest().ToString()) {
    return LeaveOut(name, kv, "is not the record of a new table");
  }
  missing_.erase(name);
  Log log = {.name = name,
             .id = record.id(),
             .created = kv.create_revision(),
             .revision = kv.mod_revision(),
             .record = record};
  logs_.emplace(record.id(), std::move(log));
  if (creating_.contains(record.id()) || follower_ == nullptr) return;
  StoredTable table;
  table.name = name;
  table.id = record.id();
  table.fib.prefix_lengths = record.prefix_lengths();
  table.generation = record.first_generation();
  follower_->Replaced(std::move(table));
}

absl::Status EtcdStore::Event(const etcdserverpb::Event& event) {
  const KeyValue& kv = event.kv();
  absl::string_view key = kv.key();
  const bool put = event.type() == etcdserverpb::Event::PUT;
  if (absl::ConsumePrefix(&key, Key("state/logs/"))) {
    if (!put) return absl::OkStatus();
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(key, absl::MaxSplits('/', 1));
    uint64_t id = 0;
    uint64_t number = 0;
    if (!absl::SimpleHexAtoi(parts.first, &id) ||
        !absl::SimpleHexAtoi(parts.second, &number)) {
      return absl::OkStatus();
    }
    const absl::Status status =
        Deliver(id, number, kv.mod_revision(), kv.value());
    if (!absl::IsOutOfRange(status)) return status;
    // Entries before it are missing, or etcd has compacted its chunks. The
    // ReadLoop reads what replaced them, and other tables go on.
    const MutexLock lock(mutex_);
    const auto log = logs_.find(id);
    if (log == logs_.end() || number < log->second.record.next()) {
      return absl::OkStatus();
    }
    log->second.skipped_to = std::max(log->second.skipped_to, number + 1);
    if (follower_ != nullptr) follower_->Missed(log->second.name, id);
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&key, Key("state/tables/"))) {
    if (put) {
      Created(std::string(key), kv);
      return absl::OkStatus();
    }
    const MutexLock lock(mutex_);
    missing_.erase(std::string(key));
    // This server may have made a later one of that name already.
    for (auto log = logs_.begin(); log != logs_.end();) {
      if (log->second.name != key ||
          log->second.revision >= kv.mod_revision()) {
        ++log;
        continue;
      }
      if (key == "default") {
        // By no server. The table has failed, and its log stays for that.
        Log& lost = (log++)->second;
        if (lost.failed.ok()) Fail(lost, kv.key(), "was deleted");
        continue;
      }
      const Log deleted = std::move(log->second);
      log = logs_.erase(log);
      if (follower_ != nullptr) follower_->Deleted(deleted.name, deleted.id);
      if (deleted.done != nullptr) deleted.done(DeletedRemotely());
    }
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&key, Key("state/snapshots/"))) {
    uint64_t id = 0;
    SnapshotRecord record;
    if (!put || !absl::SimpleHexAtoi(key, &id) ||
        !record.ParseFromString(kv.value())) {
      return absl::OkStatus();
    }
    const MutexLock lock(mutex_);
    const auto found = logs_.find(id);
    if (found == logs_.end()) return absl::OkStatus();
    auto& followed = found->second;
    if (!followed.failed.ok()) return absl::OkStatus();
    for (const End& end : followed.ends) {
      if (end.number + 1 != record.next()) continue;
      if (end.generation == record.generation() &&
          end.chain == record.chain() && end.digest == record.digest()) {
        break;
      }
      Fail(followed, kv.key(),
           "is of other contents than the entries that it replaces");
      return absl::OkStatus();
    }
    followed.snapshot_bytes = record.bytes();
    while (!followed.ends.empty() &&
           followed.ends.front().number < record.next()) {
      followed.log_bytes -= followed.ends.front().bytes;
      followed.ends.pop_front();
    }
    return absl::OkStatus();
  }
  if (key == Key("state/floor") && put) {
    const MutexLock lock(mutex_);
    floor_revision_ = std::max(floor_revision_, kv.mod_revision());
    uint64_t floor = 0;
    if (absl::SimpleAtoi(kv.value(), &floor)) floor_ = std::max(floor_, floor);
  }
  return absl::OkStatus();
}

void EtcdStore::WatchLoop() {
  bool missed = resumed_;  // events, so that all must be read again
  bool logged = false;
  absl::Duration pause = kWatchPause;
  for (;;) {
    int64_t from = 0;
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      from = revision_ + 1;
    }
    // A watch from a revision that etcd has not reached is silent.
    if (!missed) CheckHistory();
    if (diverged_ || client_->histories() != history_) {
      missed = true;
      server::Log(LogLevel::kError,
                  "etcd has another history than before, as after a restore "
                  "from a backup; all tables are compared");
    }
    if (missed) {
      const absl::Status status = Resync();
      missed = !status.ok();
      if (missed && !logged) {
        server::Log(LogLevel::kError, "the store could not be read",
                    {{"error", status.message()}});
      } else if (!missed && logged) {
        server::Log(LogLevel::kInfo, "the store was read");
      }
      logged = missed;
      if (!missed) {
        pause = kWatchPause;
        continue;
      }
      Pause(RandomPause(pause));
      pause = std::min(2 * pause, kLongestPause);
      continue;
    }
    const absl::Status ended = client_->Watch(
        Key("state/"), from, options_.silence,
        [&](const etcdserverpb::WatchResponse& response) -> absl::Status {
          if (diverged_ || client_->histories() != history_) {
            missed = true;
            return absl::OutOfRangeError("another history");
          }
          if (response.compact_revision() != 0) {
            missed = true;
            return absl::OutOfRangeError("compacted");
          }
          if (response.canceled()) {
            return absl::UnavailableError(response.cancel_reason());
          }
          int64_t last = 0;
          absl::Status status;
          for (const auto& event : response.events()) {
            status = Event(event);
            if (!status.ok()) break;
            last = event.kv().mod_revision();
          }
          const MutexLock lock(mutex_);
          if (status.ok()) {
            last_contact_ = SteadyNow().time_since_epoch().count();
          } else {
            --last;  // other events of that revision may be left
          }
          revision_ = std::max(revision_, last);
          if (ending_) return absl::CancelledError("closed");
          return status;
        });
    {
      MutexLock lock(mutex_);
      if (ending_) return;
    }
    if (missed) continue;
    server::Log(LogLevel::kWarning, "the watch of the store began anew",
                {{"error", ended.message()}});
    Pause(RandomPause(kWatchPause));
  }
}

void EtcdStore::Pause(absl::Duration pause) {
  MutexLock lock(mutex_);
  changed_.wait_for(
      lock, absl::ToChronoMilliseconds(pause),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
}

void EtcdStore::CheckHistory() {
  std::map<uint64_t, TableRecord> followed;
  int64_t revision = 0;
  {
    const MutexLock lock(mutex_);
    revision = revision_;
    for (const auto& [id, log] : logs_) {
      // One that skips entries is behind by as much as it likes.
      if (log.failed.ok() && !log.skips()) followed[id] = log.record;
    }
  }
  const auto read = client_->ReadPrefix(
      TableKey(""), 0, [&](const KeyValue& kv) -> absl::Status {
        TableRecord record;
        if (!record.ParseFromString(kv.value())) return absl::OkStatus();
        const auto known = followed.find(record.id());
        if (known == followed.end()) return absl::OkStatus();
        const TableRecord& last = known->second;
        if (!SameEnd(record, last) &&
            (record.next() <= last.next() || kv.mod_revision() <= revision)) {
          diverged_ = true;
        }
        return absl::OkStatus();
      });
  read.status().IgnoreError();  // then the watch ends too
}

absl::Status EtcdStore::CheckLeadsOn(const Log& known, uint64_t before,
                                     const Log& read, const StoredTable& table,
                                     bool other) {
  const auto wrong = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(
        what, "; this server was at generation ", known.record.generation(),
        ", and the store has ", table.generation));
  };
  const uint64_t next = known.record.next();
  if (read.record.next() < before) return wrong("lost entries");
  // Begun with a copy: the table compares its contents. Or ahead since.
  if (next <= 1 || read.record.next() < next) return absl::OkStatus();
  if (read.record.next() == next) {
    return SameEnd(read.record, known.record) ? absl::OkStatus()
                                              : wrong("has other entries");
  }
  for (const End& end : read.ends) {
    if (end.number + 1 != next) continue;
    return end.chain == known.record.chain() ? absl::OkStatus()
                                             : wrong("has other entries");
  }
  if (!other) return absl::OkStatus();  // a snapshot has replaced it
  if (table.tail_generation == known.record.generation() &&
      table.tail_digest == known.record.digest()) {
    return absl::OkStatus();
  }
  for (const auto& delta : table.tail) {
    if (delta->generation == known.record.generation() &&
        delta->digest == known.record.digest()) {
      return absl::OkStatus();
    }
  }
  return wrong("does not show that it leads on");
}

void EtcdStore::ReadLoop() {
  for (;;) {
    Pause(kAskPause);
    std::vector<uint64_t> wanted;
    {
      const MutexLock lock(mutex_);
      if (ending_) return;
      // What was not compared with the store yet is not read one by one.
      if (!Silence().ok()) continue;
      for (const auto& [id, log] : logs_) {
        if (Wanted(log) != StoreFollower::Wants::kNothing) wanted.push_back(id);
      }
    }
    // What fails is tried again: the follower still wants it. It may want it
    // because there was no memory for it.
    for (const uint64_t id : wanted) {
      try {
        ReadWanted(id);
      } catch (const std::bad_alloc&) {
      }
    }
  }
}

StoreFollower::Wants EtcdStore::Wanted(const Log& log) const {
  using Wants = StoreFollower::Wants;
  if (!log.failed.ok() || follower_ == nullptr) return Wants::kNothing;
  const Wants wants = follower_->wants(log.name, log.id);
  return wants == Wants::kNext && !log.skips() ? Wants::kNothing : wants;
}

void EtcdStore::ReadWanted(uint64_t id) {
  for (uint64_t last = 0;;) {
    {
      const MutexLock lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end()) return;
      const StoreFollower::Wants wants = Wanted(log->second);
      if (wants == StoreFollower::Wants::kNothing) return;
      const uint64_t next = log->second.record.next();
      // The same again: a snapshot has replaced it.
      if (wants == StoreFollower::Wants::kWhole ||
          std::exchange(last, next) == next) {
        break;
      }
    }
    CatchUp(id).IgnoreError();
  }
  ReadAgain(id).IgnoreError();
}

absl::Status EtcdStore::ReadAgain(uint64_t id) {
  Log log = {.id = id};
  uint64_t before = 0;
  uint64_t resyncs = 0;
  {
    const MutexLock lock(mutex_);
    const auto known = logs_.find(id);
    if (known == logs_.end()) return absl::OkStatus();
    log.name = known->second.name;
    before = known->second.record.next();
    resyncs = resyncs_;
  }
  etcdserverpb::RangeRequest request;
  request.set_key(TableKey(log.name));
  const auto read = client_->Range(request);
  if (!read.ok()) return read.status();
  // Else the watch tells what became of it.
  if (read->kvs().empty() ||
      !log.record.ParseFromString(read->kvs(0).value()) ||
      log.record.id() != id) {
    return absl::OkStatus();
  }
  log.created = read->kvs(0).create_revision();
  log.revision = read->kvs(0).mod_revision();
  auto table = LoadTable(log, read->header().revision());
  absl::Status status = table.status();
  MutexLock lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end() || !found->second.failed.ok() ||
      follower_ == nullptr) {
    return absl::OkStatus();
  }
  // What was read may be of another history, which the watch's thread compares.
  if (resyncs_ != resyncs || diverged_ || client_->histories() != history_) {
    return absl::AbortedError("all tables are read again");
  }
  Log& known = found->second;
  if (status.ok()) {
    status = CheckLeadsOn(known, before, log, *table, /*other=*/false);
    if (!status.ok()) status = Corrupt(request.key(), status.message());
  }
  if (IsCorrupt(status)) Fail(known, status);
  if (!status.ok()) return status;
  // Appends of this server may have brought later entries meanwhile. If one is
  // on the way, the table may have it, and its thread would take its entry for
  // another server's.
  if (log.record.next() < known.record.next() || known.append != 0) {
    lock.unlock();
    return CatchUp(id);
  }
  log.offered = known.offered;
  log.skipped_to = known.skipped_to;
  follower_->Replaced(*std::move(table));
  known = std::move(log);
  // The watch has told of later entries meanwhile.
  if (known.skips()) follower_->Missed(known.name, id);
  return absl::OkStatus();
}

absl::Status EtcdStore::Resync() {
  if (resumed_) {
    const absl::Status format = CheckFormat(absl::InfiniteDuration());
    if (!format.ok()) return format;
  }
  // First, so that what is found later is looked into later.
  const uint64_t histories = client_->histories();
  const bool diverged = diverged_.exchange(false);
  const bool other = diverged || histories != history_;
  std::map<uint64_t, uint64_t> before;  // the next entries, by table
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, log] : logs_) before[id] = log.record.next();
  }
  auto loaded = LoadAll();
  if (!loaded.ok()) {
    if (diverged) diverged_ = true;
    return loaded.status();
  }
  const MutexLock lock(mutex_);
  history_ = histories;
  // The default table is never deleted.
  Log* const first = Find("default", kAnyTable);
  if (first != nullptr && !loaded->logs.contains(first->id)) {
    if (first->failed.ok()) {
      Fail(*first, TableKey("default"),
           "is of another store than the tables of this server");
    }
    return first->failed;
  }
  std::vector<Done> undecided;
  missing_.clear();
  // A damaged table stops where it is, and no other.
  for (auto& [id, log] : loaded->logs) {
    if (!log.failed.ok()) {
      loaded->unreadable[log.name] = {log.failed, log.created};
    }
  }
  for (const auto& [name, left] : loaded->unreadable) {
    const absl::Status& why = left.why;
    server::Log(LogLevel::kError, "a table of the store cannot be read",
                {{"table", absl::CHexEscape(name)}, {"error", why.message()}});
    Log* const known = Find(name, kAnyTable);
    if (known == nullptr) {
      missing_[name] = left;
      continue;
    }
    if (known->failed.ok()) Fail(*known, why);
    loaded->logs.insert_or_assign(known->id, std::move(*known));
  }
  for (auto& [id, log] : logs_) {
    if (loaded->logs.contains(id)) continue;
    const bool made_since = !before.contains(id);
    if (other && !made_since && log.failed.ok()) {
      Fail(log, TableKey(log.name), "is no longer in the store");
    }
    if (other || made_since) {
      loaded->logs.emplace(id, std::move(log));
      continue;
    }
    if (Done done = Take(log, log.append)) undecided.push_back(std::move(done));
    if (follower_ != nullptr) follower_->Deleted(log.name, id);
  }
  for (StoredTable& table : loaded->tables) {
    auto& log = loaded->logs.at(table.id);
    const auto known = logs_.find(table.id);
    if (known != logs_.end()) {
      Log& followed = known->second;
      const absl::Status leads =
          CheckLeadsOn(followed, before[table.id], log, table, other);
      if (!leads.ok() && followed.failed.ok()) {
        server::Log(LogLevel::kError, "the store has another history",
                    {{"table", table.name}, {"error", leads.message()}});
        Fail(followed, TableKey(table.name), leads.message());
      }
      if (!followed.failed.ok() ||
          followed.record.next() >= log.record.next()) {
        const int64_t revision = log.revision;
        const bool same = followed.record.next() == log.record.next();
        followed.created = log.created;
        log = std::move(followed);
        if (same) log.revision = revision;
        continue;
      }
      Done done = Take(followed, followed.append);
      if (done != nullptr) undecided.push_back(std::move(done));
      log.offered = followed.offered;
    }
    if (follower_ != nullptr) follower_->Replaced(std::move(table));
  }
  logs_ = std::move(loaded->logs);
  floor_ = std::max(floor_, loaded->floor);
  floor_revision_ = other ? loaded->floor_revision
                          : std::max(floor_revision_, loaded->floor_revision);
  revision_ = loaded->revision;
  ++resyncs_;
  last_contact_ = SteadyNow().time_since_epoch().count();
  for (const Done& done : undecided) {
    done(Error(absl::StatusCode::kDeadlineExceeded, "STORE_UNDECIDED",
               "the store was read again while this was appended"));
  }
  return absl::OkStatus();
}

}  // namespace planb::server
