// SPDX-License-Identifier: Apache-2.0

// The memory that the generations of one table share, and which of them still
// live.

#ifndef PLANB_LPM_FIB_FIB_ARENA_H_
#define PLANB_LPM_FIB_FIB_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "absl/base/thread_annotations.h"
#include "lpm/kernels/layout.h"

namespace planb {

// Lines (one at least: kernels may read the first for nothing) and descriptors
// in memory of a fixed size. Where it is worth a huge
// page, the kernel is asked for one, and nothing depends on getting it.
//
// Thread-safe as to its generations; the memory is its users' to order.
class FibArena {
 public:
  // Contents undefined.
  FibArena(size_t lines, size_t descriptors);
  ~FibArena();
  FibArena(const FibArena&) = delete;
  FibArena& operator=(const FibArena&) = delete;

  Line* lines() const { return lines_; }
  Descriptor* descriptors() const { return descriptors_.get(); }
  size_t line_capacity() const { return line_capacity_; }
  size_t descriptor_capacity() const { return descriptor_capacity_; }

  // A generation lives from Enter to Leave.
  void Enter(uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);

  // The oldest that lives, or `none`. What happened before the Leave of every
  // older one happens before this returns.
  uint64_t Oldest(uint64_t none) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Line* lines_ = nullptr;
  size_t line_capacity_;
  size_t descriptor_capacity_;
  size_t alignment_;
  std::unique_ptr<Descriptor[]> descriptors_;
  mutable std::mutex mutex_;
  std::set<uint64_t> living_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_ARENA_H_
