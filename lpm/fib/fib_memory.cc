// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace planb {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

FibArena::FibArena(size_t lines, size_t descriptors)
    : line_capacity_(std::max<size_t>(lines, 1)),
      descriptor_capacity_(descriptors),
      descriptors_(std::make_unique_for_overwrite<Descriptor[]>(descriptors)) {
  // The lines come last: they have no owner if anything throws.
  const size_t bytes = line_capacity_ * sizeof(Line);
  alignment_ = bytes >= kHugePage ? kHugePage : alignof(Line);
  lines_ =
      static_cast<Line*>(::operator new (bytes, std::align_val_t{alignment_}));
  // What does not fill a huge page at the end stays on small ones.
  if (alignment_ == kHugePage) madvise(lines_, bytes, MADV_HUGEPAGE);
}

FibArena::~FibArena() {
  ::operator delete (lines_, std::align_val_t{alignment_});
}

void FibArena::Enter(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  living_.insert(generation);
}

void FibArena::Leave(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  living_.erase(generation);
}

uint64_t FibArena::Oldest(uint64_t none) const {
  const std::lock_guard lock(mutex_);
  return living_.empty() ? none : *living_.begin();
}

}  // namespace planb
