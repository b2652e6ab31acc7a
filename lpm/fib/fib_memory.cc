// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/mutex.h"

namespace planb {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

FibArena::FibArena(size_t lines, size_t descriptors, size_t first_lines,
                   Memory memory)
    : memory_(memory),
      line_capacity_(std::max<size_t>(lines, 1)),
      descriptor_capacity_(descriptors),
      // Half of a page is worth a whole one.
      huge_bytes_(std::min(
          (first_lines * sizeof(Line) + kHugePage / 2) / kHugePage * kHugePage,
          line_capacity_ * sizeof(Line) / kHugePage * kHugePage)) {
  const size_t line_bytes = line_capacity_ * sizeof(Line);
  if (memory == Memory::kNow) {
    own_descriptors_ =
        std::make_unique_for_overwrite<Descriptor[]>(descriptors);
    descriptors_ = own_descriptors_.get();
    // The lines come last: they have no owner if anything throws.
    lines_ = static_cast<Line*>(::operator new(line_bytes, Alignment()));
  } else {
    const size_t bytes = line_bytes + descriptors * sizeof(Descriptor);
    mapped_bytes_ = bytes + kHugePage;
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    void* from = mapped_;
    size_t left = mapped_bytes_;
    lines_ = static_cast<Line*>(std::align(kHugePage, bytes, from, left));
    descriptors_ = reinterpret_cast<Descriptor*>(lines_ + line_capacity_);
  }
  if (huge_bytes_ > 0) madvise(lines_, huge_bytes_, MADV_HUGEPAGE);
  SetUsed(line_capacity_, descriptors);
}

FibArena::~FibArena() {
  if (memory_ == Memory::kLater) {
    Unpoison(mapped_, mapped_bytes_);  // others may map this place
    munmap(mapped_, mapped_bytes_);
    return;
  }
  ::operator delete(lines_, Alignment());
}

std::align_val_t FibArena::Alignment() const {
  return std::align_val_t{huge_bytes_ > 0 ? kHugePage : alignof(Line)};
}

void FibArena::SetUsed(size_t lines, size_t descriptors) {
  const size_t bytes = std::max(lines * sizeof(Line), huge_bytes_) +
                       descriptors * sizeof(Descriptor);
  const size_t roots =
      memory_ == Memory::kLater ? kSpareRoots * sizeof(FibRoot) : 0;
  bytes_.store(bytes + roots, std::memory_order_relaxed);
}

bool FibArena::TakeHugePage() {
  if (taken_bytes_ == huge_bytes_) return false;
  *(reinterpret_cast<volatile char*>(lines_) + taken_bytes_) = 0;
  taken_bytes_ += kHugePage;
  return true;
}

void FibArena::Enter(uint64_t generation) {
  const MutexLock lock(mutex_);
  living_.insert(generation);
}

void FibArena::Leave(uint64_t generation, std::unique_ptr<FibRoot> root) {
  const MutexLock lock(mutex_);
  living_.erase(generation);
  if (memory_ == Memory::kNow || root == nullptr) return;
  // The oldest makes room.
  for (SpareRoot& spare : spare_roots_) {
    if (spare.root != nullptr && spare.generation > generation) continue;
    std::swap(spare.root, root);
    std::swap(spare.generation, generation);
    if (root == nullptr) return;
  }
}

FibArena::SpareRoot FibArena::TakeRoot() {
  const MutexLock lock(mutex_);
  SpareRoot taken = std::move(spare_roots_[0]);
  for (size_t i = 1; i < kSpareRoots; ++i) {
    spare_roots_[i - 1] = std::move(spare_roots_[i]);
  }
  return taken;
}

uint64_t FibArena::Oldest(uint64_t none) const {
  const MutexLock lock(mutex_);
  return living_.empty() ? none : *living_.begin();
}

}  // namespace planb
