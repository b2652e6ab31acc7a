// SPDX-License-Identifier: Apache-2.0

#include "server/store/etcd_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "lpm/io/byte_source.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/base/periodic.h"
#include "server/store/store_entry.h"
#include "server/store/store_replay.h"
#include "server/store/store_snapshot.h"

namespace planb::server {
namespace {

using etcd::LogRecord;
using etcd::SnapshotRecord;
using etcd::TableRecord;
using etcdserverpb::KeyValue;

constexpr char kFormat[] = "planb store 1";
// Tables whose appends are on the way at the same time.
constexpr int kAppendThreads = 4;
constexpr int kLoadAttempts = 5;
constexpr int kDeleteAttempts = 16;
constexpr int64_t kLeaseSeconds = 10;
constexpr absl::Duration kLeaseRefresh = absl::Seconds(3);
// Reports of all servers together come no more often than the second, and those
// of one server no more often than the first.
constexpr absl::Duration kReportPause = absl::Milliseconds(50);
constexpr absl::Duration kReportShare = absl::Milliseconds(10);
constexpr auto kWatchPause = std::chrono::milliseconds(100);

// 16 digits, so that keys are in the order of numbers.
std::string Hex(uint64_t number) {
  return absl::StrCat(absl::Hex(number, absl::kZeroPad16));
}

absl::Status Failed(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    return QuotaError("STORE_FULL", "store", status.message(),
                      absl::Seconds(1));
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               status.message());
}

// Of a transaction that etcd may have made.
absl::Status Undecided(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
    return Failed(status);
  }
  return Error(absl::StatusCode::kDeadlineExceeded, "STORE_UNDECIDED",
               status.message());
}

absl::Status Corrupt(absl::string_view key, absl::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat(key, " ", what));
}

absl::Status NoTable(absl::string_view name) {
  return FieldError(absl::StatusCode::kNotFound, "TABLE_NOT_FOUND", "table",
                    absl::StrCat("there is no table \"", name, "\""));
}

absl::Status Conflict() {
  return Error(absl::StatusCode::kAborted, kStoreConflict,
               "another server was ahead; repeat the call");
}

void AddPut(const std::string& key, const std::string& value,
            etcdserverpb::TxnRequest& txn) {
  auto& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
}

// `end` empty: the key alone.
void AddDelete(const std::string& key, const std::string& end,
               etcdserverpb::TxnRequest& txn) {
  auto& erase = *txn.add_success()->mutable_request_delete_range();
  erase.set_key(key);
  erase.set_range_end(end);
}

void CompareRevision(const std::string& key, int64_t revision,
                     etcdserverpb::TxnRequest& txn) {
  auto& compare = *txn.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_mod_revision(revision);
}

void CompareCreation(const std::string& key, int64_t revision,
                     etcdserverpb::TxnRequest& txn) {
  auto& compare = *txn.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_create_revision(revision);
}

// Reads the key if the comparison fails.
void ReadElse(const std::string& key, etcdserverpb::TxnRequest& txn) {
  txn.add_failure()->mutable_request_range()->set_key(key);
}

// What ReadElse() read; null if there is no such key.
const KeyValue* FoundElse(const etcdserverpb::TxnResponse& response,
                          int index = 0) {
  const auto& range = response.responses(index).response_range();
  return range.kvs().empty() ? nullptr : &range.kvs(0);
}

absl::StatusOr<std::vector<AcceptedBatch>> ParseBatches(
    const std::string& contents) {
  std::vector<AcceptedBatch> batches;
  ByteCursor cursor(contents);
  uint64_t generation = 0;
  if (!ReadGeneration(cursor, generation)) {
    return absl::DataLossError("ends too early");
  }
  while (!cursor.empty()) {
    ReadBatchResult read;
    const absl::Status status = ReadBatch(cursor, read);
    if (!status.ok()) return status;
    AcceptedBatch& batch = batches.emplace_back();
    batch.writer_epoch = read.writer_epoch;
    batch.request = std::move(read.request);
    if (read.delta.has_value()) {
      batch.delta = std::make_shared<const Delta>(*std::move(read.delta));
    }
  }
  return batches;
}

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
  EtcdOptions options;
  for (absl::string_view endpoint :
       absl::StrSplit(parts.first, ',', absl::SkipEmpty())) {
    if (endpoint.find(':') == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", endpoint, "\" is not HOST:PORT"));
    }
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
  heard_ = SteadyNow().time_since_epoch().count();
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
  return Error(absl::StatusCode::kFailedPrecondition, "STORE_TOO_NEW",
               absl::StrCat(key, " is not \"", kFormat, "\""));
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

absl::StatusOr<std::string> EtcdStore::Contents(uint64_t id, uint64_t number,
                                                const LogRecord& record,
                                                int64_t revision) {
  if (record.chunks() == 0) return record.contents();
  std::string contents;
  contents.reserve(record.bytes());
  const auto read = client_->ReadPrefix(
      absl::StrCat(ChunkPrefix(id, number), Hex(record.writer()),
                   Hex(record.append()), "/"),
      revision, [&](const KeyValue& kv) {
        contents += kv.value();
        return absl::OkStatus();
      });
  if (!read.ok()) return read.status();
  return contents;
}

absl::StatusOr<StoredTable> EtcdStore::LoadTable(Log& log, int64_t revision) {
  LogReplay replay(options_.request_window);
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
    table.generation = snapshot.generation();
    log.snapshot_bytes = snapshot.bytes();
    replay.BeginSnapshot(snapshot.bytes());
    const std::string prefix = PartPrefix(log.id, next);
    uint64_t parts = 0;
    uint64_t checksum = 0;
    const auto read = client_->ReadPrefix(
        prefix, revision, [&](const KeyValue& kv) -> absl::Status {
          ++parts;
          checksum = ChainChecksum(kv.value(), checksum);
          const absl::Status pushed = replay.PushSnapshot(kv.value());
          return pushed.ok() ? pushed : Corrupt(kv.key(), pushed.message());
        });
    if (!read.ok()) return read.status();
    if (parts != snapshot.parts() || checksum != snapshot.checksum()) {
      return Corrupt(prefix, "does not have the parts that were written");
    }
    const absl::Status ended = replay.EndSnapshot();
    if (!ended.ok()) return Corrupt(prefix, ended.message());
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
        chain = ChainChecksum(*contents, chain);
        if (chain != record.chain()) {
          return Corrupt(kv.key(),
                         "is damaged, or does not follow the one before it");
        }
        const absl::Status replayed = replay.ReadEntry(*contents);
        if (!replayed.ok()) return Corrupt(kv.key(), replayed.message());
        log.log_bytes += contents->size();
        log.ends.push_back({next++, table.generation, chain, contents->size()});
        return absl::OkStatus();
      });
  if (!read.ok()) return read.status();
  if (next != log.record.next() || chain != log.record.chain()) {
    return Corrupt(prefix, "ends at another entry than the last one");
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
          log.created = kv.create_revision();
          log.revision = kv.mod_revision();
          if (!log.record.ParseFromString(kv.value()) || log.record.id() == 0) {
            return Corrupt(kv.key(), "is not a table's record");
          }
          log.id = log.record.id();
          if (!loaded.logs.try_emplace(log.id, log).second) {
            return Corrupt(kv.key(), "has the id of another table");
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
    }
    if (status.ok()) {
      std::sort(loaded.tables.begin(), loaded.tables.end(),
                [](const auto& a, const auto& b) { return a.name < b.name; });
      return loaded;
    }
    // Compacted while it was read.
    if (absl::IsOutOfRange(status) && attempt < kLoadAttempts) continue;
    if (ErrorReason(status) == "STORE_CORRUPT") return status;
    return Failed(status);
  }
}

absl::StatusOr<std::vector<StoredTable>> EtcdStore::Load() {
  const absl::Status format = CheckFormat(options_.patience);
  if (!format.ok()) return format;
  auto loaded = LoadAll();
  if (!loaded.ok()) return loaded.status();
  const bool has_default =
      std::any_of(loaded->tables.begin(), loaded->tables.end(),
                  [](const StoredTable& t) { return t.name == "default"; });
  if (!has_default) {
    // The first of all servers; or another one makes it at this moment.
    {
      const std::lock_guard lock(mutex_);
      floor_revision_ = loaded->floor_revision;
    }
    const auto made = CreateTable("default", loaded->floor, FibOptions());
    if (!made.ok() && !absl::IsAlreadyExists(made.status())) {
      return made.status();
    }
    loaded = LoadAll();
    if (!loaded.ok()) return loaded.status();
  }
  const std::lock_guard lock(mutex_);
  logs_ = std::move(loaded->logs);
  floor_ = loaded->floor;
  floor_revision_ = loaded->floor_revision;
  revision_ = loaded->revision;
  return std::move(loaded->tables);
}

absl::Status EtcdStore::Resume(absl::Span<StoredTable> tables,
                               absl::Duration age) {
  resumed_ = true;
  heard_ = SteadyAfter(-age).time_since_epoch().count();
  const std::lock_guard lock(mutex_);
  // Without an entry, so that the store is ahead once it is read.
  for (const StoredTable& table : tables) {
    logs_[table.id] = {.name = table.name, .id = table.id};
  }
  return absl::OkStatus();
}

void EtcdStore::Follow(StoreFollower& follower) {
  {
    const std::lock_guard lock(mutex_);
    follower_ = &follower;
  }
  if (!resumed_) heard_ = SteadyNow().time_since_epoch().count();
  threads_.emplace_back([this] { WatchLoop(); });
  threads_.emplace_back([this] { ReportLoop(); });
}

void EtcdStore::Report(const std::string& table, uint64_t generation) {
  const std::lock_guard lock(report_mutex_);
  uint64_t& visible = visible_[table];
  visible = std::max(visible, generation);
  report_due_ = true;
  report_changed_.notify_one();
}

void EtcdStore::ReportLoop() {
  int64_t lease = 0;
  SteadyInstant kept;
  int64_t servers = 1;
  bool due = true;
  std::unique_lock lock(report_mutex_);
  while (!report_ending_) {
    lock.unlock();
    absl::Status status;
    if (lease != 0 && ElapsedSince(kept) >= kLeaseRefresh) {
      status = client_->KeepLease(lease);
      if (status.ok()) kept = SteadyNow();
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
    // It has ended if this server was paused, and the record with it.
    if (absl::IsNotFound(status)) lease = 0;
    lock.lock();
    report_changed_.wait_for(lock,
                             absl::ToChronoMilliseconds(std::max(
                                 kReportPause, kReportShare * servers)),
                             [this] { return report_ending_; });
    if (lease == 0) continue;
    report_changed_.wait_for(
        lock, absl::ToChronoMilliseconds(kLeaseRefresh),
        [&] { return report_ending_ || report_due_ || due; });
    due = std::exchange(report_due_, false) || due;
  }
  lock.unlock();
  if (lease != 0) client_->RevokeLease(lease).IgnoreError();
  lock.lock();
  report_ended_ = true;
  report_changed_.notify_all();
}

absl::StatusOr<int64_t> EtcdStore::SendReport(int64_t lease) {
  etcd::ReplicaRecord record;
  record.set_name(options_.replica_name);
  record.set_version(options_.version);
  record.set_reported_unix_nanos(absl::GetCurrentTimeNanos());
  std::set<std::string> tables;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, log] : logs_) tables.insert(log.name);
  }
  {
    const std::lock_guard lock(report_mutex_);
    std::erase_if(visible_, [&](const auto& table) {
      return !tables.contains(table.first);
    });
    for (const auto& [table, generation] : visible_) {
      auto& reported = *record.add_tables();
      reported.set_table(table);
      reported.set_generation(generation);
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
  const std::lock_guard lock(replicas_mutex_);
  if (!replicas_.empty() && ElapsedSince(replicas_read_) <= max_age) {
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
          replica.visible[table.table()] = table.generation();
        }
        return absl::OkStatus();
      });
  if (!read.ok()) {
    return ErrorReason(read.status()) == "STORE_CORRUPT"
               ? read.status()
               : Failed(read.status());
  }
  std::sort(replicas.begin(), replicas.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  replicas_ = replicas;
  replicas_read_ = began;
  return replicas;
}

absl::Duration EtcdStore::lag() const {
  return ElapsedSince(SteadyInstant(SteadyInstant::duration(heard_.load())));
}

uint64_t EtcdStore::generation_floor() const {
  const std::lock_guard lock(mutex_);
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
  const std::string key = TableKey(name);
  etcdserverpb::TxnRequest txn;
  CompareCreation(key, 0, txn);
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return closed_;
    creating_.insert(record.id());
    CompareRevision(Key("state/floor"), floor_revision_, txn);
  }
  AddPut(key, record.SerializeAsString(), txn);
  ReadElse(key, txn);
  const auto response = client_->Txn(txn);
  const std::lock_guard lock(mutex_);
  creating_.erase(record.id());
  if (!response.ok()) return Undecided(response.status());
  int64_t revision = response->header().revision();
  if (!response->succeeded()) {
    const KeyValue* const found = FoundElse(*response);
    if (found == nullptr) return Conflict();
    TableRecord other;
    if (!other.ParseFromString(found->value()) || other.id() != record.id()) {
      return FieldError(absl::StatusCode::kAlreadyExists, "TABLE_EXISTS",
                        "table",
                        absl::StrCat("there is a table \"", name, "\""));
    }
    // This very call, by an attempt whose answer was lost.
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
  int64_t revision = 0;
  uint64_t floor = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return closed_;
    const Log* const log = Find(name, id);
    if (log == nullptr) return absl::OkStatus();  // another server did it
    revision = log->revision;
    id = log->id;
    floor = floor_;
  }
  for (int attempt = 0; attempt < kDeleteAttempts; ++attempt) {
    floor = std::max(floor, generation);
    etcdserverpb::TxnRequest txn;
    CompareRevision(key, revision, txn);
    AddDelete(key, "", txn);
    for (const std::string& prefix :
         {LogPrefix(id), Key(absl::StrCat("data/chunks/", Hex(id), "/")),
          Key(absl::StrCat("data/snapshots/", Hex(id), "/"))}) {
      AddDelete(prefix, EndOfPrefix(prefix), txn);
    }
    AddDelete(Key(absl::StrCat("state/snapshots/", Hex(id))), "", txn);
    AddPut(Key("state/floor"), absl::StrCat(floor), txn);
    ReadElse(key, txn);
    const auto response = client_->Txn(txn);
    if (!response.ok()) return Undecided(response.status());
    if (response->succeeded()) {
      const std::lock_guard lock(mutex_);
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
  }
  return Conflict();
}

void EtcdStore::StartAppend(const std::string& table, uint64_t id,
                            uint64_t position,
                            absl::Span<const AcceptedBatch> batches,
                            Done done) {
  if (batches.empty()) return done(absl::OkStatus());
  uint64_t generation = 0;
  std::string body;
  for (const AcceptedBatch& batch : batches) {
    if (batch.delta != nullptr) generation = batch.delta->generation;
    AppendBatch(batch, body);
  }
  std::unique_lock lock(mutex_);
  if (!closed_.ok()) {
    const absl::Status why = closed_;
    lock.unlock();
    return done(why);
  }
  jobs_.push_back(
      {table, id, position, std::move(body), generation, std::move(done)});
  changed_.notify_all();
}

void EtcdStore::AppendLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    Append(std::move(job));
    lock.lock();
    --busy_;
    changed_.notify_all();
  }
}

Store::Done EtcdStore::Take(Log& log, uint64_t append) {
  if (append == 0 || log.append != append) return nullptr;
  log.append = 0;
  return std::exchange(log.done, nullptr);
}

void EtcdStore::Append(Job job) {
  LogRecord entry;
  TableRecord record;
  uint64_t id = job.id;
  uint64_t number = 0;
  etcdserverpb::TxnRequest txn;
  const std::string key = TableKey(job.table);
  {
    const std::lock_guard lock(mutex_);
    Log* const log = Find(job.table, id);
    absl::Status why;
    if (!closed_.ok()) {
      why = closed_;
    } else if (log == nullptr) {
      why = NoTable(job.table);
    } else if (!log->failed.ok()) {
      why = log->failed;
    } else if (log->record.next() == 0) {
      why = Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                  "etcd has not answered since this server began");
    } else if (job.position != kAnyPosition &&
               job.position + 1 != log->record.next()) {
      why = Conflict();  // the follower has been told already
    } else if (follower_ != nullptr && lag() > 2 * options_.silence) {
      why = Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                  absl::StrCat("etcd has not answered for ",
                               absl::FormatDuration(lag())));
    }
    if (!why.ok()) return job.done(why);
    id = log->id;
    record = log->record;
    number = record.next();
    log->append = ++appends_;
    if (job.generation != 0) record.set_generation(job.generation);
    log->append_generation = record.generation();
    log->done = std::move(job.done);
    entry.set_append(log->append);
    CompareRevision(key, log->revision, txn);
  }
  const uint64_t append = entry.append();
  std::string contents;
  AppendLittle(record.generation(), contents);
  contents += job.contents;
  record.set_chain(ChainChecksum(contents, record.chain()));
  record.set_next(number + 1);
  entry.set_writer(instance_);
  entry.set_chain(record.chain());
  entry.set_bytes(contents.size());
  absl::Status status;
  if (contents.size() <= options_.chunk_bytes) {
    entry.set_contents(std::move(contents));
  } else {
    const std::string prefix =
        absl::StrCat(ChunkPrefix(id, number), Hex(instance_), Hex(append), "/");
    for (size_t at = 0; at < contents.size() && status.ok();
         at += options_.chunk_bytes) {
      etcdserverpb::PutRequest put;
      put.set_key(absl::StrCat(prefix, Hex(entry.chunks())));
      put.set_value(contents.substr(at, options_.chunk_bytes));
      entry.set_chunks(entry.chunks() + 1);
      status = client_->Put(put);
    }
  }
  bool may_be_made = false;
  bool conflict = false;
  if (status.ok()) {
    // Where a foreign entry stands, nothing is written over it.
    CompareCreation(EntryKey(id, number), 0, txn);
    AddPut(EntryKey(id, number), entry.SerializeAsString(), txn);
    AddPut(key, record.SerializeAsString(), txn);
    ReadElse(key, txn);
    const auto response = client_->Txn(txn);
    status = response.status();
    may_be_made = !status.ok();
    if (response.ok() && response->succeeded()) {
      const std::lock_guard lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end()) return;  // deleted since, which has ended it
      if (log->second.record.next() == number) {
        log->second.record = record;
        log->second.revision = response->header().revision();
        log->second.log_bytes += entry.bytes();
        log->second.ends.push_back(
            {number, record.generation(), record.chain(), entry.bytes()});
      }
      const Done done = Take(log->second, append);
      if (done != nullptr) done(absl::OkStatus());
      return;
    }
    conflict = response.ok();
  }
  // Also finds this append, if an attempt made it whose answer was lost.
  if (conflict) status = CatchUp(id);
  const std::lock_guard lock(mutex_);
  const auto log = logs_.find(id);
  if (log == logs_.end()) return;
  const Done done = Take(log->second, append);
  if (done == nullptr) return;
  if (!closed_.ok()) {
    done(closed_);
  } else if (conflict && status.ok()) {
    done(Conflict());
  } else {
    done(may_be_made ? Undecided(status) : Failed(status));
  }
}

absl::Status EtcdStore::CatchUp(uint64_t id) {
  etcdserverpb::RangeRequest request;
  request.set_range_end(EndOfPrefix(LogPrefix(id)));
  request.set_limit(64);
  for (;;) {
    uint64_t next = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto log = logs_.find(id);
      if (log == logs_.end() || !log->second.failed.ok())
        return absl::OkStatus();
      next = log->second.record.next();
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
    if (!page->more()) return absl::OkStatus();
  }
}

void EtcdStore::Fail(Log& log, absl::string_view key, absl::string_view what) {
  const absl::Status why = Corrupt(key, what);
  log.failed = why;
  const Done done = Take(log, log.append);
  if (follower_ != nullptr) follower_->Failed(log.name, log.id, why);
  if (done != nullptr) done(why);
}

absl::Status EtcdStore::Deliver(uint64_t id, uint64_t number, int64_t revision,
                                const std::string& value) {
  LogRecord entry;
  const bool parsed = entry.ParseFromString(value);
  bool own = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = logs_.find(id);
    if (found == logs_.end() || !found->second.failed.ok())
      return absl::OkStatus();
    Log& log = found->second;
    if (number < log.record.next()) return absl::OkStatus();
    if (number > log.record.next()) {
      return absl::OutOfRangeError("entries are missing");
    }
    if (!parsed) {
      Fail(log, EntryKey(id, number), "is not an entry");
      return absl::OkStatus();
    }
    own = entry.writer() == instance_ && entry.append() == log.append;
  }
  std::string contents;
  std::vector<AcceptedBatch> batches;
  std::string damage;
  if (!own) {
    auto read = Contents(id, number, entry, revision);
    if (!read.ok()) return read.status();
    contents = *std::move(read);
    auto accepted = ParseBatches(contents);
    if (accepted.ok()) {
      batches = *std::move(accepted);
    } else {
      damage = std::string(accepted.status().message());
    }
  }
  std::unique_lock lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end() || !found->second.failed.ok())
    return absl::OkStatus();
  Log& log = found->second;
  if (number != log.record.next()) return absl::OkStatus();  // another thread
  if (!own) {
    if (ChainChecksum(contents, log.record.chain()) != entry.chain()) {
      damage = "is damaged, or does not follow the one before it";
    }
    if (!damage.empty()) {
      Fail(log, EntryKey(id, number), damage);
      return absl::OkStatus();
    }
    ByteCursor cursor(contents);
    uint64_t generation = 0;
    ReadGeneration(cursor, generation);
    log.record.set_generation(generation);
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
  }
  log.record.set_next(number + 1);
  log.record.set_chain(entry.chain());
  log.revision = revision;
  log.log_bytes += entry.bytes();
  log.ends.push_back(
      {number, log.record.generation(), entry.chain(), entry.bytes()});
  if (own) {
    done(absl::OkStatus());
  } else if (follower_ != nullptr) {
    follower_->Appended(log.name, id, number, std::move(batches));
  }
  return absl::OkStatus();
}

void EtcdStore::Created(const std::string& name, const KeyValue& kv) {
  TableRecord record;
  const std::lock_guard lock(mutex_);
  if (!record.ParseFromString(kv.value())) return;
  if (logs_.contains(record.id())) return;
  if (kv.version() != 1) return;
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

void EtcdStore::Event(const etcdserverpb::Event& event) {
  const KeyValue& kv = event.kv();
  absl::string_view key = kv.key();
  const bool put = event.type() == etcdserverpb::Event::PUT;
  if (absl::ConsumePrefix(&key, Key("state/logs/"))) {
    if (!put) return;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(key, absl::MaxSplits('/', 1));
    uint64_t id = 0;
    uint64_t number = 0;
    if (!absl::SimpleHexAtoi(parts.first, &id) ||
        !absl::SimpleHexAtoi(parts.second, &number)) {
      return;
    }
    const absl::Status status =
        Deliver(id, number, kv.mod_revision(), kv.value());
    if (status.ok()) return;
    const absl::Status resynced = Resync();
    if (resynced.ok()) return;
    server::Log(LogLevel::kError, "an entry of the store cannot be followed",
                {{"key", kv.key()}, {"error", status.message()}});
    const std::lock_guard lock(mutex_);
    const auto log = logs_.find(id);
    if (log != logs_.end()) Fail(log->second, kv.key(), status.message());
    return;
  }
  if (absl::ConsumePrefix(&key, Key("state/tables/"))) {
    if (put) return Created(std::string(key), kv);
    const std::lock_guard lock(mutex_);
    // This server may have made a later one of that name already.
    for (auto log = logs_.begin(); log != logs_.end();) {
      if (log->second.name != key ||
          log->second.revision >= kv.mod_revision()) {
        ++log;
        continue;
      }
      const Log deleted = std::move(log->second);
      log = logs_.erase(log);
      if (follower_ != nullptr) follower_->Deleted(deleted.name, deleted.id);
      if (deleted.done != nullptr) deleted.done(NoTable(deleted.name));
    }
    return;
  }
  if (absl::ConsumePrefix(&key, Key("state/snapshots/"))) {
    uint64_t id = 0;
    SnapshotRecord record;
    if (!put || !absl::SimpleHexAtoi(key, &id) ||
        !record.ParseFromString(kv.value())) {
      return;
    }
    const std::lock_guard lock(mutex_);
    const auto found = logs_.find(id);
    if (found == logs_.end()) return;
    auto& followed = found->second;
    followed.snapshot_bytes = record.bytes();
    while (!followed.ends.empty() &&
           followed.ends.front().number < record.next()) {
      followed.log_bytes -= followed.ends.front().bytes;
      followed.ends.pop_front();
    }
    return;
  }
  if (key == Key("state/floor") && put) {
    const std::lock_guard lock(mutex_);
    floor_revision_ = std::max(floor_revision_, kv.mod_revision());
    uint64_t floor = 0;
    if (absl::SimpleAtoi(kv.value(), &floor)) floor_ = std::max(floor_, floor);
  }
}

void EtcdStore::WatchLoop() {
  bool missed = resumed_;  // events, so that all must be read again
  bool logged = false;
  for (;;) {
    int64_t from = 0;
    {
      std::unique_lock lock(mutex_);
      if (ending_) return;
      from = revision_ + 1;
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
      if (!missed) continue;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kWatchPause, [this] { return ending_; });
      continue;
    }
    const absl::Status ended = client_->Watch(
        Key("state/"), from, options_.silence,
        [&](const etcdserverpb::WatchResponse& response) -> absl::Status {
          if (response.compact_revision() != 0) {
            missed = true;
            return absl::OutOfRangeError("compacted");
          }
          if (response.canceled()) {
            return absl::UnavailableError(response.cancel_reason());
          }
          heard_ = SteadyNow().time_since_epoch().count();
          int64_t last = 0;
          for (const auto& event : response.events()) {
            Event(event);
            last = event.kv().mod_revision();
          }
          const std::lock_guard lock(mutex_);
          revision_ = std::max(revision_, last);
          return ending_ ? absl::CancelledError("closed") : absl::OkStatus();
        });
    {
      std::unique_lock lock(mutex_);
      if (ending_) return;
    }
    if (missed) continue;
    server::Log(LogLevel::kWarning, "the watch of the store began anew",
                {{"error", ended.message()}});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kWatchPause, [this] { return ending_; });
  }
}

absl::Status EtcdStore::Resync() {
  if (resumed_) {
    const absl::Status format = CheckFormat(absl::InfiniteDuration());
    if (!format.ok()) return format;
  }
  auto loaded = LoadAll();
  if (!loaded.ok()) return loaded.status();
  const std::lock_guard lock(mutex_);
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
  for (auto& [id, log] : logs_) {
    if (loaded->logs.contains(id)) continue;
    if (log.created > loaded->revision) {
      loaded->logs.emplace(id, std::move(log));  // made since then
      continue;
    }
    if (Done done = Take(log, log.append)) undecided.push_back(std::move(done));
    if (follower_ != nullptr) follower_->Deleted(log.name, id);
  }
  for (StoredTable& table : loaded->tables) {
    auto& log = loaded->logs.at(table.id);
    const auto known = logs_.find(table.id);
    if (known != logs_.end()) {
      if (known->second.record.next() >= log.record.next()) {
        log = std::move(known->second);
        continue;
      }
      Done done = Take(known->second, known->second.append);
      if (done != nullptr) undecided.push_back(std::move(done));
      log.offered = known->second.offered;
      log.failed = known->second.failed;
    }
    if (follower_ != nullptr) follower_->Replaced(std::move(table));
  }
  logs_ = std::move(loaded->logs);
  floor_ = std::max(floor_, loaded->floor);
  floor_revision_ = std::max(floor_revision_, loaded->floor_revision);
  revision_ = std::max(revision_, loaded->revision);
  heard_ = SteadyNow().time_since_epoch().count();
  for (const Done& done : undecided) {
    done(Error(absl::StatusCode::kDeadlineExceeded, "STORE_UNDECIDED",
               "the store was read again while this was appended"));
  }
  return absl::OkStatus();
}

void EtcdStore::OfferSnapshot(const std::string& table, uint64_t id,
                              absl::FunctionRef<TableVersion()> version) {
  {
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  auto* const log = Find(table, id);
  if (log == nullptr || log->offered) return;
  // The first entry that leads to this generation: later ones of the same
  // generation only answer requests, and can be read twice.
  const auto end = std::find_if(
      log->ends.begin(), log->ends.end(),
      [&](const End& e) { return e.generation == taken.generation; });
  if (end == log->ends.end()) return;
  log->offered = true;
  offers_.push_back({log->name, log->id, log->created, *end, std::move(taken)});
  changed_.notify_all();
}

void EtcdStore::SnapshotLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !offers_.empty(); });
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
    lock.lock();
    // Not again at once.
    changed_.wait_for(lock, std::chrono::seconds(1),
                      [this] { return ending_; });
    const auto log = logs_.find(id);
    if (log != logs_.end()) log->second.offered = false;
  }
}

absl::Status EtcdStore::WriteSnapshot(Offer offer) {
  const auto lease = client_->GrantLease(kLeaseSeconds);
  if (!lease.ok()) return lease.status();
  const Periodic keep(kLeaseRefresh,
                      [&] { client_->KeepLease(*lease).IgnoreError(); });
  // One server at a time writes snapshots.
  const std::string turn = Key("compactor");
  etcdserverpb::TxnRequest take;
  CompareCreation(turn, 0, take);
  AddPut(turn, Hex(instance_), take);
  take.mutable_success(0)->mutable_request_put()->set_lease(*lease);
  const auto taken = client_->Txn(take);
  absl::Status status = taken.status();
  if (status.ok() && taken->succeeded()) {
    SnapshotRecord record;
    record.set_next(offer.end.number + 1);
    record.set_generation(offer.version.generation);
    record.set_chain(offer.end.chain);
    const std::string prefix = PartPrefix(offer.id, record.next());
    SnapshotSource source(offer.name, std::move(offer.version));
    for (; status.ok(); record.set_parts(record.parts() + 1)) {
      absl::StatusOr<std::string> part = source.Next();
      status = part.status();
      if (!status.ok() || part->empty()) break;
      record.set_checksum(ChainChecksum(*part, record.checksum()));
      record.set_bytes(record.bytes() + part->size());
      etcdserverpb::PutRequest put;
      put.set_key(absl::StrCat(prefix, Hex(record.parts())));
      put.set_value(*std::move(part));
      status = client_->Put(put);
    }
    if (status.ok()) {
      etcdserverpb::TxnRequest txn;
      // Still the same table, and still this server's turn.
      CompareCreation(TableKey(offer.name), offer.created, txn);
      CompareRevision(turn, taken->header().revision(), txn);
      AddPut(Key(absl::StrCat("state/snapshots/", Hex(offer.id))),
             record.SerializeAsString(), txn);
      AddDelete(LogPrefix(offer.id), EntryKey(offer.id, record.next()), txn);
      AddDelete(Key(absl::StrCat("data/chunks/", Hex(offer.id), "/")),
                ChunkPrefix(offer.id, record.next()), txn);
      AddDelete(Key(absl::StrCat("data/snapshots/", Hex(offer.id), "/")),
                prefix, txn);
      status = client_->Txn(txn).status();
    }
  }
  client_->RevokeLease(*lease).IgnoreError();
  return status;
}

void EtcdStore::Close(const absl::Status& why, SteadyInstant deadline) {
  std::vector<Done> refused;
  {
    std::unique_lock lock(mutex_);
    if (ending_) return;
    closed_ = why;
    for (Job& job : jobs_) refused.push_back(std::move(job.done));
    jobs_.clear();
    changed_.wait_until(lock, deadline, [this] { return busy_ == 0; });
    ending_ = true;
    changed_.notify_all();
  }
  if (follower_ != nullptr) {
    // The other servers need not wait for the end of its lease.
    std::unique_lock lock(report_mutex_);
    report_ending_ = true;
    report_changed_.notify_all();
    report_changed_.wait_until(lock, deadline,
                               [this] { return report_ended_; });
  }
  client_->Cancel();
  for (std::thread& thread : threads_) thread.join();
  for (const Done& done : refused) done(why);
}

}  // namespace planb::server
