// SPDX-License-Identifier: Apache-2.0

// The memory of FIBs: BlockPool, from which the compiler allocates, and
// FibArena, in which published generations lie.

#ifndef PLANB_LPM_FIB_FIB_MEMORY_H_
#define PLANB_LPM_FIB_FIB_MEMORY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "lpm/kernels/layout.h"

#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace planb {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr bool kPoisons = true;
inline void Poison(const void* from, size_t bytes) {
  ASAN_POISON_MEMORY_REGION(from, bytes);
}
inline void Unpoison(const void* from, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(from, bytes);
}
#else
inline constexpr bool kPoisons = false;
inline void Poison(const void*, size_t) {}
inline void Unpoison(const void*, size_t) {}
#endif

// Hands out blocks of consecutive lines (or descriptors), and takes them back.
//
// Works on memory of its own that grows, until MoveTo gives it memory that
// readers may read, to work on in place.
//
// A block also has a count of the slots that name it, kept for the caller: the
// slots of several table entries may share a partition.
//
// Under AddressSanitizer memory outside of blocks is poisoned: what was given
// back, and what was not handed out yet. The first element is not: kernels may
// read it for nothing.
//
// Thread-compatible.
template <typename T>
class BlockPool {
 public:
  // Room for `size` elements before it has to grow; no block exceeds
  // `max_block`, and all of them together do not exceed `limit`.
  BlockPool(size_t size, uint32_t max_block, size_t limit = kMaxPayload)
      : max_block_(max_block), limit_(limit), free_(max_block + 1) {
    Grow(std::max<size_t>(std::min(size, limit_), max_block_));
  }

  // The first element of a block with no slots. Contents undefined. If the
  // limit leaves no room, overflow() is true from then on; the caller may write
  // to the block, but the contents of the pool are then of no use.
  // REQUIRES: 0 < size <= max_block.
  uint32_t Allocate(uint32_t size) {
    uint32_t first;
    if (!free_[size].empty()) {
      first = free_[size].back();
      free_[size].pop_back();
      free_elements_ -= size;
    } else {
      if (limit_ - used_ < size) return Overflow();
      if (capacity_ - used_ < size) {
        Grow(std::max(used_ + size, std::min(used_ + used_ / 2, limit_)));
      }
      first = static_cast<uint32_t>(used_);
      used_ += size;
      if (blocks_.size() < used_) blocks_.resize(used_);
    }
    Block& block = blocks_[first];
    block = {static_cast<uint16_t>(size), 0, false, block.fresh};
    if (read_) MakeFresh(first);
    Unpoison(data_ + first, size * sizeof(T));
    return first;
  }

  // Whether no reader knows the block: it was handed out, or so declared, since
  // Settle(), or that was never called.
  bool fresh(uint32_t first) const { return !read_ || blocks_[first].fresh; }
  void MakeFresh(uint32_t first) {
    if (blocks_[first].fresh) return;
    blocks_[first].fresh = true;
    fresh_.push_back(first);
  }
  // From now on readers may read all that there is.
  void Settle() {
    read_ = true;
    for (const uint32_t first : fresh_) blocks_[first].fresh = false;
    fresh_.clear();
  }

  // Makes the block available again. REQUIRES: no reader is left.
  void Free(uint32_t first) {
    const uint32_t size = blocks_[first].size;
    free_[size].push_back(first);
    free_elements_ += size;
    PoisonFree(first, size);
  }

  // Valid until the next Allocate, which may move everything.
  T* at(uint32_t index) { return data_ + index; }

  uint32_t size(uint32_t first) const { return blocks_[first].size; }
  uint32_t slots(uint32_t first) const { return blocks_[first].slots; }
  void AddSlots(uint32_t first, uint32_t count) {
    Block& block = blocks_[first];
    block.slots = static_cast<uint16_t>(block.slots + count);
  }
  // True if that was the last.
  bool DropSlot(uint32_t first) { return --blocks_[first].slots == 0; }

  // A mark for the caller to set; a new block has none.
  void Mark(uint32_t first) { blocks_[first].marked = true; }
  bool marked(uint32_t first) const { return blocks_[first].marked; }

  // Copies everything to `memory`, of `capacity` elements, and works there.
  // Does not use what lies beyond the limit. REQUIRES: capacity >= used();
  // `memory` outlives this or the next move.
  void MoveTo(T* memory, size_t capacity) {
    ABSL_RAW_CHECK(capacity >= used_, "too small to move to");
    capacity = std::min(capacity, limit_);
    blocks_.reserve(capacity);
    CopyTo(memory, capacity);
    own_ = nullptr;
    data_ = memory;
    capacity_ = capacity;
  }

  // True if the elements are in memory of its own.
  bool at_home() const { return own_ != nullptr; }

  // True if there was no room left within the limit.
  bool overflow() const { return overflow_; }
  size_t limit() const { return limit_; }
  // From now on; no less than is used.
  void SetLimit(size_t limit) { limit_ = std::max(limit, used_); }

  // Elements handed out so far, those given back included.
  size_t used() const { return used_; }
  // Elements handed out now.
  size_t live() const { return used_ - free_elements_; }

 private:
  struct Block {
    uint16_t size = 0;
    uint16_t slots = 0;
    bool marked : 1 = false;
    bool fresh : 1 = false;
  };
  static_assert(sizeof(Block) == 6);  // as fib_bound.cc has it

  // The first block, in memory that is not a reader's.
  uint32_t Overflow() {
    overflow_ = true;
    if (blocks_.empty()) blocks_.resize(1);
    if (!at_home()) Grow(std::max<size_t>(capacity_, max_block_));
    Unpoison(data_, max_block_ * sizeof(T));
    return 0;
  }

  void Grow(size_t size) {
    auto grown = std::make_unique_for_overwrite<T[]>(size);
    CopyTo(grown.get(), size);
    own_ = std::move(grown);
    data_ = own_.get();
    capacity_ = size;
    blocks_.reserve(size);
  }

  // Copies everything. What is in no block is poisoned in `to` as well, and
  // stays so here: older generations may be here yet.
  void CopyTo(T* to, size_t capacity) {
    Unpoison(data_, used_ * sizeof(T));
    if (used_ > 0) std::memcpy(to, data_, used_ * sizeof(T));
    PoisonFreeBlocks();
    T* const from = std::exchange(data_, to);
    PoisonFree(used_, capacity - used_);
    PoisonFreeBlocks();
    data_ = from;
  }
  void PoisonFreeBlocks() {
    if constexpr (!kPoisons) return;
    for (size_t size = 1; size < free_.size(); ++size) {
      for (const uint32_t first : free_[size]) PoisonFree(first, size);
    }
  }
  void PoisonFree(size_t first, size_t size) {
    if (first == 0 && size > 0) ++first, --size;
    Poison(data_ + first, size * sizeof(T));
  }

  const uint32_t max_block_;
  size_t limit_;
  bool overflow_ = false;
  bool read_ = false;         // Settle() was called
  std::unique_ptr<T[]> own_;  // or nullptr
  T* data_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t free_elements_ = 0;
  std::vector<Block> blocks_;  // by first element
  std::vector<uint32_t> fresh_;
  std::vector<std::vector<uint32_t>> free_;  // by size
};

using LinePool = BlockPool<Line>;
using DescriptorPool = BlockPool<Descriptor>;

// No block of lines is longer: a table of 2^12 entries. Larger ones make no
// lookup quicker, and every change copies those on its way.
inline constexpr int kMaxTableBits = 12;
inline constexpr uint32_t kMaxBlockLines =
    (uint32_t{1} << kMaxTableBits) / kLineWords;

struct alignas(64) FibRoot {
  std::array<uint32_t, kRootEntries> entries;
};

// The memory that the generations of one table share, and which of them still
// live: lines (one at least: kernels may read the first for nothing) and
// descriptors in memory of a fixed size. Where what is used from the beginning
// is worth a huge page, the kernel is asked for one, and nothing depends on
// getting it. It is asked for no more: to clear one takes an update too long.
//
// Thread-safe as to its generations; the memory is its users' to order.
class FibArena {
 public:
  // `kLater`: address space, which takes memory as it is written to.
  enum class Memory { kNow, kLater };

  // Contents undefined. `first_lines` of the lines are used from the beginning.
  FibArena(size_t lines, size_t descriptors, size_t first_lines, Memory memory);
  ~FibArena();
  FibArena(const FibArena&) = delete;
  FibArena& operator=(const FibArena&) = delete;

  Line* lines() const { return lines_; }
  Descriptor* descriptors() const { return descriptors_; }
  size_t line_capacity() const { return line_capacity_; }
  size_t descriptor_capacity() const { return descriptor_capacity_; }

  // How many of the first lines and descriptors are or were in use.
  void SetUsed(size_t lines, size_t descriptors);
  // Has the kernel clear the next of the huge pages that it was asked for, if
  // it grants them: some 100 us, which the first write there would take. False
  // if there are no more. REQUIRES: of address space; nothing is written to it
  // yet.
  bool TakeHugePage();
  // Of the pages that it has.
  size_t taken_bytes() const { return taken_bytes_; }

  // Of what is or was in use, huge pages as a whole, and of the roots that are
  // kept.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // A generation lives from Enter to Leave.
  void Enter(uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps its root for TakeRoot, if the memory is for later.
  void Leave(uint64_t generation, std::unique_ptr<FibRoot> root)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The root of a generation that is gone, the youngest there is; or null.
  struct SpareRoot {
    uint64_t generation = 0;
    std::unique_ptr<FibRoot> root;
  };
  SpareRoot TakeRoot() ABSL_LOCKS_EXCLUDED(mutex_);

  // The oldest that lives, or `none`. What happened before the Leave of every
  // older one happens before this returns.
  uint64_t Oldest(uint64_t none) const ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr size_t kSpareRoots = 2;

 private:
  std::align_val_t Alignment() const;

  const Memory memory_;
  const size_t line_capacity_;
  const size_t descriptor_capacity_;
  // Of the lines: on huge pages, if the kernel grants them.
  const size_t huge_bytes_;
  size_t taken_bytes_ = 0;  // of these
  std::atomic<size_t> bytes_;
  Line* lines_ = nullptr;
  Descriptor* descriptors_ = nullptr;
  std::unique_ptr<Descriptor[]> own_descriptors_;  // kNow
  // kLater: all of the address space.
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  mutable Mutex mutex_;
  std::set<uint64_t> living_ ABSL_GUARDED_BY(mutex_);
  std::array<SpareRoot, kSpareRoots> spare_roots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_MEMORY_H_
