// SPDX-License-Identifier: Apache-2.0

// One routing table: the RIB that updates change, the published snapshot that
// lookups read, and the job that compiles the one into the other.
//
// An update is staged in the head of the RIB (validated, applied, numbered),
// stored, accepted, compiled into a snapshot, and published; then it is
// visible. The caller's thread stages, while it holds the sequence of the
// table; a thread of the store stores; a job of an executor compiles.
// Batches that are staged while the store is busy form one group, which is
// stored together; batches that are accepted during a rebuild are compiled
// together. Each batch gets its own answer.

#ifndef PLANB_SERVER_TABLE_TABLE_H_
#define PLANB_SERVER_TABLE_TABLE_H_

#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "base/published.h"
#include "lpm/fib/fib.h"
#include "planb/v1/types.pb.h"
#include "server/base/executor.h"
#include "server/table/history.h"
#include "server/table/rebuild_log.h"
#include "server/table/rib.h"
#include "server/table/snapshot.h"
#include "server/table/store.h"
#include "server/table/update.h"
#include "server/table/update_staging.h"
#include "server/table/visibility.h"

namespace planb::server {

// Callbacks for metrics. They run on the thread that causes the event: one of
// the store, one of the executor, or the one that submits.
struct TableEvents {
  std::function<void(absl::Duration took, bool full)> built;
  std::function<void()> build_failed;
  // One accepted batch became visible.
  std::function<void(absl::Duration since_accepted)> visible;
  // One append to the store ended.
  std::function<void(absl::Duration took, bool ok)> stored;
  // One batch was accepted or refused.
  std::function<void(const OperationCounts& counts)> operated;
  // A rebuild ended, also if it failed.
  std::function<void(const RebuildRecord&)> rebuilt;
};

// What another server did with a table: appended to it, unless another field
// says more. See StoreFollower.
struct RemoteChange {
  std::string table;
  uint64_t id = 0;
  uint64_t position = 0;  // after `batches`
  std::vector<AcceptedBatch> batches;
  std::unique_ptr<StoredTable> whole;
  absl::Status failed;
  bool deleted = false;
  bool missed = false;  // StoreFollower::Missed()

  // That `batches` hold, approximately.
  size_t bytes() const;
};

// How much of what other servers did may wait for a table, besides the change
// that is the next one to be applied.
inline constexpr size_t kMostRemoteBytes = size_t{16} << 20;

struct TableOptions {
  RibLimits limits;
  // The limit of batches that are staged and not yet visible.
  uint64_t max_pending_updates = 10'000;
  // The limit of lookups that wait for a generation.
  size_t max_waiters = 100'000;
  // The number of request ids kept (AIP-155), of any age. A server
  // raises it to what its clients may have on the way.
  size_t request_id_window = 1'000;
  // Younger ids are kept too (RequestWindow), up to so many.
  size_t most_request_ids = 1'000'000;
  // Bytes of changes kept for watchers.
  size_t history_bytes = 16 << 20;
  MemoryBudget* budget = nullptr;     // null: none
  MemoryBudget* id_budget = nullptr;  // of request ids; null: none
  Executor* executor = nullptr;       // null: an own one
  Store* store = nullptr;             // null: volatile
  TableEvents events = {};
  BuildFault build_fault = nullptr;
  // The wall clock, which may jump, and the monotonic one. Tests set others.
  absl::Time (*wall_clock)() = absl::Now;
  SteadyInstant (*steady_clock)() = SteadyNow;
};

// Thread-safe. Read() takes no lock. Only Submit() and Freeze() wait for a
// batch that is being staged. Has threads of its own only without an executor.
class Table {
 public:
  // An empty table without a name, for tests.
  explicit Table(const TableOptions& options) : Table(StoredTable(), options) {}
  // Starts with a stored table. Its routes are visible at once.
  // REQUIRES: UpdateStaging::ToRib() and Compile() succeed.
  Table(const StoredTable& stored, const TableOptions& options)
      : Table(stored, options, *UpdateStaging::ToRib(options.limits, stored)) {}
  // The first snapshot of a table, and what has built it.
  struct First {
    SnapshotBuilder builder;
    std::unique_ptr<const Snapshot> snapshot;
  };
  // `rib` is the result of UpdateStaging::ToRib(). Errors: those of
  // SnapshotBuilder::Build.
  static absl::StatusOr<First> Compile(const StoredTable& stored,
                                       const TableOptions& options,
                                       const Rib& rib);
  // The same table, with the results of both.
  Table(const StoredTable& stored, TableOptions options, Rib rib, First first);
  // Waits for the store. REQUIRES: no Reader exists, no call is in progress.
  ~Table();

  const std::string& name() const { return name_; }
  // StoredTable::id.
  uint64_t store_id() const { return store_id_; }
  const TableOptions& options() const { return options_; }
  // What FIBs of the table are compiled for; never changes.
  const FibOptions& fib_options() const { return fib_options_; }

  // The visible snapshot. The returned guard keeps it alive.
  Published<Snapshot>::Reader Read() const { return published_.Read(); }

  using Outcome = absl::StatusOr<UpdateOutcome>;

  // Stages a batch. The future gets the outcome when the batch is accepted or
  // refused, which always happens. Batches are accepted in the order in which
  // these calls get their turn. A large batch does most of its work before, so
  // that small ones hardly wait for it. A batch that the store refuses takes no
  // other down: the ones behind it are staged again without it.
  // O(batch * log routes). Errors: those of UpdateStaging::Stage and of
  // TableLog::StartAppend; RESOURCE_EXHAUSTED (TOO_MANY_PENDING);
  // FAILED_PRECONDITION (READ_ONLY) if the store has no log; the status given
  // to Freeze(), such as UNAVAILABLE (DRAINING) or NOT_FOUND (TABLE_NOT_FOUND).
  //
  // If it throws, it has done nothing.
  std::future<Outcome> Submit(UpdateBatch batch);

  // Submits a batch and waits for its outcome.
  Outcome Apply(UpdateBatch batch) { return Submit(std::move(batch)).get(); }

  // What other servers did with the table in the store that they share, in
  // order. Does not wait: a job applies it. A batch that does not follow what
  // is here ends that: updates are refused with DATA_LOSS (STORE_CORRUPT), and
  // lookups go on with what is visible. For want of memory it is applied later:
  // until then updates are refused with RESOURCE_EXHAUSTED (MEMORY_LIMIT).
  // Ends at what failed. The table as a whole takes the place of what waits.
  // REQUIRES: it is not deleted.
  void Follow(RemoteChange change);
  // Whether the next change may come: nothing while kMostRemoteBytes wait.
  StoreFollower::Wants wants() const;
  // Stops at what the store has of the table by now, for this reason.
  void StopFollowing(const absl::Status& why);
  // Blocks until what other servers did by now is visible, or cannot be
  // applied. Errors: DEADLINE_EXCEEDED.
  absl::Status AwaitFollowed(SteadyInstant deadline) const;

  // Blocks until `generation` is visible. See Visibility::Await.
  absl::Status AwaitVisible(
      uint64_t generation,
      SteadyInstant deadline = SteadyAfter(absl::InfiniteDuration())) const {
    return visibility_.Await(generation, deadline);
  }

  // For lookups with a min_generation. See Visibility::CallWhenVisible.
  absl::Status WhenVisible(uint64_t generation, SteadyInstant deadline,
                           Visibility::Callback done) {
    return visibility_.CallWhenVisible(generation, deadline, std::move(done));
  }

  // When `generation` was published. See Visibility::Since.
  absl::Time PublishedAt(uint64_t generation) const {
    return visibility_.Since(generation);
  }

  const History& history() const { return history_; }
  History& history() { return history_; }
  bool has_store() const { return options_.store != nullptr; }
  // True if other servers write the store too. Then a batch that needs no
  // record is answered from a position that the store has confirmed: an answer
  // depends on the table, and another server may be ahead.
  bool others_write() const { return replicated() != nullptr; }
  // True if an accepted batch survives a power loss.
  bool durable() const { return sync() == StoreSync::kFull; }
  uint64_t visible() const { return Read()->generation(); }
  // The newest generation that is synced to the disk; 0 unless durable().
  uint64_t persisted() const;

  // All but the kernels. In table_metrics.cc, beside the gauges of its fields.
  v1::Table state() const;
  // Why the table does not follow other servers; empty if it does.
  std::string replication_error() const;
  // For how long it does not; 0 if it does.
  absl::Duration out_of_step() const;
  // The time since the oldest FIB that is still read was replaced; 0 if only
  // the visible one is read.
  absl::Duration oldest_fib_age() const {
    return absl::FromChrono(
        published_.OldestRetired().value_or(SteadyInstant::duration(0)));
  }

  // Refuses further batches with `why`, and waits until the submitted ones are
  // accepted or refused, or the deadline passes. Thaw() allows batches again.
  void Freeze(absl::Status why,
              SteadyInstant deadline = SteadyAfter(absl::InfiniteDuration()));
  void Thaw();
  // The status that updates are refused with; OK if they are not refused.
  absl::Status refusal() const;

  // Waits until all accepted batches are visible or the deadline passes, then
  // ends all waiting with `why`. REQUIRES: the table is frozen.
  void Close(const absl::Status& why, SteadyInstant deadline);

 private:
  Table(const StoredTable& stored, const TableOptions& options, Rib rib)
      : Table(stored, options, rib.Share(), *Compile(stored, options, rib)) {}

  struct Submitted {
    UpdateBatch batch;  // to stage it again
    UpdateStaging::Staged staged;
    absl::Status refusal;  // if not OK, nothing is staged
    std::promise<Outcome> promise;
    int conflicts = 0;  // how often another server was ahead
    // The store has said that the table was there at a moment of the call.
    uint64_t confirmed = TableLog::kAnyPosition;
  };
  // Batches that are appended together.
  struct Group {
    std::list<Submitted> batches;
    // The version that they lead to; once they are accepted, the one before.
    std::optional<UpdateStaging::Version> head;
    bool closed = false;  // with the store or a part: no batch is added
    int no_room = 0;      // appends of its batches that found no room
  };
  struct Accepted {
    std::shared_ptr<const Delta> delta;
    SteadyInstant at;
    absl::Time wall;  // the same moment
  };
  // What may take the next step of the commit queue.
  enum class Phase {
    kIdle,     // a batch that is submitted, or what another server did
    kDue,      // the job, at `step_at_`
    kRunning,  // the thread that took it or, after StartAppend, its callback
    kBehind,   // the job, at `step_at_`; nothing waits for it
  };

  void Operated(const OperationCounts& counts) const;

  // Why a batch cannot be submitted now.
  absl::Status CheckSubmission() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::future<Outcome> Submit(UpdateBatch batch,
                              UpdateStaging::Prepared* prepared);
  // Stages a batch and sets the results in it.
  void Stage(Submitted& submitted, UpdateStaging::Prepared* prepared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sequence_);
  // These end a batch: with what it was staged to, or with `why`.
  void Answer(Submitted& batch, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(Submitted& batch, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Accepts the batches that were staged first, and answers them.
  void Accept(Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The commit queue. One group at a time is appended, by one loop of three
  // steps: RunCommits, the job, applies what other servers did, and what became
  // of the last group, to what is staged; AppendNext hands the next group to
  // the store; Appended, the callback, accepts it, or leaves it in front with
  // the error, and makes the next step due. No thread waits for the store or
  // for other servers.
  void RunCommits() ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: Phase::kRunning.
  void AppendNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // `records`: some were appended, not only the position confirmed.
  // REQUIRES: Phase::kRunning, and the first group is with the store.
  void Appended(const absl::Status& status, bool records, SteadyInstant began)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The job takes the next step then.
  void Await(Phase phase, SteadyInstant at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rolls back all that is staged, applies what other servers did, and stages
  // what is queued again. `error`: that of the first group, if it is not OK.
  // Answers what holds then: beside steady writers the next read of the store
  // would find others ahead again. REQUIRES: Phase::kRunning.
  void Recover(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps the first group for another append, in halves if there was no room
  // for the whole, or refuses it. REQUIRES: all is rolled back.
  void KeepOrRefuse(const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefuseFirst(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stages and accepts it. Errors: DATA_LOSS; RESOURCE_EXHAUSTED
  // (MEMORY_LIMIT), and then it can be applied later.
  absl::Status Apply(RemoteChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sequence_);
  // Applies what other servers did, as far as that goes, and sets
  // `replication_error_` or `behind_`. Returns that.
  absl::Status ApplyRemoteChanges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sequence_);
  // True if a batch that was staged at `position_` changes nothing there, and
  // the table was there at a moment of the call: its answer holds.
  bool Holds(const Submitted& batch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !batch.staged.stores && batch.confirmed <= position_;
  }
  TableLog* log() const {
    return has_store() ? options_.store->log() : nullptr;
  }
  ReplicatedLog* replicated() const {
    return has_store() ? options_.store->replicated() : nullptr;
  }
  StoreSync sync() const {
    return log() == nullptr ? StoreSync::kOff : log()->sync();
  }

  // The rebuild job: compiles and publishes what is accepted. If there is
  // nothing to compile, tidies.
  void RunBuild();
  // Compiles and publishes a snapshot. False if the build failed.
  bool Build(uint64_t generation, const Rib& rib,
             const std::vector<Accepted>& batches);
  void Publish(std::unique_ptr<const Snapshot> snapshot,
               const std::vector<Accepted>& batches);
  // Frees retired snapshots that no reader holds. Returns the FIB bytes of
  // those that remain.
  size_t Reclaim() const;
  // Frees what the last builds left. Repeated while a reader holds a retired
  // snapshot.
  void Tidy();

  const std::string name_;
  const uint64_t store_id_;
  const FibOptions fib_options_;
  const TableOptions options_;
  const std::unique_ptr<Executor> own_executor_;
  Executor& executor_;

  // Held from when a large batch begins to be prepared until it is staged.
  Mutex preparing_;
  // Held while a batch is staged. After `preparing_`, before `mutex_`.
  Mutex sequence_;
  UpdateStaging staging_;  // the head belongs to the holder of `sequence_`
  // These four belong to the rebuild job.
  SnapshotBuilder builder_;
  std::vector<Accepted> building_;  // includes those of failed builds
  absl::Duration retry_;            // after the next failure
  size_t routes_built_ = 0;         // since the heap was trimmed
  mutable Published<Snapshot> published_;
  History history_;
  Visibility visibility_;

  // Held for moments.
  mutable Mutex mutex_;
  CondVar decided_;  // nothing waits for the store; or staged while frozen
  bool staging_now_ ABSL_GUARDED_BY(mutex_) = false;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kIdle;
  SteadyInstant step_at_ ABSL_GUARDED_BY(mutex_);
  // What is staged, in this order. While a group is appended or has failed, it
  // is the first. Empty in Phase::kIdle and kBehind. Grows under `sequence_`.
  std::list<Group> queue_ ABSL_GUARDED_BY(mutex_);
  std::list<Group> ended_ ABSL_GUARDED_BY(mutex_);  // the next step frees them
  absl::Status append_error_ ABSL_GUARDED_BY(mutex_);   // of the first group
  uint64_t position_ ABSL_GUARDED_BY(mutex_);           // TableLog::StartAppend
  absl::Duration apply_retry_ ABSL_GUARDED_BY(mutex_);  // after want of memory
  // Batches that are not decided, and accepted ones that are not visible.
  // Invariant: `accepted_` has room for those that are not decided.
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Accepted> accepted_ ABSL_GUARDED_BY(mutex_);  // not yet visible
  // The rebuild job pauses until then.
  SteadyInstant next_build_ ABSL_GUARDED_BY(mutex_);
  v1::Table builds_ ABSL_GUARDED_BY(mutex_);  // the fields of rebuilds
  absl::Status frozen_ ABSL_GUARDED_BY(mutex_);
  std::list<RemoteChange> remote_changes_ ABSL_GUARDED_BY(mutex_);
  size_t remote_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // behind the first of it
  uint64_t remote_generation_ ABSL_GUARDED_BY(mutex_) = 0;  // after all of it
  // More was there, and was kept from it.
  bool misses_ ABSL_GUARDED_BY(mutex_) = false;
  bool InStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return replication_error_.ok() && behind_.ok() && !misses_;
  }
  // Why what other servers do is applied no more.
  absl::Status replication_error_ ABSL_GUARDED_BY(mutex_);
  // Why it is applied later; meanwhile nothing is submitted or stored.
  absl::Status behind_ ABSL_GUARDED_BY(mutex_);
  SteadyInstant in_step_ ABSL_GUARDED_BY(mutex_);  // last, if not InStep()
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Last: they use all of the above.
  Executor::Job build_job_;
  Executor::Job commit_job_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLE_H_
