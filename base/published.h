// SPDX-License-Identifier: Apache-2.0

// A pointer that many threads read and few replace: a new snapshot takes the
// place of the old one, and no reader ever waits.
//
// A reader stores the object that it is about to use in a slot of its own (a
// hazard pointer), checks that this object is still the published one, uses it,
// and clears the slot. A writer exchanges the pointer. It frees an old object
// after it has read every slot and none holds this object.
//
// Why that is safe: the four operations below are sequentially consistent, so
// they have one order S.
//   reader:  R1 slot := p      R2 read current, got p again
//   writer:  W1 current := q   W2 read slot
// If the reader uses p, then R2 saw p, so R2 precedes W1 in S (or p was
// published again later and is live). R1 precedes R2 and W1 precedes W2, so R1
// precedes W2, and W2 sees p in the slot unless the reader has already cleared
// it. In that case W2 (acquire), or a later claim of the slot (acquire and
// release), read the clearing store (release), so all uses of p happen before
// the writer frees it.

#ifndef PLANB_BASE_PUBLISHED_H_
#define PLANB_BASE_PUBLISHED_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace planb {

// The number of the calling thread: threads count from 0 in the order of their
// first call.
inline size_t ThreadNumber() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t number =
      threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Thread-safe. Owns the published object and the replaced ones that are still
// read. Read() is lock-free; it retries only if a Publish() happens between two
// of its loads. It allocates only when more readers than ever before are
// active.
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
    for (Block* block = first_.next.load(); block != nullptr;) {
      delete std::exchange(block, block->next.load());
    }
  }

  Reader Read() const {
    const T* object = current_.load(std::memory_order_seq_cst);
    Slot* const slot = Claim(object);
    for (;;) {
      const T* const again = current_.load(std::memory_order_seq_cst);
      if (again == object) return Reader(slot, object);
      object = again;
      slot->used.store(object, std::memory_order_seq_cst);
    }
  }

  // Publishes `next`: later calls of Read() return it. Frees replaced objects
  // that no reader holds. REQUIRES: next != nullptr.
  void Publish(std::unique_ptr<const T> next) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    retired_.push_back({std::unique_ptr<const T>(current_.exchange(
                            next.release(), std::memory_order_seq_cst)),
                        Clock::now()});
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
  // Stores `object` in a free slot. Starts at a slot that depends on the
  // thread, so that threads rarely compete.
  Slot* Claim(const T* object) const {
    for (Block* block = &first_;;) {
      const size_t start = ThreadNumber();
      for (size_t i = 0; i < block->slots.size(); ++i) {
        Slot& slot = block->slots[(start + i) % block->slots.size()];
        const T* free = nullptr;
        if (slot.used.compare_exchange_strong(free, object,
                                              std::memory_order_seq_cst)) {
          return &slot;
        }
      }
      Block* next = block->next.load(std::memory_order_seq_cst);
      if (next == nullptr) {
        auto fresh = std::make_unique<Block>();
        if (block->next.compare_exchange_strong(next, fresh.get(),
                                                std::memory_order_seq_cst)) {
          next = fresh.release();
        }
      }
      block = next;
    }
  }

  bool InUse(const T* object) const {
    for (const Block* block = &first_; block != nullptr;
         block = block->next.load(std::memory_order_seq_cst)) {
      for (const Slot& slot : block->slots) {
        if (slot.used.load(std::memory_order_seq_cst) == object) return true;
      }
    }
    return false;
  }

  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(retired_, [this](const Retired& old) {
      return !InUse(old.object.get());
    });
  }

  std::atomic<const T*> current_;
  mutable Block first_;
  Mutex mutex_;
  std::vector<Retired> retired_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace planb

#endif  // PLANB_BASE_PUBLISHED_H_
