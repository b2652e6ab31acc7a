// Hands objects from one writer to one reader, neither of whom waits: how the
// measurement of lookups beside updates publishes a FIB. (The server's way, for
// any number of readers, is server/published.h.)

#ifndef PLANB_BENCHMARKS_ENGINE_EPOCH_SLOT_H_
#define PLANB_BENCHMARKS_ENGINE_EPOCH_SLOT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace planb {

// One thread calls Publish, one other Enter and Leave in turns. Wait-free: no
// operation repeats.
//
// Why nothing is freed that the reader uses. Operations are sequentially
// consistent, so they have one order:
//   reader:  R1 e := epoch   R2 reading := e     R3 read current
//   writer:  W1 current := new   W2 epoch := e'  W3 read reading
// The writer frees the old object, retired under e', if W3 sees 0 or at least
// e'. Say R3 saw the old one; then R3 precedes W1, so R2 precedes W3, and W3
// sees e, or what the reader stored after it. This e was read before W2, so it
// is less than e': the object stays. If W3 sees something later, the reader
// has left since, and what it read happens before W3.
template <typename T>
class EpochSlot {
 public:
  // REQUIRES: first != nullptr.
  explicit EpochSlot(std::unique_ptr<const T> first)
      : current_(first.release()) {}
  // REQUIRES: the reader has left.
  ~EpochSlot() { delete current_.load(); }
  EpochSlot(const EpochSlot&) = delete;
  EpochSlot& operator=(const EpochSlot&) = delete;

  // The reader's: the current object, valid until Leave.
  const T& Enter() {
    reading_.store(epoch_.load());
    return *current_.load();
  }
  void Leave() { reading_.store(0); }

  // The writer's: `next` is current from now on; frees what the reader cannot
  // hold any more. REQUIRES: next != nullptr.
  void Publish(std::unique_ptr<const T> next) {
    std::unique_ptr<const T> old(current_.exchange(next.release()));
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    epoch_.store(epoch);
    retired_.push_back({epoch, std::move(old)});
    const uint64_t reading = reading_.load();
    std::erase_if(retired_, [reading](const Retired& retired) {
      return reading == 0 || reading >= retired.epoch;
    });
  }

  // The writer's: what is current, which stays so until it publishes.
  const T& current() const { return *current_.load(); }

 private:
  struct Retired {
    uint64_t epoch;
    std::unique_ptr<const T> object;
  };

  // The reader's line and the writer's.
  alignas(64) std::atomic<uint64_t> reading_{0};
  alignas(64) std::atomic<const T*> current_;
  std::atomic<uint64_t> epoch_{1};
  std::vector<Retired> retired_;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_EPOCH_SLOT_H_
