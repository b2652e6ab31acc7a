// SPDX-License-Identifier: Apache-2.0

// The tables (VRFs) of one server, by name. The table "default" always exists.

#ifndef PLANB_SERVER_TABLE_TABLES_H_
#define PLANB_SERVER_TABLE_TABLES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "base/published.h"
#include "server/base/executor.h"
#include "server/table/store.h"
#include "server/table/table.h"
#include "server/table/update_staging.h"

namespace planb::server {

// Keeps a table's memory. The table may still be deleted: then Find() no longer
// returns it, and its updates are refused.
using TableRef = std::shared_ptr<Table>;

struct TablesOptions {
  TableOptions table;  // of each
  // Of the default table, at each start; the others keep their own.
  FibOptions default_fib;
  size_t max_tables = 256;
  size_t memory_limit = size_t{4} << 30;  // of all together
};

// What the request ids of all tables may take, besides the tables' memory: some
// 700,000. Then a new named request has to wait until others are 90 s old.
inline constexpr size_t kMostRequestIdBytes = size_t{256} << 20;

// Owns the tables and their common memory budget. Thread-safe. Find() takes no
// lock where it finds a table. Of a store that several servers write, it
// follows what the others do.
class Tables : private StoreFollower {
 public:
  static constexpr char kDefault[] = "default";

  // `store` must outlive this. Null: tables are kept in memory only.
  explicit Tables(TablesOptions options, Store* store = nullptr);
  ~Tables();

  // Loads all tables of the store. If it does not answer, begins with what
  // `copy` returns, unless null. Afterwards lookups see all that was
  // acknowledged with ACK_REPLICATED before. Errors: those of Store::Load,
  // TableLog::CreateTable and ReplicatedLog::AwaitFollowed, with the one of
  // `copy`; those of Table::AwaitFollowed; FAILED_PRECONDITION (READ_ONLY) if
  // the server that is followed has no default table. REQUIRES: there is a
  // store; no other call came before.
  using Copy = std::function<absl::StatusOr<StoredCopy>()>;
  absl::Status Restore(const Copy& copy = nullptr);

  // The table with this name; an empty name means "default". Errors: NOT_FOUND
  // (TABLE_NOT_FOUND), which says why if this server has left it out.
  absl::StatusOr<TableRef> Find(absl::string_view name) const;

  // The same, for a call that writes: of a store that other servers write too,
  // a table is not absent because this server has not followed yet. Asks the
  // store if the table is not here, and waits for it a moment. Errors besides:
  // those of ReplicatedLog::FindTable; ABORTED (STORE_CONFLICT) if it does not
  // come; DATA_LOSS (STORE_CORRUPT) and RESOURCE_EXHAUSTED (BUILD_MEMORY) if
  // this server has left it out. The latter is tried again from time to time.
  absl::StatusOr<TableRef> FindToUpdate(absl::string_view name) const;

  // Seconds since the store was last known to be reached; 0 without one.
  absl::Duration store_lag() const {
    return feed() == nullptr ? absl::ZeroDuration() : feed()->lag();
  }

  // How long ago all tables that are here had what the store had.
  absl::Duration oldest_contents() const;

  // How many tables the store has, or the server that is followed, and this
  // server lacks; 0 without a store.
  size_t missing() const;

  // ReplicatedLog::Replicas, as of this moment.
  absl::StatusOr<std::vector<StoreReplica>> Replicas() const {
    return others_write() ? replicated()->Replicas(absl::ZeroDuration())
                          : NotShared();
  }

  // Errors: INVALID_ARGUMENT (TABLE_NAME_INVALID), ALREADY_EXISTS
  // (TABLE_EXISTS), RESOURCE_EXHAUSTED (TOO_MANY_TABLES), FAILED_PRECONDITION
  // (READ_ONLY), UNAVAILABLE (DRAINING), and those of TableLog::CreateTable,
  // ReplicatedLog::FindTable and ReplicatedLog::CountTables. The limit counts
  // the tables of the store, and binds the calls at this server: what other
  // servers make is followed beyond it.
  absl::StatusOr<TableRef> Create(const std::string& name,
                                  const FibOptions& fib = {});

  // Also a table that this server has left out. Errors: FAILED_PRECONDITION
  // (TABLE_PERMANENT, READ_ONLY), NOT_FOUND (TABLE_NOT_FOUND), UNAVAILABLE
  // (DRAINING), and those of TableLog::DeleteTable and
  // ReplicatedLog::FindTable. The table remains after an error.
  absl::Status Delete(const std::string& name);

  // All tables, ordered by name.
  std::vector<TableRef> All() const;

  Table& default_table() const { return *Find("").value(); }

  // Refuses further changes, waits until all accepted batches are visible or
  // the deadline passes, then ends all waiting with UNAVAILABLE (DRAINING). The
  // store has at least half a second. If it does not answer, batches that wait
  // for it end with UNAVAILABLE (STORE_FAILED). Closes the store.
  void Drain(SteadyInstant deadline);

 private:
  using Map = absl::btree_map<std::string, TableRef>;

  Wants wants(const std::string& table, uint64_t id) override
      ABSL_LOCKS_EXCLUDED(follow_mutex_);
  void Missed(const std::string& table, uint64_t id) override;
  void Appended(const std::string& table, uint64_t id, uint64_t position,
                std::vector<AcceptedBatch> batches) override;
  void Replaced(StoredTable table) override;
  void Deleted(const std::string& table, uint64_t id) override;
  void Failed(const std::string& table, uint64_t id,
              const absl::Status& why) override;
  // Hands it to its table, or keeps it for the job if the map has none with
  // this id.
  void Follow(RemoteChange change) ABSL_LOCKS_EXCLUDED(follow_mutex_);
  // Removes what was kept, of `bytes`: HandOver() may have taken its contents.
  void Drop(std::list<RemoteChange>::iterator change, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(follow_mutex_);
  // False if there is no such table in the map.
  bool HandOver(RemoteChange& change) const;
  // The job: makes and deletes tables, and hands over what came meanwhile.
  void RunFollow();
  // Does what `change` says that no table in the map can take.
  void Follow(RemoteChange& change, Map map);
  // Removes the table from the map and refuses its updates.
  void Remove(const TableRef& table) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no other call makes or deletes a table of this name, nor the
  // job, and keeps them from it until GiveBack().
  void Take(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  // Errors: those of Restore.
  absl::StatusOr<std::vector<StoredTable>> LoadOrResume(const Copy& copy);
  // Waits until lookups see what other servers acknowledged before this one
  // counted among them. Errors: those of ReplicatedLog::AwaitFollowed and
  // Table::AwaitFollowed.
  absl::Status AwaitFollowed();
  // Errors: those of UpdateStaging::ToRib; DATA_LOSS (STORE_CORRUPT) if a FIB
  // cannot hold the routes; RESOURCE_EXHAUSTED (BUILD_MEMORY).
  absl::StatusOr<TableRef> Make(const StoredTable& stored);
  // Why this server has left the table with this id out; OK if it has not.
  absl::Status WhyLeftOut(uint64_t id) const;
  // A table in the map; null if there is none of this name and id.
  TableRef Find(const std::string& name, uint64_t id) const;
  // An empty table.
  TableRef MakeEmpty(const std::string& name, uint64_t id,
                     const FibOptions& fib, uint64_t generation);
  // Errors besides: ABORTED (STORE_CONFLICT) if another server is ahead of what
  // this one has followed.
  absl::StatusOr<TableRef> TryCreate(const std::string& name,
                                     const FibOptions& fib);
  absl::StatusOr<TableRef> TryDelete(const std::string& name);
  // True if others write the store, which is asked then.
  bool others_write() const { return replicated() != nullptr; }
  ReplicatedLog* replicated() const {
    return store_ == nullptr ? nullptr : store_->replicated();
  }
  TableFeed* feed() const {
    return store_ == nullptr ? nullptr : store_->feed();
  }
  void PublishMap(Map map) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The map with this table besides.
  void Publish(const std::string& name, const TableRef& table)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The job that frees deleted tables, as soon as they have no other reference.
  void FreeDeleted();

  Executor executor_;
  TablesOptions options_;
  Store* const store_;
  MemoryBudget budget_;
  MemoryBudget id_budget_{kMostRequestIdBytes};
  // Before `mutex_`. Held while a table is made in a store that others write,
  // from the count of its tables on.
  Mutex counting_;
  mutable Mutex mutex_;
  std::atomic<bool> draining_ = false;
  CondVar given_back_;
  std::set<std::string> taken_ ABSL_GUARDED_BY(mutex_);  // names
  // Without a store: the highest generation of all deleted tables.
  uint64_t floor_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<TableRef> deleted_ ABSL_GUARDED_BY(mutex_);
  TableRef default_;
  Published<Map> map_;
  // After `mutex_`. What came and has no table yet, in order.
  mutable Mutex follow_mutex_;
  std::list<RemoteChange> remote_changes_ ABSL_GUARDED_BY(follow_mutex_);
  // How much of it there is of each table, by id.
  struct Waiting {
    size_t changes = 0;
    size_t bytes = 0;
  };
  std::map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(follow_mutex_);
  // Tables by id that were made by other servers and could not be made here.
  struct LeftOut {
    std::string name;
    absl::Status why;
    absl::Duration pause;   // before the next attempt; infinite for damage
    SteadyInstant attempt;  // then it is wanted as a whole
  };
  std::map<uint64_t, LeftOut> left_out_ ABSL_GUARDED_BY(follow_mutex_);
  // Last: they use all of the above.
  Executor::Job free_job_;
  Executor::Job follow_job_;
  Following following_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLES_H_
