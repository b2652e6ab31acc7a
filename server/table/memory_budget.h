// SPDX-License-Identifier: Apache-2.0

// How much memory all tables of a server may come to, together.

#ifndef PLANB_SERVER_TABLE_MEMORY_BUDGET_H_
#define PLANB_SERVER_TABLE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <limits>

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

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_MEMORY_BUDGET_H_
