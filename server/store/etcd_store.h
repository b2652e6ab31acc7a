// SPDX-License-Identifier: Apache-2.0

// The store that many servers share: an etcd cluster. All of them write it, and
// all follow it, so they have the same tables with the same generations. etcd
// decides the order of batches; STORE.md describes the keys.

#ifndef PLANB_SERVER_STORE_ETCD_STORE_H_
#define PLANB_SERVER_STORE_ETCD_STORE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "etcd_records.pb.h"
#include "server/store/etcd_client.h"
#include "server/store/store_entry.h"
#include "server/table/store.h"

namespace planb::server {

struct EtcdStoreOptions {
  EtcdOptions etcd;
  // As in SqliteStoreOptions.
  uint64_t log_bytes = 16 << 20;
  // An entry with more bytes is cut into values of so many. etcd refuses
  // requests of more than 1.5 MB by default.
  size_t chunk_bytes = 512 << 10;
  // The watch is begun anew if nothing is heard for so long. Appends are
  // refused at once while the watch is silent for twice as long.
  absl::Duration silence = absl::Seconds(3);
  // How long Load() waits for the first answer.
  absl::Duration patience = absl::Seconds(10);
  // What other servers call this one.
  std::string replica_name;
  std::string version;
};

// Owns its threads: some that append, one that watches, one that reads tables
// again, one that writes snapshots, one that reports. Thread-safe.
//
// An append is one transaction: it compares the revision of the table's record
// and puts record and entry. A server that loses the race is told what it
// missed, and stages its batches again. If the answer to an append was lost, it
// is found by its number when it is repeated, or by the watch.
class EtcdStore final : public Store, public ReplicatedLog, public TableFeed {
 public:
  // Does not connect. Errors: INVALID_ARGUMENT for files that cannot be read.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> Open(
      EtcdStoreOptions options);
  ~EtcdStore() override;

  absl::string_view kind() const override { return "etcd"; }
  const std::string& path() const override { return path_; }
  TableLog* log() override { return this; }
  ReplicatedLog* replicated() override { return this; }
  TableFeed* feed() override { return this; }
  StoreSync sync() const override { return StoreSync::kFull; }

  // Errors besides: FAILED_PRECONDITION (STORE_TOO_NEW, STORE_TOO_OLD) if a
  // server of another format wrote there; UNAVAILABLE (STORE_FAILED) if etcd
  // does not answer; PERMISSION_DENIED (STORE_FAILED) if it refuses the user.
  absl::StatusOr<std::vector<StoredTable>> Load() override;
  absl::Status Resume(absl::Span<StoredTable> tables,
                      absl::Duration age) override;
  Following Follow(StoreFollower& follower) override;
  absl::Status AwaitFollowed() override;
  absl::Duration lag() const override;
  size_t missing() const override;
  TlsReloader* tls() override { return client_->tls(); }
  void Report(const std::string& table, uint64_t id,
              uint64_t generation) override;
  absl::StatusOr<std::vector<StoreReplica>> Replicas(
      absl::Duration max_age) override;
  using TableLog::Append;
  using TableLog::CreateTable;
  using TableLog::DeleteTable;
  using TableLog::OfferSnapshot;
  // Errors besides: ABORTED (STORE_CONFLICT) if another server deletes a table
  // at the same time.
  absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                       uint64_t generation,
                                       const FibOptions& fib) override;
  absl::Status DeleteTable(const std::string& name, uint64_t id,
                           uint64_t generation) override;
  uint64_t generation_floor() const override;
  // Errors besides: DEADLINE_EXCEEDED (STORE_UNDECIDED): etcd did not answer,
  // and may still append; then the follower gets the batches.
  void StartAppend(const std::string& table, uint64_t id, uint64_t position,
                   absl::Span<const AcceptedBatch> batches, Done done) override;
  void OfferSnapshot(const std::string& table, uint64_t id,
                     absl::FunctionRef<TableVersion()> version) override;
  void StopTable(const std::string& table, uint64_t id,
                 const absl::Status& why) override;
  absl::StatusOr<uint64_t> FindTable(const std::string& name) override;
  absl::StatusOr<size_t> CountTables() override;
  void Close(const absl::Status& why, SteadyInstant deadline) override;

 private:
  // An entry that is not in a snapshot.
  struct End {
    uint64_t number;
    uint64_t generation;
    uint64_t chain;
    uint64_t bytes;
    std::string digest;  // of the table after it
  };
  // A table as far as this server has followed it.
  struct Log {
    std::string name;
    uint64_t id = 0;
    int64_t created = 0;   // revision in which its record was made
    int64_t revision = 0;  // of its record
    etcd::TableRecord record;
    std::deque<End> ends;
    uint64_t log_bytes = 0;
    uint64_t snapshot_bytes = 0;
    absl::Status failed;  // why it is followed no further; else OK
    // The number after the last entry that was skipped, because the follower
    // had no room for it or for one before it.
    uint64_t skipped_to = 0;
    bool skips() const { return skipped_to > record.next(); }
    bool offered = false;  // a snapshot is being written
    // The append of this server that is in progress, and the generation after.
    uint64_t append = 0;
    uint64_t append_generation = 0;
    std::string append_digest;
    Done done;
  };
  using Logs = std::map<uint64_t, Log>;  // by id
  // An append that waits for a thread.
  struct Job {
    std::string table;
    uint64_t id;
    uint64_t position;
    bool confirms;  // the position alone
    Entry entry;
    Done done;
  };
  struct Offer {
    std::string name;
    uint64_t id;
    int64_t created;
    End end;
    TableVersion version;
  };
  // What stands below state/tables/ and is no table that a server can have.
  struct Unreadable {
    absl::Status why;
    int64_t created = 0;  // revision in which it was made
  };
  struct Loaded {
    std::vector<StoredTable> tables;
    // Of each table. Those that are damaged have `failed`.
    Logs logs;
    // By name: a damaged record, or no table's.
    std::map<std::string, Unreadable> unreadable;
    uint64_t floor = 0;
    int64_t floor_revision = 0;
    int64_t revision = 0;
  };

  EtcdStore(EtcdStoreOptions options, std::unique_ptr<EtcdClient> client);

  std::string Key(absl::string_view rest) const;
  std::string TableKey(absl::string_view name) const;
  std::string LogPrefix(uint64_t id) const;
  std::string EntryKey(uint64_t id, uint64_t number) const;
  std::string ChunkPrefix(uint64_t id, uint64_t number) const;
  std::string PartPrefix(uint64_t id, uint64_t next) const;

  // Writes the format where there is none yet.
  absl::Status CheckFormat(absl::Duration patience);
  // Everything as of one revision, without the contents of damaged tables.
  absl::StatusOr<Loaded> LoadAll();
  absl::StatusOr<StoredTable> LoadTable(Log& log, int64_t revision);
  // The contents of an entry, with its chunks.
  absl::StatusOr<std::string> Contents(uint64_t id, uint64_t number,
                                       const etcd::LogRecord& record,
                                       int64_t revision);

  // The loops of the threads.
  void AppendLoop();
  void WatchLoop();
  void ReadLoop();
  void SnapshotLoop();
  void ReportLoop();
  // Ends early where the store ends.
  void Pause(absl::Duration pause);
  // What was reported may be wrong: a table has stopped.
  void ReportAgain();

  // Why a job cannot be done now. `log`: its table, or null.
  absl::Status Refusal(const Job& job, const Log* log) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why nothing can be asked of etcd: UNAVAILABLE (STORE_FAILED) if it has been
  // silent for long, or was not read since Resume(); or the status of Close().
  absl::Status Silence() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(Job job);
  // Asks etcd whether the table is where the job says. Errors besides those of
  // StartAppend: UNAVAILABLE (STORE_FAILED) if etcd has lost what was there.
  absl::Status Confirm(const Job& job);
  // Puts the contents of an entry in chunks, which are counted in `entry`.
  // Errors besides those of etcd: ABORTED (STORE_CONFLICT) as soon as another
  // server is ahead; DeletedRemotely().
  absl::Status PutChunks(const std::string& table, uint64_t id, int64_t created,
                         uint64_t number, const std::string& prefix,
                         const std::string& contents, etcd::LogRecord& entry);
  // Delivers the entries that this server has not seen, or has skipped, until
  // the follower has no room or a snapshot has replaced the next one.
  absl::Status CatchUp(uint64_t id);
  // Delivers one entry: ends the append in progress if it is that one, else
  // hands it to the follower, or skips it and the later ones if that has no
  // room. Errors: OUT_OF_RANGE if one before it is missing that was not
  // skipped.
  absl::Status Deliver(uint64_t id, uint64_t number, int64_t revision,
                       const std::string& value);
  // Stops the table, at what stands there.
  void Fail(Log& log, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(Log& log, absl::string_view key, absl::string_view what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: those of reading an entry's chunks. Then nothing is followed past
  // the event, which is delivered again.
  absl::Status Event(const etcdserverpb::Event& event);
  void Created(const std::string& name, const etcdserverpb::KeyValue& kv);
  // Counts what Created() is told of as missing, and logs it.
  void LeaveOut(const std::string& name, const etcdserverpb::KeyValue& kv,
                absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the follower can take now of what it has not: kNext if entries were
  // skipped and it has room.
  StoreFollower::Wants Wanted(const Log& log) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings it that: the entries that were skipped, or the table as a whole if
  // a snapshot has replaced them. Other tables are followed meanwhile.
  void ReadWanted(uint64_t id);
  // Reads a table as a whole.
  absl::Status ReadAgain(uint64_t id);
  // After events were missed, or if etcd may have another history: it was put
  // back from a backup. Then a table stops that etcd's does not lead on from.
  absl::Status Resync();
  // OK if this server's table led to the one that was read. `before`: the next
  // entry of this server's when reading began. `other`: etcd may have another
  // history, so what cannot be shown is not true.
  static absl::Status CheckLeadsOn(const Log& known, uint64_t before,
                                   const Log& read, const StoredTable& table,
                                   bool other);
  // Sets `diverged_` if the records of etcd show that it lacks what was
  // followed.
  void CheckHistory();
  absl::Status WriteSnapshot(Offer offer);
  // Puts the record of this server. Returns how many servers there are.
  absl::StatusOr<int64_t> SendReport(int64_t lease);
  // Ends the append in progress, if it is this one.
  static Done Take(Log& log, uint64_t append);
  // kAnyTable: by the name.
  Log* Find(absl::string_view name, uint64_t id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EtcdStoreOptions options_;
  const std::unique_ptr<EtcdClient> client_;
  const std::string path_;
  const uint64_t instance_;  // random: this server
  bool resumed_ = false;     // before Follow()
  std::atomic<SteadyInstant::rep> last_contact_ = 0;
  // Of EtcdClient::histories(), as far as the tables were compared with; and
  // whether a call has found that etcd lacks what was followed.
  std::atomic<uint64_t> history_ = 0;
  std::atomic<bool> diverged_ = false;

  // Held while the follower and Done are called, which do not call the store.
  mutable Mutex mutex_;
  CondVar changed_;
  StoreFollower* follower_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Logs logs_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> creating_ ABSL_GUARDED_BY(mutex_);
  // By name: what this server has no table for.
  std::map<std::string, Unreadable> missing_ ABSL_GUARDED_BY(mutex_);
  uint64_t floor_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t floor_revision_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;  // up to which it is followed
  uint64_t resyncs_ ABSL_GUARDED_BY(mutex_) = 0;  // so often all was read again
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Offer> offers_ ABSL_GUARDED_BY(mutex_);
  uint64_t appends_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // What this server reports. After `mutex_`.
  Mutex report_mutex_;
  CondVar report_changed_;  // or ending, or ended
  struct Reported {
    std::string name;
    uint64_t generation = 0;
  };
  std::map<uint64_t, Reported> visible_ ABSL_GUARDED_BY(report_mutex_);
  bool report_due_ ABSL_GUARDED_BY(report_mutex_) = false;
  bool reporting_ ABSL_GUARDED_BY(report_mutex_) = false;  // since Follow()
  bool reported_ ABSL_GUARDED_BY(report_mutex_) = false;   // since then
  bool report_ending_ ABSL_GUARDED_BY(report_mutex_) = false;
  bool report_ended_ ABSL_GUARDED_BY(report_mutex_) = false;
  // Held while the reports are read, which many calls may want at once.
  Mutex replicas_mutex_;
  std::vector<StoreReplica> replicas_ ABSL_GUARDED_BY(replicas_mutex_);
  SteadyInstant replicas_read_ ABSL_GUARDED_BY(replicas_mutex_);
  // Of the last read, if that failed.
  absl::Status replicas_error_ ABSL_GUARDED_BY(replicas_mutex_);
  SteadyInstant replicas_failed_ ABSL_GUARDED_BY(replicas_mutex_);
  std::vector<std::thread> threads_;
};

// What --store=etcd://HOST:PORT,HOST:PORT/PREFIX names. Errors:
// INVALID_ARGUMENT.
absl::StatusOr<EtcdOptions> ParseEtcdUrl(absl::string_view url);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_ETCD_STORE_H_
