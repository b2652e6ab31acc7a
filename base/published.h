// SPDX-License-Identifier: Apache-2.0

// A pointer that many threads read and few replace: a new snapshot takes the
// place of the old one, and no reader ever waits.
//
// A reader stores the object that it is about to use in a slot (a hazard
// pointer), checks that this object is still the published one, uses it, and
// clears the slot. A writer exchanges the pointer. It frees an old object after
// it has read every slot and none holds this object.
//
// A thread has a slot of its own in each Published, which it writes without a
// locked instruction. The writer pays for that: membarrier(2) makes each thread
// of the process that runs execute a fence, and one that does not run executed
// one when it stopped. Some readers claim a shared slot by a locked instruction
// instead: a thread's second one at a time, those of threads beyond the first
// kOwnSlots that live at once, and all where the kernel refuses membarrier.
//
// Why that is safe:
//   reader:  R1 slot := p      R2 read current, got p again
//   writer:  W1 current := q   M fence of all threads   W2 read slot
// An own slot: M puts a fence F into the reader's thread. If F is before R2,
// then R2 comes after W1 and does not see p (unless p was published again later
// and is live). So F is after R2 and R1, and W2 comes after R1.
// A shared slot: R1, R2, W1 and W2 are sequentially consistent, so they have
// one order S. R2 saw p, so it precedes W1 in S, and R1 precedes W2.
// So W2 sees p in the slot unless the reader has already cleared it. In that
// case W2 (acquire) read the clearing store or a later one of the slot, all of
// which release, so all uses of p happen before the writer frees it. These are
// the edges that TSan checks: it knows no membarrier and needs none.
//
// In a child that fork() made, slots of the parent's other threads stay taken.

#ifndef PLANB_BASE_PUBLISHED_H_
#define PLANB_BASE_PUBLISHED_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace planb {

// So many threads have slots of their own.
inline constexpr size_t kOwnSlots = 64;

// Below kOwnSlots: the place of the calling thread's own slots. Else it has
// none, or did not ask for it yet.
extern constinit thread_local size_t slot_number;

// Gives the calling thread own slots until it ends, the first time. Returns
// false if it has none: the kernel refuses membarrier, or kOwnSlots threads
// have theirs.
bool TakeOwnSlots();

// Returns after each other thread of the process has executed a fence since the
// call. Does nothing if threads cannot have own slots.
void FenceThreads();

// Thread-safe. Owns the published object and the replaced ones that are still
// read. Read() is lock-free; it retries only if a Publish() happens between two
// of its loads. It allocates only when more readers than ever before share
// slots, and at the first read of a thread.
template <typename T>
class Published {
 private:
  struct alignas(64) Slot {
    std::atomic<const T*> used{nullptr};
  };
  struct Block {
    std::array<Slot, 64> slots;
    std::atomic<Block*> next{nullptr};
  };
  using Clock = std::chrono::steady_clock;
  struct Retired {
    std::unique_ptr<const T> object;
    Clock::time_point replaced;
  };

 public:
  // Keeps one object alive. Hold it during one batch, on one thread, and not
  // across I/O.
  class Reader {
   public:
    Reader(Reader&& other) noexcept
        : slot_(std::exchange(other.slot_, nullptr)), object_(other.object_) {}
    Reader& operator=(Reader&&) = delete;
    ~Reader() {
      if (slot_ != nullptr) {
        slot_->used.store(nullptr, std::memory_order_release);
      }
    }
    const T& operator*() const { return *object_; }
    const T* operator->() const { return object_; }

   private:
    friend class Published;
    Reader(Slot* slot, const T* object) : slot_(slot), object_(object) {}
    Slot* slot_;
    const T* object_;
  };

  // REQUIRES: first != nullptr.
  explicit Published(std::unique_ptr<const T> first)
      : current_(first.release()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // REQUIRES: no Reader exists.
  ~Published() {
    delete current_.load();
    for (Block* block = shared_.load(); block != nullptr;) {
      delete std::exchange(block, block->next.load());
    }
  }

  Reader Read() const {
    const size_t number = slot_number;
    if (number < kOwnSlots) {
      Slot& slot = own_[number];
      if (slot.used.load(std::memory_order_acquire) == nullptr) {
        return ReadBy(slot);
      }
    }
    return ReadFirstOrShared();
  }

  // Publishes `next`: later calls of Read() return it. Frees replaced objects
  // that no reader holds. REQUIRES: next != nullptr.
  void Publish(std::unique_ptr<const T> next) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    Retired& old = retired_.emplace_back();  // may throw
    old.object.reset(
        current_.exchange(next.release(), std::memory_order_seq_cst));
    old.replaced = Clock::now();
    FenceThreads();
    Sweep();
  }

  // Frees replaced objects that no reader holds. Returns the sum of `measure`
  // over those that remain.
  template <typename Measure>
  size_t Reclaim(Measure measure) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    Sweep();
    size_t sum = 0;
    for (const Retired& old : retired_) sum += measure(*old.object);
    return sum;
  }

  // The time since the oldest object that a reader still holds was replaced;
  // nullopt if readers hold only the published object.
  std::optional<std::chrono::nanoseconds> OldestRetired()
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    Sweep();
    if (retired_.empty()) return std::nullopt;
    return Clock::now() - retired_.front().replaced;
  }

 private:
  // REQUIRES: `slot` is this thread's own, and free.
  Reader ReadBy(Slot& slot) const {
    const T* object = current_.load(std::memory_order_acquire);
    for (;;) {
      slot.used.store(object, std::memory_order_release);
      // In this order for the compiler; for the processor see FenceThreads().
      std::atomic_signal_fence(std::memory_order_seq_cst);
      const T* const again = current_.load(std::memory_order_acquire);
      if (again == object) return Reader(&slot, object);
      object = again;
    }
  }

  ABSL_ATTRIBUTE_NOINLINE Reader ReadFirstOrShared() const {
    if (slot_number >= kOwnSlots && TakeOwnSlots()) return Read();
    const T* object = current_.load(std::memory_order_seq_cst);
    Slot* const slot = Claim(object);
    for (;;) {
      const T* const again = current_.load(std::memory_order_seq_cst);
      if (again == object) return Reader(slot, object);
      object = again;
      slot->used.store(object, std::memory_order_seq_cst);
    }
  }

  // Stores `object` in a free shared slot. Starts at one that depends on the
  // thread, so that threads rarely compete.
  Slot* Claim(const T* object) const {
    for (std::atomic<Block*>* link = &shared_;;) {
      Block* block = link->load(std::memory_order_seq_cst);
      if (block == nullptr) {
        auto fresh = std::make_unique<Block>();
        if (link->compare_exchange_strong(block, fresh.get(),
                                          std::memory_order_seq_cst)) {
          block = fresh.release();
        }
      }
      for (size_t i = 0; i < block->slots.size(); ++i) {
        Slot& slot = block->slots[(slot_number + i) % block->slots.size()];
        const T* free = nullptr;
        if (slot.used.compare_exchange_strong(free, object,
                                              std::memory_order_seq_cst)) {
          return &slot;
        }
      }
      link = &block->next;
    }
  }

  bool InUse(const T* object) const {
    const auto holds = [object](const Slot& slot) {
      return slot.used.load(std::memory_order_seq_cst) == object;
    };
    bool in_use = std::any_of(own_.begin(), own_.end(), holds);
    for (const Block* block = shared_.load(std::memory_order_seq_cst);
         block != nullptr && !in_use;
         block = block->next.load(std::memory_order_seq_cst)) {
      in_use = std::any_of(block->slots.begin(), block->slots.end(), holds);
    }
    return in_use;
  }

  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(retired_, [this](const Retired& old) {
      return !InUse(old.object.get());
    });
  }

  std::atomic<const T*> current_;
  mutable std::array<Slot, kOwnSlots> own_;
  mutable std::atomic<Block*> shared_{nullptr};
  Mutex mutex_;
  std::vector<Retired> retired_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace planb

#endif  // PLANB_BASE_PUBLISHED_H_
