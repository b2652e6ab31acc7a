// One routing table at work: the RIB that changes, the published snapshot that
// lookups read, and the thread that compiles one into the other.
//
// An update's way: validate, apply to the RIB (both under the mutex, so a batch
// is all or nothing), number the generation, wake the rebuilder, return. While
// one build runs further batches pile up; the next build takes them all. After
// a build: publish the pointer, then call back those who wait for it.

#ifndef PLANB_SERVER_TABLE_H_
#define PLANB_SERVER_TABLE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lpm/fib.h"
#include "server/published.h"
#include "server/rib.h"
#include "server/snapshot.h"
#include "server/waiters.h"

namespace planb::server {

struct TableOptions {
  RibLimits limits;
  // Batches accepted and not yet visible, at most.
  uint64_t max_pending_updates = 10'000;
  // Lookups waiting for a generation, at most; and updates likewise.
  size_t max_waiters = 100'000;
  // How many request ids are remembered (AIP-155).
  size_t request_id_window = 1'000;
  // Told after each build, on the rebuilder's thread: seconds it took.
  std::function<void(double)> on_rebuild = [](double) {};
};

// One UpdateRoutesRequest, decoded.
struct UpdateBatch {
  std::vector<RouteChange> changes;
  std::vector<NextHop> next_hops;
  std::optional<uint64_t> expected_generation;
  bool validate_only = false;
  bool require_next_hops = false;
  std::string request_id;
  uint64_t fingerprint = 0;  // of the request, to tell a retry from a misuse
};

// What became of a batch.
struct UpdateOutcome {
  uint64_t generation = 0;
  ChangeCounts counts;
  std::string digest;
  absl::Time accepted;
};

// The state of a table at one moment.
struct TableState {
  uint64_t accepted = 0;
  uint64_t visible = 0;
  std::array<uint64_t, 129> lengths_v4 = {};
  std::array<uint64_t, 129> lengths_v6 = {};
  uint64_t routes_v4 = 0;
  uint64_t routes_v6 = 0;
  uint64_t next_hops = 0;
  uint64_t intervals_v4 = 0;
  uint64_t intervals_v6 = 0;
  std::string digest;
  uint64_t rib_bytes = 0;
  uint64_t fib_bytes = 0;
  uint64_t retired_fib_bytes = 0;
  uint64_t rebuilds = 0;
  absl::Duration last_build;
  absl::Time last_build_at = absl::InfinitePast();
  uint64_t max_routes = 0;
};

// Thread-safe. Read() takes no lock.
class Table {
 public:
  explicit Table(TableOptions options);
  ~Table();  // REQUIRES: no Reader is left, no caller is inside.

  // The visible snapshot, kept alive by the returned guard.
  Published<Snapshot>::Reader Read() const { return published_.Read(); }

  // Accepts or refuses a batch as a whole; does not wait for visibility.
  // O(batch * log routes). Errors: those of Rib::Check, ABORTED
  // (GENERATION_MISMATCH), RESOURCE_EXHAUSTED (TOO_MANY_PENDING,
  // TOO_MANY_WAITERS), INVALID_ARGUMENT (REQUEST_ID_REUSED), UNAVAILABLE
  // (DRAINING).
  absl::StatusOr<UpdateOutcome> Apply(const UpdateBatch& batch);

  // Calls `done` exactly once, as Waiters::Wait does, when the batch that Apply
  // accepted as `generation` is visible. Never refuses: that is Apply's to do.
  void WhenAcknowledged(uint64_t generation, absl::Time deadline,
                        Waiters::Callback done);

  // For lookups that ask for a generation: see Waiters::Wait.
  absl::Status WhenVisible(uint64_t generation, absl::Time deadline,
                           Waiters::Callback done) {
    return waiters_.Wait(generation, deadline, std::move(done));
  }

  // Blocks until `generation` is visible, for start-up and tests; at most
  // until the deadline.
  void AwaitVisible(uint64_t generation,
                    absl::Time deadline = absl::InfiniteFuture());

  TableState state() const;

  // Refuses further batches, lets what is accepted become visible (and be
  // acknowledged) until the deadline, then ends all waiting with UNAVAILABLE.
  void Drain(absl::Time deadline);

 private:
  struct Answered {
    uint64_t fingerprint;
    UpdateOutcome outcome;
  };

  void RebuildLoop();
  absl::StatusOr<UpdateOutcome> ApplyLocked(const UpdateBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const UpdateBatch& batch, const UpdateOutcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TableOptions options_;
  mutable Published<Snapshot> published_;
  Waiters acks_;     // of updates
  Waiters waiters_;  // of lookups

  mutable std::mutex mutex_;
  std::condition_variable work_;
  Rib rib_ ABSL_GUARDED_BY(mutex_);
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t visible_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rebuilds_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration last_build_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_build_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, Answered> answered_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> answered_order_ ABSL_GUARDED_BY(mutex_);

  std::thread rebuilder_;  // last: starts when all else is ready
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_H_
