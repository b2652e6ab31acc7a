// SPDX-License-Identifier: Apache-2.0

// Where batches become generations: validated, applied to the head of the RIB,
// numbered; then accepted once they are safe, or all taken back.

#ifndef PLANB_SERVER_TABLE_UPDATE_STAGING_H_
#define PLANB_SERVER_TABLE_UPDATE_STAGING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/table/rib.h"
#include "server/table/store.h"
#include "server/table/update.h"

namespace planb::server {

// Counts what is promised, not what is used. Thread-safe, lock-free.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t limit = std::numeric_limits<size_t>::max())
      : limit_(limit) {}

  // Exchanges a share of `before` bytes for one of `after`. False, and nothing
  // is exchanged, if the limit does not allow it; a share that shrinks is
  // always allowed.
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

  // Takes a share whatever the limit is.
  void Force(size_t bytes) { used_ += bytes; }

  // What can still be taken.
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

// The last `size` of them. Thread-compatible.
class RequestWindow {
 public:
  explicit RequestWindow(size_t size) : size_(size) {}

  // Null if it is not known. Valid until the next change.
  const AnsweredRequest* Find(absl::string_view request_id) const {
    const auto it = answers_.find(request_id);
    return it == answers_.end() ? nullptr : &it->second;
  }

  // REQUIRES: it is not known.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from.
  void Add(AnsweredRequest request) {
    if (size_ == 0) return;
    order_.push_back(request.request_id);
    answers_.emplace(order_.back(), std::move(request));
    if (order_.size() > size_) {
      answers_.erase(order_.front());
      order_.pop_front();
    }
  }

  // Corrects when the request was accepted, if it is known.
  void SetAccepted(absl::string_view request_id, absl::Time at) {
    const auto it = answers_.find(request_id);
    if (it != answers_.end()) it->second.outcome.accepted = at;
  }

  // Takes back what was added last, if it is this.
  void Undo(absl::string_view request_id) {
    if (order_.empty() || order_.back() != request_id) return;
    answers_.erase(order_.back());
    order_.pop_back();
  }

 private:
  const size_t size_;
  absl::flat_hash_map<std::string, AnsweredRequest> answers_;
  std::deque<std::string> order_;
};

// Thread-compatible. Two versions of the RIB: the head, with every batch
// staged, and the accepted one, which is never taken back. Invariant: the head
// is the accepted version with the staged batches applied in order.
class UpdateStaging {
 public:
  struct Options {
    RibLimits limits;
    size_t request_id_window = 1'000;
    MemoryBudget* budget = nullptr;  // null: none
  };

  // A batch that waits to be accepted.
  struct Staged {
    UpdateOutcome outcome;
    // What must be stored for it; nothing for one that changes nothing.
    AcceptedBatch record;
    bool stores = false;
    // The first answer to an earlier request of that name.
    bool repeated = false;
  };

  // Begins with what a store had. REQUIRES: `stored` is what Store::Load
  // promises.
  UpdateStaging(const Options& options, const StoredTable& stored);
  ~UpdateStaging();
  UpdateStaging(const UpdateStaging&) = delete;
  UpdateStaging& operator=(const UpdateStaging&) = delete;

  // Validates a batch against the head and applies it there. Refused, it
  // changes nothing. One that changes nothing, is only validated, or repeats an
  // earlier one is staged as well: what it is told holds only if those before
  // it are accepted. Errors: those of Rib::Apply; ABORTED
  // (GENERATION_MISMATCH), FAILED_PRECONDITION (WRITER_FENCED),
  // INVALID_ARGUMENT (REQUEST_ID_REUSED), RESOURCE_EXHAUSTED (MEMORY_LIMIT).
  absl::StatusOr<Staged> Stage(const UpdateBatch& batch);

  // A version of the head, for Accept.
  struct Version {
    Rib rib;
    uint64_t generation;
    uint64_t writer_epoch;
    size_t memory_bound;
    size_t requests;  // named ones staged since the accepted version
  };
  Version Head();

  // All that was staged when `head` was taken is accepted.
  void Accept(Version head, absl::Time now);

  // Takes back all that was staged since the accepted version.
  void Rollback();

  // Generation of the head.
  uint64_t generation() const { return generation_; }
  // The accepted version.
  Version& accepted() { return accepted_; }
  const Version& accepted() const { return accepted_; }

 private:
  absl::Status CheckConditions(const UpdateBatch& batch) const;
  // Has the budget hold `bytes` for the head. False if it is exhausted.
  bool Reserve(size_t bytes);

  const Options options_;
  RequestWindow window_;
  Rib head_;
  uint64_t generation_ = 0;
  uint64_t writer_epoch_ = 0;
  size_t memory_bound_ = 0;
  // Named requests staged since the accepted version, in order.
  std::deque<std::string> unsure_requests_;
  Version accepted_;
  // The share of the budget: the larger of both versions' bounds.
  size_t reserved_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_UPDATE_STAGING_H_
