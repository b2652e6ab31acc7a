// SPDX-License-Identifier: Apache-2.0

// Turns batches into generations: validates a batch, applies it to the head of
// the RIB and numbers it. Staged batches are accepted once they are stored, or
// all rolled back.

#ifndef PLANB_SERVER_TABLE_UPDATE_STAGING_H_
#define PLANB_SERVER_TABLE_UPDATE_STAGING_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/table/rib.h"
#include "server/table/store.h"
#include "server/table/update.h"

namespace planb::server {

// The memory limit of all tables of a server together. Counts reserved bytes
// (upper bounds), not used ones. Thread-safe, lock-free.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t limit = std::numeric_limits<size_t>::max())
      : limit_(limit) {}

  // Changes a share of `before` bytes to `after` bytes. False, without a
  // change, if that exceeds the limit. A share may always shrink.
  bool Resize(size_t before, size_t after) {
    size_t used = used_.load();
    do {
      const size_t others = used - before;
      if (after > before && (others > limit_ || after > limit_ - others)) {
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used - before + after));
    return true;
  }

  // Adds a share even if that exceeds the limit.
  void Force(size_t bytes) { used_ += bytes; }

  // Bytes that can still be reserved.
  size_t left() const {
    const size_t used = used_.load();
    return used > limit_ ? 0 : limit_ - used;
  }

  size_t limit() const { return limit_; }
  size_t used() const { return used_.load(); }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
};

// The answers to requests that have an id: the last `size` accepted ones, those
// that are young, and all that are staged and not yet decided. A request is
// young by the time that the log has, or by the time since it came here: the
// clocks of the servers that wrote the log may be wrong. A request that repeats
// an id gets its first answer (AIP-155). Thread-compatible.
class RequestWindow {
 public:
  using Clock = SteadyInstant (*)();

  // New requests have to wait while there are `most`, or while `budget` has no
  // room for them: null for none, else it must outlive this.
  RequestWindow(size_t size, size_t most, MemoryBudget* budget, Clock clock)
      : size_(size),
        most_(std::max(size, most)),
        budget_(budget),
        clock_(clock) {}
  ~RequestWindow() { Count(-static_cast<ptrdiff_t>(bytes_)); }
  RequestWindow(const RequestWindow&) = delete;
  RequestWindow& operator=(const RequestWindow&) = delete;

  // Null if the id is not known. Valid until the request is removed.
  const AnsweredRequest* Find(absl::string_view request_id) const {
    const auto it = by_id_.find(request_id);
    return it == by_id_.end() ? nullptr : &it->second->request;
  }

  // Which of these requests of a log, oldest first, to add: when they came here
  // says nothing of their age. Those that are old by the log take at most half
  // of the room that is left, the newest first.
  absl::Span<const AnsweredRequest> ToAdd(
      absl::Span<const AnsweredRequest> requests) const {
    size_t first = CountForgotten(requests, size_);
    const size_t most = (most_ - std::min(most_, requests_.size())) / 2;
    const size_t room = budget_ == nullptr ? std::numeric_limits<size_t>::max()
                                           : budget_->left() / 2;
    for (size_t bytes = 0; first > 0 && requests.size() - first < most;
         --first) {
      bytes += BytesOf(requests[first - 1].request_id);
      if (bytes > room) break;
    }
    return requests.subspan(first);
  }

  // How long a new request has to wait until there is room: no young id is
  // dropped for it. The ids that use the budget up may be another table's;
  // their age is not known here.
  absl::Duration Wait(absl::string_view request_id, absl::Time now) const {
    absl::Duration wait;
    if (requests_.size() >= most_) {
      const Known& oldest = requests_.front();
      const absl::Duration age =
          std::min(absl::AbsDuration(now - oldest.request.outcome.accepted),
                   absl::FromChrono(clock_() - oldest.received));
      wait = std::max(kRequestIdRetention - age, absl::ZeroDuration());
    }
    const bool fits =
        budget_ == nullptr || BytesOf(request_id) <= budget_->left();
    return fits ? wait : std::max(wait, absl::Seconds(1));
  }

  // Adds a staged request. If its id is known, another server did not know it
  // any more: the newest request of an id counts. Without effect if it throws.
  void Add(AnsweredRequest request) {
    requests_.push_back({std::move(request), clock_()});
    const Known* const added = &requests_.back();
    const std::string& id = added->request.request_id;
    try {
      const auto [it, inserted] = by_id_.emplace(id, added);
      if (!inserted) {
        auto node = by_id_.extract(it);
        node.key() = id;
        node.mapped() = added;
        by_id_.insert(std::move(node));
      }
    } catch (...) {
      requests_.pop_back();
      throw;
    }
    Count(static_cast<ptrdiff_t>(BytesOf(id)));
    ++staged_;
  }

  // Accepts the first `count` staged requests. Drops the oldest accepted ones
  // above `size` that are not young. Does not allocate.
  void Accept(size_t count) {
    if (count == 0) return;
    const SteadyInstant here = clock_();
    for (; count > 0; --count) {
      --staged_;
      const size_t accepted = requests_.size() - staged_;
      const absl::Time now = requests_[accepted - 1].request.outcome.accepted;
      for (size_t kept = accepted; kept > size_; --kept) {
        const Known& oldest = requests_.front();
        if (IsYoung(oldest.request.outcome.accepted, now) ||
            absl::FromChrono(here - oldest.received) < kRequestIdRetention) {
          break;
        }
        Forget(oldest.request);
        requests_.pop_front();
      }
    }
  }

  // The accepted requests, oldest first.
  std::vector<AnsweredRequest> Accepted() const {
    std::vector<AnsweredRequest> accepted;
    const size_t count = requests_.size() - staged_;
    accepted.reserve(count);
    for (size_t i = 0; i < count; ++i) accepted.push_back(requests_[i].request);
    return accepted;
  }

  // Removes all staged requests.
  void Rollback() {
    for (; staged_ > 0; --staged_) {
      Forget(requests_.back().request);
      requests_.pop_back();
    }
  }

 private:
  struct Known {
    AnsweredRequest request;
    SteadyInstant received;
  };

  // Bytes of memory that one takes: the entry, the text and a digest on the
  // heap, a node of the map.
  static size_t BytesOf(absl::string_view request_id) {
    return sizeof(Known) + 192 + request_id.size();
  }

  // What is added was waited for, or others have accepted it.
  void Count(ptrdiff_t change) {
    const size_t before = bytes_;
    bytes_ += static_cast<size_t>(change);
    if (budget_ == nullptr) return;
    if (!budget_->Resize(before, bytes_)) budget_->Force(bytes_ - before);
  }

  // Unless its id has a newer request.
  void Forget(const AnsweredRequest& request) {
    Count(-static_cast<ptrdiff_t>(BytesOf(request.request_id)));
    const auto it = by_id_.find(request.request_id);
    if (it != by_id_.end() && &it->second->request == &request) {
      by_id_.erase(it);
    }
  }

  const size_t size_;
  const size_t most_;
  MemoryBudget* const budget_;
  const Clock clock_;
  std::deque<Known> requests_;  // oldest first, the staged ones last
  size_t staged_ = 0;
  size_t bytes_ = 0;  // of the budget
  // Keys and values point into `requests_`.
  std::unordered_map<absl::string_view, const Known*,
                     absl::Hash<absl::string_view>>
      by_id_;
};

// What the FIBs of a table may come to, in bytes. Holds with any next hops, and
// for every table with some of its routes.
struct FibsBound {
  struct OfFamily {
    size_t bytes = 0;
    // The routes that the table had when it began to lose some, or had lost
    // half of them; and what those measurably took.
    size_t routes = 0;
    size_t compiled = 0;
  };
  std::array<OfFamily, 2> families;

  size_t bytes() const { return families[0].bytes + families[1].bytes; }
};

// Two versions of the RIB: the head, which has every staged batch, and the
// accepted version, which is never rolled back. Invariant: the head is the
// accepted version with the staged batches applied in order.
//
// Stage, Head and Rollback are for one thread at a time. Other threads may call
// all other functions meanwhile; these do not wait for a batch that is being
// staged.
class UpdateStaging {
 public:
  struct Options {
    RibLimits limits;
    FibOptions fib;  // what FIBs of the table are compiled for
    size_t request_id_window = 1'000;
    size_t most_request_ids = 1'000'000;
    absl::Time (*wall_clock)() = absl::Now;
    RequestWindow::Clock steady_clock = SteadyNow;
    MemoryBudget* budget = nullptr;     // of the table; null: none
    MemoryBudget* id_budget = nullptr;  // of the request ids; null: none
    // The limit of Delta::bytes() of a batch.
    size_t max_delta_bytes = std::numeric_limits<size_t>::max();
    // Batches with so many routes are prepared.
    size_t prepared_routes = 20'000;
  };

  // A staged batch.
  struct Staged {
    UpdateOutcome outcome;
    OperationCounts operations;
    // The record to store, if `stores`.
    AcceptedBatch record;
    // False if the batch leaves the table, the writer epoch and the answered
    // requests unchanged.
    bool stores = false;
    // `outcome` is the first answer to an earlier request of this id.
    bool repeated = false;
  };

  // The routes, next hops and groups of a stored table. Errors: DATA_LOSS
  // (STORE_CORRUPT) if no table has these.
  static absl::StatusOr<Rib> ToRib(const RibLimits& limits,
                                   const StoredTable& stored);

  // Starts with the contents of a store, of which `rib` is the ToRib() that
  // succeeded.
  UpdateStaging(const Options& options, const StoredTable& stored, Rib rib);
  // REQUIRES: ToRib() succeeds.
  UpdateStaging(const Options& options, const StoredTable& stored)
      : UpdateStaging(options, stored, *ToRib(options.limits, stored)) {}
  ~UpdateStaging();
  UpdateStaging(const UpdateStaging&) = delete;
  UpdateStaging& operator=(const UpdateStaging&) = delete;

  // A large batch that was applied to a copy of the head, while other batches
  // are staged.
  struct Prepared {
    Rib base;
    Rib rib;  // the result
    absl::StatusOr<Rib::Change> change;
  };

  // True if a batch is large, and can be prepared. O(batch).
  bool WorthPreparing(const UpdateBatch& batch) const;
  // Begins to prepare `batch`; nothing if the head refuses it. Afterwards
  // Prepare() needs no lock. REQUIRES: WorthPreparing(batch).
  std::optional<Prepared> Begin(const UpdateBatch& batch);
  static void Prepare(const UpdateBatch& batch, Prepared& prepared);

  // Validates a batch against the head and applies it to the head. A refused
  // batch changes nothing. A batch that changes nothing, is only validated or
  // repeats an earlier request is staged too, because its answer holds only if
  // the batches before it are accepted. Errors: those of Rib::Apply; ABORTED
  // (GENERATION_MISMATCH), FAILED_PRECONDITION (WRITER_FENCED),
  // INVALID_ARGUMENT (REQUEST_ID_REUSED), RESOURCE_EXHAUSTED (MEMORY_LIMIT,
  // BATCH_TOO_LARGE, TOO_MANY_REQUEST_IDS).
  //
  // If the batch is `prepared`, only prefixes that others changed meanwhile are
  // applied again; the result is the same.
  //
  // If it throws, nothing is staged.
  absl::StatusOr<Staged> Stage(const UpdateBatch& batch,
                               Prepared* prepared = nullptr);

  // Applies to the head what another server has accepted, beyond any limit. The
  // answer to a request that it names counts as the first one here.
  // Errors: DATA_LOSS if it does not follow the head, or leads to another
  // digest; then nothing is staged.
  absl::StatusOr<Staged> StageAccepted(AcceptedBatch accepted);

  // Makes the head the table `whole`, and adds its requests that are not known.
  // The table is as before afterwards, also if this throws. Errors: DATA_LOSS
  // if no server can have it, or if the head does not lead there; then nothing
  // is staged.
  absl::StatusOr<Staged> StageWhole(StoredTable& whole);

  // A version of the table.
  struct Version {
    Rib rib;
    uint64_t generation = 0;
    uint64_t writer_epoch = 0;
    size_t memory_bound = 0;  // bytes
    FibsBound fibs;           // the part of it that is not the RIB's
    uint64_t requests = 0;    // with an id, staged since the table was opened

    Version Share() const {
      return {rib.Share(),  generation, writer_epoch,
              memory_bound, fibs,       requests};
    }
  };
  // The version that the last staged batch led to. O(1).
  Version Head() const;

  // The accepted version. O(1).
  Version Accepted() const;
  uint64_t accepted_generation() const;

  // The accepted version, for a snapshot of the store. O(requests).
  TableVersion ToStore() const;

  // Accepts all batches that `head` has, and exchanges it for the version
  // accepted before, which may take long to destroy. Does not allocate.
  void Accept(Version& head);

  // Undoes all batches staged since the accepted version.
  void Rollback();

 private:
  absl::Status CheckConditions(const UpdateBatch& batch) const;
  // Notes what was staged while another batch is prepared.
  void Touch(const Delta& delta);
  void Forget();
  // Applies the batch to the head, of which `next` is a copy and becomes the
  // result. Since `prepared` was begun, others changed `touched`.
  absl::StatusOr<Rib::Change> Apply(const UpdateBatch& batch,
                                    Prepared* prepared,
                                    std::vector<Prefix> touched, Rib& next);
  // Makes `next`, the head with what another server has accepted, the head.
  absl::StatusOr<Staged> StageRemote(Rib next, const ChangeCounts& counts,
                                     AcceptedBatch accepted);
  // The bytes that the FIBs of `next`, which is the head with a change, may
  // come to: by the lengths of prefixes or, if that and `aside` does not fit,
  // as measured, O(routes). Reserves them, unless it is only validated. What
  // only withdraws always fits: the head's bound holds for fewer routes.
  // Errors: RESOURCE_EXHAUSTED (MEMORY_LIMIT).
  absl::StatusOr<FibsBound> Admit(const Rib& next, size_t aside,
                                  const ChangeCounts& counts,
                                  const Delta& delta, bool validate_only);
  // Reserves `bytes` of the budget for the head. False if that exceeds the
  // limit.
  bool Reserve(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves them even if that exceeds the limit.
  void Force(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  // These belong to the thread that stages.
  Version head_;
  // Whether a batch is being prepared, and which prefixes others changed
  // meanwhile. Ends if these are too many, if the head is rolled back, or when
  // the next is begun.
  bool preparing_ = false;
  std::vector<Prefix> touched_;

  mutable Mutex mutex_;
  RequestWindow window_ ABSL_GUARDED_BY(mutex_);
  Version accepted_ ABSL_GUARDED_BY(mutex_);
  size_t head_bound_ ABSL_GUARDED_BY(mutex_);
  // The share of the budget: the larger of both versions' bounds.
  size_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_UPDATE_STAGING_H_
