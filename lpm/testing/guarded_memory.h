// SPDX-License-Identifier: Apache-2.0

// Memory between pages that must not be touched.

#ifndef PLANB_LPM_TESTING_GUARDED_MEMORY_H_
#define PLANB_LPM_TESTING_GUARDED_MEMORY_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "absl/base/internal/raw_logging.h"

namespace planb {

// A block between two forbidden pages. Owns its pages. Thread-compatible.
class GuardedMemory {
 public:
  // Room for `most` bytes, rounded up to pages, with a forbidden page before
  // and one after.
  explicit GuardedMemory(size_t most)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        size_((most + page_ - 1) / page_ * page_) {
    void* const all = mmap(nullptr, size_ + 2 * page_, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ABSL_RAW_CHECK(all != MAP_FAILED, "no memory");
    begin_ = static_cast<char*>(all) + page_;
    ABSL_RAW_CHECK(
        size_ == 0 || mprotect(begin_, size_, PROT_READ | PROT_WRITE) == 0,
        "cannot open the pages");
  }
  ~GuardedMemory() { munmap(begin_ - page_, size_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Where `n` bytes begin so that they start right after the forbidden page,
  // or end right before the other. REQUIRES: n <= most.
  char* AtStart() const { return begin_; }
  char* AtEnd(size_t n) const { return begin_ + size_ - n; }

  // From now on the bytes can only be read.
  void ForbidWriting() const {
    ABSL_RAW_CHECK(mprotect(begin_, size_, PROT_READ) == 0,
                   "cannot close the pages");
  }

 private:
  const size_t page_;
  const size_t size_;
  char* begin_;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_GUARDED_MEMORY_H_
