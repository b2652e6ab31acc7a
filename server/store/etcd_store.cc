// SPDX-License-Identifier: Apache-2.0

// Tables and appends; how the store opens and closes.

#include "server/store/etcd_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "base/target.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "server/base/error.h"
#include "server/store/etcd_txn.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

using etcd::LogRecord;
using etcd::TableRecord;
using etcdserverpb::KeyValue;

// Appends that are on the way at the same time, each of another table.
constexpr int kAppendThreads = 4;
constexpr int kDeleteAttempts = 16;

std::string PathOf(const EtcdOptions& options) {
  return absl::StrCat("etcd://", absl::StrJoin(options.endpoints, ","), "/",
                      absl::StripSuffix(options.prefix, "/"));
}

}  // namespace

absl::StatusOr<EtcdOptions> ParseEtcdUrl(absl::string_view url) {
  if (!absl::ConsumePrefix(&url, "etcd://")) {
    return absl::InvalidArgumentError("must begin with etcd://");
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(url, absl::MaxSplits('/', 1));
  // Not repeated: the store's name is logged and shown.
  if (parts.first.find('@') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        "takes no credentials; use --etcd_user and --etcd_password_file");
  }
  EtcdOptions options;
  for (absl::string_view endpoint :
       absl::StrSplit(parts.first, ',', absl::SkipEmpty())) {
    const absl::Status target = CheckTarget("member", endpoint);
    if (!target.ok()) return target;
    options.endpoints.emplace_back(endpoint);
  }
  const absl::string_view prefix = absl::StripSuffix(parts.second, "/");
  if (options.endpoints.empty() || prefix.empty()) {
    return absl::InvalidArgumentError(
        "must be etcd://HOST:PORT[,HOST:PORT...]/PREFIX");
  }
  options.prefix = absl::StrCat(prefix, "/");
  return options;
}

EtcdStore::EtcdStore(EtcdStoreOptions options,
                     std::unique_ptr<EtcdClient> client)
    : options_(std::move(options)),
      client_(std::move(client)),
      path_(PathOf(options_.etcd)),
      instance_(absl::Uniform<uint64_t>(absl::BitGen())) {
  last_contact_ = SteadyNow().time_since_epoch().count();
  for (int i = 0; i < kAppendThreads; ++i) {
    threads_.emplace_back([this] { AppendLoop(); });
  }
  threads_.emplace_back([this] { SnapshotLoop(); });
}

EtcdStore::~EtcdStore() {
  Close(absl::CancelledError("the store is closed"), SteadyNow());
}

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Open(
    EtcdStoreOptions options) {
  auto client = EtcdClient::Create(options.etcd);
  if (!client.ok()) return client.status();
  return std::unique_ptr<EtcdStore>(
      new EtcdStore(std::move(options), *std::move(client)));
}

std::string EtcdStore::Key(absl::string_view rest) const {
  return absl::StrCat(options_.etcd.prefix, rest);
}
std::string EtcdStore::TableKey(absl::string_view name) const {
  return Key(absl::StrCat("state/tables/", name));
}
std::string EtcdStore::LogPrefix(uint64_t id) const {
  return Key(absl::StrCat("state/logs/", Hex(id), "/"));
}
std::string EtcdStore::EntryKey(uint64_t id, uint64_t number) const {
  return absl::StrCat(LogPrefix(id), Hex(number));
}
std::string EtcdStore::ChunkPrefix(uint64_t id, uint64_t number) const {
  return Key(absl::StrCat("data/chunks/", Hex(id), "/", Hex(number), "/"));
}
std::string EtcdStore::PartPrefix(uint64_t id, uint64_t next) const {
  return Key(absl::StrCat("data/snapshots/", Hex(id), "/", Hex(next), "/"));
}

EtcdStore::Log* EtcdStore::Find(absl::string_view name, uint64_t id) {
  if (id != kAnyTable) {
    const auto found = logs_.find(id);
    return found == logs_.end() ? nullptr : &found->second;
  }
  for (auto& [key, log] : logs_) {
    if (log.name == name) return &log;
  }
  return nullptr;
}

absl::Duration EtcdStore::lag() const {
  return ElapsedSince(
      SteadyInstant(SteadyInstant::duration(last_contact_.load())));
}

uint64_t EtcdStore::generation_floor() const {
  const MutexLock lock(mutex_);
  return floor_;
}

absl::StatusOr<uint64_t> EtcdStore::CreateTable(const std::string& name,
                                                uint64_t generation,
                                                const FibOptions& fib) {
  TableRecord record;
  record.set_id(absl::Uniform<uint64_t>(absl::BitGen(), 1, ~uint64_t{0}));
  record.set_first_generation(generation);
  record.set_generation(generation);
  record.set_prefix_lengths(fib.prefix_lengths);
  record.set_next(1);
  record.set_digest(TableDigest().ToString());
  const std::string key = TableKey(name);
  const std::string floor_key = Key("state/floor");
  etcdserverpb::TxnRequest txn;
  CompareCreation(key, 0, txn);
  {
    const MutexLock lock(mutex_);
    if (absl::Status s = Silence(); !s.ok()) return s;
    // The floor has risen since the caller read it.
    if (floor_ != 0 && generation <= floor_) return StoreConflict();
    creating_.insert(record.id());
    CompareRevision(floor_key, floor_revision_, txn);
  }
  AddPut(key, record.SerializeAsString(), txn);
  ReadElse(key, txn);
  ReadElse(floor_key, txn);
  bool lost = false;
  const auto response = client_->Txn(txn, absl::InfiniteDuration(), &lost);
  const MutexLock lock(mutex_);
  creating_.erase(record.id());
  // The watch has seen it made, and did not tell the follower.
  if (logs_.contains(record.id())) return record.id();
  if (!response.ok()) return Failed(response.status(), lost);
  int64_t revision = response->header().revision();
  if (!response->succeeded()) {
    const KeyValue* const found = FoundElse(*response);
    if (found == nullptr) {
      // Another server has deleted a table.
      const KeyValue* const floor = FoundElse(*response, 1);
      uint64_t generations = 0;
      if (floor != nullptr && !absl::SimpleAtoi(floor->value(), &generations)) {
        return Corrupt(floor_key, "is not a number");
      }
      floor_ = std::max(floor_, generations);
      floor_revision_ = floor == nullptr ? 0 : floor->mod_revision();
      return StoreConflict();
    }
    TableRecord other;
    if (!other.ParseFromString(found->value()) || other.id() != record.id()) {
      return FieldError(absl::StatusCode::kAlreadyExists, "TABLE_EXISTS",
                        "table",
                        absl::StrCat("there is a table \"", name, "\""));
    }
    // An attempt of this very call made it, and the answer was lost.
    revision = found->create_revision();
  }
  Log log = {.name = name,
             .id = record.id(),
             .created = revision,
             .revision = revision,
             .record = record};
  logs_.try_emplace(record.id(), std::move(log));  // the watch may be ahead
  return record.id();
}

absl::Status EtcdStore::DeleteTable(const std::string& name, uint64_t id,
                                    uint64_t generation) {
  const std::string key = TableKey(name);
  const std::string floor_key = Key("state/floor");
  int64_t revision = 0;
  uint64_t floor = 0;
  int64_t floor_revision = 0;
  {
    const MutexLock lock(mutex_);
    if (absl::Status s = Silence(); !s.ok()) return s;
    const Log* const log = Find(name, id);
    if (log == nullptr) return absl::OkStatus();  // another server did it
    revision = log->revision;
    id = log->id;
    generation = std::max(generation, log->record.generation());
    floor = floor_;
    floor_revision = floor_revision_;
  }
  bool lost = false;
  for (int attempt = 0; attempt < kDeleteAttempts; ++attempt) {
    floor = std::max(floor, generation);
    etcdserverpb::TxnRequest txn;
    CompareRevision(key, revision, txn);
    // Another server may have deleted a table with a higher generation.
    CompareRevision(floor_key, floor_revision, txn);
    AddDelete(key, "", txn);
    for (const std::string& prefix :
         {LogPrefix(id), Key(absl::StrCat("data/chunks/", Hex(id), "/")),
          Key(absl::StrCat("data/snapshots/", Hex(id), "/"))}) {
      AddDelete(prefix, EndOfPrefix(prefix), txn);
    }
    AddDelete(Key(absl::StrCat("state/snapshots/", Hex(id))), "", txn);
    AddPut(floor_key, absl::StrCat(floor), txn);
    ReadElse(key, txn);
    ReadElse(floor_key, txn);
    const auto response = client_->Txn(txn, absl::InfiniteDuration(), &lost);
    if (!response.ok()) return Failed(response.status(), lost);
    if (response->succeeded()) {
      const MutexLock lock(mutex_);
      floor_ = std::max(floor_, floor);
      floor_revision_ =
          std::max(floor_revision_, response->header().revision());
      const auto log = logs_.find(id);
      if (log == logs_.end()) return absl::OkStatus();
      const Done done = Take(log->second, log->second.append);
      logs_.erase(log);
      if (done != nullptr) done(NoTable(name));
      return absl::OkStatus();
    }
    const KeyValue* const found = FoundElse(*response);
    TableRecord record;
    if (found == nullptr) return absl::OkStatus();
    if (!record.ParseFromString(found->value())) {
      return Corrupt(key, "is not a table's record");
    }
    if (record.id() != id) return absl::OkStatus();  // already another one
    revision = found->mod_revision();
    generation = std::max(generation, record.generation());
    const KeyValue* const floor_found = FoundElse(*response, 1);
    if (floor_found == nullptr) continue;
    floor_revision = floor_found->mod_revision();
    uint64_t other = 0;
    if (!absl::SimpleAtoi(floor_found->value(), &other)) {
      return Corrupt(floor_key, "is not a number");
    }
    floor = std::max(floor, other);
  }
  return StoreConflict();
}

void EtcdStore::StartAppend(const std::string& table, uint64_t id,
                            uint64_t position,
                            absl::Span<const AcceptedBatch> batches,
                            Done done) {
  if (batches.empty() && position == kAnyPosition) {
    return done(absl::OkStatus());
  }
  std::vector<Entry> entries =
      MakeEntries(batches, std::numeric_limits<size_t>::max());
  if (entries.empty()) entries.emplace_back();
  MutexLock lock(mutex_);
  if (!closed_.ok()) {
    const absl::Status why = closed_;
    lock.unlock();
    return done(why);
  }
  jobs_.push_back({table, id, position, batches.empty(), std::move(entries[0]),
                   std::move(done)});
  changed_.notify_all();
}

void EtcdStore::AppendLoop() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ending_ || !jobs_.empty();
    });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    if (job.confirms) {
      job.done(Confirm(job));
    } else {
      Append(std::move(job));
    }
    lock.lock();
    --busy_;
    changed_.notify_all();
  }
}

TableLog::Done EtcdStore::Take(Log& log, uint64_t append) {
  if (append == 0 || log.append != append) return nullptr;
  log.append = 0;
  return std::exchange(log.done, nullptr);
}

absl::Status EtcdStore::Refusal(const Job& job, const Log* log) const {
  if (!closed_.ok()) return closed_;
  if (log == nullptr) return DeletedRemotely();
  if (!log->failed.ok()) return log->failed;
  if (absl::Status s = Silence(); !s.ok()) return s;
  if (job.position != kAnyPosition && job.position + 1 != log->record.next()) {
    return StoreConflict();  // the follower has been told already
  }
  if (job.entry.generation != 0 &&
      job.entry.previous != log->record.generation()) {
    // No server could apply it.
    return Corrupt(
        EntryKey(log->id, log->record.next()),
        absl::StrCat("would follow generation ", log->record.generation(),
                     " as if it was ", job.entry.previous));
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::Silence() const {
  // However new the copy is: this may be another store, or of another format.
  if (closed_.ok() && resumed_ && revision_ == 0) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "the tables of etcd were not read since this server began");
  }
  if (!closed_.ok() || follower_ == nullptr || lag() <= 2 * options_.silence) {
    return closed_;
  }
  return Error(
      absl::StatusCode::kUnavailable, "STORE_FAILED",
      absl::StrCat("etcd has not answered for ", absl::FormatDuration(lag())));
}

absl::Status EtcdStore::Confirm(const Job& job) {
  uint64_t id = 0;
  TableRecord known;
  bool conflict = false;
  {
    const MutexLock lock(mutex_);
    const Log* const log = Find(job.table, job.id);
    const absl::Status refusal = Refusal(job, log);
    // Others may always be ahead: where they are now is confirmed all the same.
    conflict = IsStoreConflict(refusal);
    if (!refusal.ok() && !conflict) return refusal;
    id = log->id;
    known = log->record;
  }
  etcdserverpb::RangeRequest request;  // linearizable
  request.set_key(TableKey(job.table));
  const auto read = client_->Range(request);
  {
    const MutexLock lock(mutex_);
    if (!closed_.ok()) return closed_;
  }
  if (!read.ok()) return Failed(read.status());
  if (read->kvs().empty()) return NoTable(job.table);
  TableRecord record;
  if (!record.ParseFromString(read->kvs(0).value())) {
    return Corrupt(request.key(), "is not a table's record");
  }
  if (record.id() != id) return DeletedRemotely();
  const absl::Status followed = StoreConflict(record.next() - 1);
  if (SameEnd(record, known)) return conflict ? followed : absl::OkStatus();
  if (record.next() <= known.next()) {
    diverged_ = true;
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "etcd has other entries than this server followed; all is "
                 "read again");
  }
  const absl::Status told = CatchUp(id);
  if (told.ok() || IsStoreConflict(told)) return followed;
  return ErrorReason(told) == "STORE_CORRUPT" ? told : Failed(told);
}

absl::StatusOr<uint64_t> EtcdStore::FindTable(const std::string& name) {
  {
    const MutexLock lock(mutex_);
    if (absl::Status s = Silence(); !s.ok()) return s;
  }
  etcdserverpb::RangeRequest request;  // linearizable
  request.set_key(TableKey(name));
  const auto read = client_->Range(request);
  if (!read.ok()) return Failed(read.status());
  if (read->kvs().empty()) return kAnyTable;
  TableRecord record;
  if (!record.ParseFromString(read->kvs(0).value())) {
    return Corrupt(request.key(), "is not a table's record");
  }
  const MutexLock lock(mutex_);
  const auto missing = missing_.find(name);
  if (missing != missing_.end() &&
      missing->second.created == read->kvs(0).create_revision()) {
    return missing->second.why;
  }
  return record.id();
}

absl::StatusOr<size_t> EtcdStore::CountTables() {
  {
    const MutexLock lock(mutex_);
    if (absl::Status s = Silence(); !s.ok()) return s;
  }
  etcdserverpb::RangeRequest request;  // linearizable
  request.set_key(TableKey(""));
  request.set_range_end(EndOfPrefix(request.key()));
  request.set_count_only(true);
  const auto read = client_->Range(request);
  if (!read.ok()) return Failed(read.status());
  return static_cast<size_t>(read->count());
}

void EtcdStore::StopTable(const std::string& table, uint64_t id,
                          const absl::Status& why) {
  const MutexLock lock(mutex_);
  Log* const log = Find(table, id);
  if (log != nullptr && log->failed.ok()) log->failed = why;
  ReportAgain();
}

void EtcdStore::Append(Job job) {
  LogRecord entry;
  TableRecord record;
  std::string before;  // the record as it is in etcd
  uint64_t chain = 0;  // of it
  int64_t revision = 0;
  uint64_t id = job.id;
  uint64_t number = 0;
  int64_t created = 0;
  const std::string key = TableKey(job.table);
  {
    const MutexLock lock(mutex_);
    Log* const log = Find(job.table, id);
    const absl::Status why = Refusal(job, log);
    if (!why.ok()) return job.done(why);
    id = log->id;
    created = log->created;
    record = log->record;
    before = record.SerializeAsString();
    chain = record.chain();
    revision = log->revision;
    number = record.next();
    log->append = ++appends_;
    if (job.entry.generation != 0) {
      record.set_generation(job.entry.generation);
      record.set_digest(job.entry.digest);
    }
    log->append_generation = record.generation();
    log->append_digest = record.digest();
    log->done = std::move(job.done);
    entry.set_append(log->append);
  }
  const uint64_t append = entry.append();
  std::string& contents = job.entry.bytes;
  record.set_chain(Xxh3(contents, record.chain()));
  record.set_next(number + 1);
  entry.set_writer(instance_);
  entry.set_chain(record.chain());
  entry.set_bytes(contents.size());
  absl::Status status;
  bool conflict = false;
  uint64_t position = kAnyPosition;  // of the table, as the store says
  const std::string chunks =
      absl::StrCat(ChunkPrefix(id, number), Hex(instance_), Hex(append), "/");
  if (contents.size() <= options_.chunk_bytes) {
    entry.set_contents(std::move(contents));
  } else {
    status = PutChunks(job.table, id, created, number, chunks, contents, entry);
    conflict = IsStoreConflict(status);
  }
  bool lost = false;
  for (int attempt = 0; status.ok(); ++attempt) {
    etcdserverpb::TxnRequest txn;
    CompareRevision(key, revision, txn);
    // After a restore from a backup another record may have this revision.
    CompareValue(key, before, txn);
    // Where a foreign entry stands, nothing is written over it.
    CompareCreation(EntryKey(id, number), 0, txn);
    AddPut(EntryKey(id, number), entry.SerializeAsString(), txn);
    AddPut(key, record.SerializeAsString(), txn);
    ReadElse(key, txn);
    const auto response = client_->Txn(txn, absl::InfiniteDuration(), &lost);
    status = response.status();
    if (response.ok() && !response->succeeded() && attempt == 0) {
      // The same position at another revision, of a restored store; or with
      // fields of a newer server.
      const KeyValue* const found = FoundElse(*response);
      TableRecord there;
      const bool parsed =
          found != nullptr && there.ParseFromString(found->value());
      if (found == nullptr || (parsed && there.id() != id)) {
        status = found == nullptr ? NoTable(job.table) : DeletedRemotely();
        break;
      }
      if (parsed && there.next() == number && there.chain() == chain) {
        revision = found->mod_revision();
        before = found->value();
        continue;
      }
      if (parsed) position = there.next() - 1;
    }
    if (response.ok() && response->succeeded()) {
      // As the watch does, which may be ahead.
      Deliver(id, number, response->header().revision(),
              entry.SerializeAsString())
          .IgnoreError();
      const MutexLock lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end()) return;  // deleted since, which has ended it
      const Done done = Take(log->second, append);  // of a table that stopped
      if (done != nullptr) done(absl::OkStatus());
      return;
    }
    conflict = response.ok();
    break;
  }
  // Also finds this append, if an attempt made it and the answer was lost.
  if (conflict) status = CatchUp(id);
  Done done;
  {
    const MutexLock lock(mutex_);
    const auto log = logs_.find(id);
    if (log == logs_.end()) return;
    done = Take(log->second, append);
    if (done == nullptr) return;
    if (log->second.record.next() > number) {
      // Another server's entry has this number.
      lost = false;
      status = StoreConflict(position);
    } else if (conflict && status.ok()) {
      // The entry was appended and replaced by a snapshot since, or was not.
      status = lost ? absl::UnavailableError("etcd: an answer was lost")
               : log->second.failed.ok() ? StoreConflict()
                                         : log->second.failed;
    }
    if (!lost && !closed_.ok()) {
      status = closed_;
    } else if (lost || ErrorReason(status).empty()) {
      status = Failed(status, lost);
    }
    done(status);
  }
  // Not if etcd is away: then a snapshot deletes them later.
  if (entry.chunks() > 0 && !lost && !absl::IsUnavailable(status)) {
    etcdserverpb::DeleteRangeRequest erase;
    erase.set_key(chunks);
    erase.set_range_end(EndOfPrefix(chunks));
    client_->DeleteRange(erase).IgnoreError();
  }
}

absl::Status EtcdStore::PutChunks(const std::string& table, uint64_t id,
                                  int64_t created, uint64_t number,
                                  const std::string& prefix,
                                  const std::string& contents,
                                  LogRecord& entry) {
  for (size_t at = 0; at < contents.size(); at += options_.chunk_bytes) {
    {
      const MutexLock lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end()) return DeletedRemotely();
      if (!log->second.failed.ok()) return log->second.failed;
      if (log->second.record.next() != number) return StoreConflict();
    }
    etcdserverpb::TxnRequest txn;
    // Nothing deletes what is put after the table was deleted.
    CompareCreation(TableKey(table), created, txn);
    AddPut(absl::StrCat(prefix, Hex(entry.chunks())),
           contents.substr(at, options_.chunk_bytes), txn);
    entry.set_chunks(entry.chunks() + 1);
    const auto response = client_->Txn(txn);
    if (!response.ok()) return response.status();
    if (!response->succeeded()) return DeletedRemotely();
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::CatchUp(uint64_t id) {
  etcdserverpb::RangeRequest request;
  request.set_range_end(EndOfPrefix(LogPrefix(id)));
  request.set_limit(4);  // of half a megabyte, perhaps
  bool more = true;
  for (uint64_t last = 0;;) {
    uint64_t next = 0;
    {
      const MutexLock lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end() || !log->second.failed.ok())
        return absl::OkStatus();
      next = log->second.record.next();
      if (std::exchange(last, next) == next)
        return absl::OkStatus();  // skipped
      // The watch may have told of later ones and skipped them.
      if (!more && !log->second.skips()) return absl::OkStatus();
    }
    request.set_key(EntryKey(id, next));
    const auto page = client_->Range(request);
    if (!page.ok()) return page.status();
    if (page->kvs().empty()) return absl::OkStatus();
    for (const KeyValue& kv : page->kvs()) {
      uint64_t number = 0;
      const absl::string_view digits =
          absl::string_view(kv.key()).substr(LogPrefix(id).size());
      if (!absl::SimpleHexAtoi(digits, &number)) {
        return Corrupt(kv.key(), "is not an entry's key");
      }
      // A gap: a snapshot replaced them. The watch delivers them.
      const absl::Status status =
          Deliver(id, number, kv.mod_revision(), kv.value());
      if (!status.ok()) return absl::OkStatus();
    }
    more = page->more();
  }
}

void EtcdStore::Close(const absl::Status& why, SteadyInstant deadline) {
  std::vector<Done> refused;
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    closed_ = why;
    for (Job& job : jobs_) refused.push_back(std::move(job.done));
    jobs_.clear();
    changed_.wait_until(
        lock, deadline,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return busy_ == 0; });
    ending_ = true;
    changed_.notify_all();
  }
  {
    // The other servers need not wait for the end of its lease.
    MutexLock lock(report_mutex_);
    report_ending_ = true;
    report_changed_.notify_all();
    report_changed_.wait_until(
        lock, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(report_mutex_) {
          return !reporting_ || report_ended_;
        });
  }
  client_->Cancel();
  for (std::thread& thread : threads_) thread.join();
  for (const Done& done : refused) done(why);
}

}  // namespace planb::server
