// SPDX-License-Identifier: Apache-2.0

// One routing table at work: the RIB that changes, the published snapshot that
// lookups read, and the threads that make one of the other.
//
// An update's way: staged in the RIB's head (validated, applied, numbered),
// stored, accepted, compiled, published, visible. A stage that takes time has a
// thread: one stores, one compiles; what comes meanwhile waits and goes
// together. So a store is synced once, and a FIB compiled once, for as many
// batches as came while it was busy, and each is answered for itself.

#ifndef PLANB_SERVER_TABLE_TABLE_H_
#define PLANB_SERVER_TABLE_TABLE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/fib/fib.h"
#include "server/table/history.h"
#include "server/table/published.h"
#include "server/table/rib.h"
#include "server/table/snapshot.h"
#include "server/table/store.h"
#include "server/table/table_state.h"
#include "server/table/update.h"
#include "server/table/update_staging.h"
#include "server/table/visibility.h"

namespace planb::server {

// Told of what happens, on the table's threads.
struct TableEvents {
  std::function<void(absl::Duration took, bool full)> built;
  std::function<void()> build_failed;
  // One accepted batch became visible, so long after it was accepted.
  std::function<void(absl::Duration since_accepted)> visible;
  std::function<void(absl::Duration took, bool ok)> stored;
  // What the changes of one batch came to, applied or refused.
  std::function<void(const OperationCounts& counts)> operated;
  // A rebuild has ended, well or not.
  std::function<void(const RebuildRecord&)> rebuilt;
};

struct TableOptions {
  RibLimits limits;
  // Batches staged and not yet visible, at most.
  uint64_t max_pending_updates = 10'000;
  // Lookups waiting for a generation, at most.
  size_t max_waiters = 100'000;
  // How many request ids are remembered (AIP-155).
  size_t request_id_window = 1'000;
  // Bytes of changes kept for watchers.
  size_t history_bytes = 16 << 20;
  MemoryBudget* budget = nullptr;  // null: none
  Store* store = nullptr;          // null: volatile
  TableEvents events = {};
  BuildFault build_fault = nullptr;
};

// Thread-safe. Read() takes no lock.
class Table {
 public:
  // A fresh table of no name, for tests.
  explicit Table(TableOptions options)
      : Table(StoredTable(), std::move(options)) {}
  // Begins with what was stored, visible at once.
  Table(const StoredTable& stored, TableOptions options);
  ~Table();  // REQUIRES: no Reader is left, no caller is inside.

  const std::string& name() const { return name_; }
  const TableOptions& options() const { return options_; }

  // The visible snapshot, kept alive by the returned guard.
  Published<Snapshot>::Reader Read() const { return published_.Read(); }

  using Outcome = absl::StatusOr<UpdateOutcome>;

  // Stages a batch; the future has its outcome when it is accepted or refused,
  // and always will. Batches are accepted in the order of these calls.
  // O(batch * log routes). Errors: those of UpdateStaging::Stage and of
  // Store::Commit; RESOURCE_EXHAUSTED (TOO_MANY_PENDING), UNAVAILABLE
  // (DRAINING), NOT_FOUND (TABLE_NOT_FOUND) when it is deleted.
  std::future<Outcome> Submit(const UpdateBatch& batch);

  // Submits and waits.
  Outcome Apply(const UpdateBatch& batch) { return Submit(batch).get(); }

  // Blocks until `generation` is visible: see Visibility::Await.
  absl::Status AwaitVisible(
      uint64_t generation,
      SteadyInstant deadline = SteadyAfter(absl::InfiniteDuration())) const {
    return visibility_.Await(generation, deadline);
  }

  // For lookups that ask for a generation: see Visibility::CallWhenVisible.
  absl::Status WhenVisible(uint64_t generation, SteadyInstant deadline,
                           Visibility::Callback done) {
    return visibility_.CallWhenVisible(generation, deadline, std::move(done));
  }

  // When `generation` was published: see Visibility::Since.
  absl::Time PublishedAt(uint64_t generation) const {
    return visibility_.Since(generation);
  }

  const History& history() const { return history_; }
  bool durable() const { return options_.store != nullptr; }
  uint64_t visible() const { return Read()->generation(); }
  // The newest generation that survives a crash; 0 if none does.
  uint64_t persisted() const;

  TableState state() const;

  // Refuses further batches with `why`, and waits until those submitted are
  // accepted or refused. Thaw takes that back.
  void Freeze(absl::Status why);
  void Thaw();
  // Why updates are refused; OK if they are not.
  absl::Status refusal() const;

  // REQUIRES: frozen. Lets what is accepted become visible until the deadline,
  // then ends all waiting with `why`.
  void Close(const absl::Status& why, SteadyInstant deadline);

 private:
  struct Submitted {
    UpdateStaging::Staged staged;
    absl::Status refusal;        // not OK: nothing is staged
    OperationCounts operations;  // unless the store refuses it
    std::promise<Outcome> promise;
  };
  struct Accepted {
    std::shared_ptr<const Delta> delta;
    SteadyInstant at;
  };

  // Counts and answers what is refused at once.
  std::future<Outcome> Refuse(const UpdateBatch& batch, absl::Status why) const;
  void Operated(const OperationCounts& counts) const;

  void StoreLoop();
  void BuildLoop();
  // Gives `batches` their outcome; `head` is the version that has them.
  void Decide(std::vector<Submitted>& batches, UpdateStaging::Version head,
              const absl::Status& stored) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Store(const std::vector<Submitted>& batches);
  // Compiles and publishes; false if that failed.
  bool Build(uint64_t generation, const Rib& rib,
             const std::vector<Accepted>& batches);
  void Publish(std::unique_ptr<const Snapshot> snapshot,
               const std::vector<Accepted>& batches);
  // Frees what slow readers held at the last publication; returns the bytes
  // of what they still hold.
  size_t Reclaim() const;
  void Tidy();

  const std::string name_;
  const TableOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable to_store_;
  std::condition_variable to_build_;
  std::condition_variable stored_;  // or refused by the store
  UpdateStaging staging_ ABSL_GUARDED_BY(mutex_);
  SnapshotBuilder builder_;  // the build thread's, like the next
  size_t routes_built_ = 0;  // since the heap was trimmed
  mutable Published<Snapshot> published_;
  History history_;
  Visibility visibility_;
  std::vector<Submitted> submitted_ ABSL_GUARDED_BY(mutex_);
  bool storing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Accepted> accepted_ ABSL_GUARDED_BY(mutex_);  // not yet visible
  BuildState builds_ ABSL_GUARDED_BY(mutex_);
  absl::Status frozen_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread storer_;  // last: they start when all else is ready
  std::thread rebuilder_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLE_H_
