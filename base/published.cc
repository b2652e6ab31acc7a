// SPDX-License-Identifier: Apache-2.0

#include "base/published.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdint>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

constexpr size_t kNotAsked = SIZE_MAX;

bool Membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool CanFenceThreads() {
  static const bool registered =
      Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

// Once a process has several threads, registration takes milliseconds.
[[maybe_unused]] const bool registered_at_start = CanFenceThreads();

// The numbers of living threads, a bit each.
static_assert(kOwnSlots == 64);
std::atomic<uint64_t> taken{0};

// Gives the thread's number back when the thread ends. What is read after that
// uses shared slots.
struct Returner {
  ~Returner() {
    const uint64_t mine = uint64_t{1} << slot_number;
    slot_number += kOwnSlots;
    taken.fetch_and(~mine, std::memory_order_release);
  }
};

}  // namespace

constinit thread_local size_t slot_number = kNotAsked;

bool TakeOwnSlots() {
  static std::atomic<size_t> others{kOwnSlots};
  if (slot_number != kNotAsked) return slot_number < kOwnSlots;
  slot_number = others.fetch_add(1, std::memory_order_relaxed);
  uint64_t before = taken.load(std::memory_order_relaxed);
  do {
    if (!CanFenceThreads() || before == UINT64_MAX) return false;
  } while (!taken.compare_exchange_weak(before, before | (before + 1),
                                        std::memory_order_acquire));
  slot_number = static_cast<size_t>(std::countr_one(before));
  thread_local const Returner returner;
  return true;
}

void FenceThreads() {
  if (!CanFenceThreads()) return;
  ABSL_RAW_CHECK(Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
                 "membarrier was registered and is refused now");
}

}  // namespace planb
