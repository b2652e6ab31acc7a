// SPDX-License-Identifier: Apache-2.0

// Arrays that ask for huge pages (2 MB), for search structures and for traces.
// So measurements show caches and not the TLB.

#ifndef PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_
#define PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace planb {

// A fixed number of T, all bytes zero at first, aligned to a huge page and
// advised MADV_HUGEPAGE. The kernel may not follow. A read of a vector that
// begins inside stays within mapped memory. Thread-compatible.
template <typename T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  HugeArray() = default;
  // Crashes if there is no memory.
  explicit HugeArray(size_t size) : size_(size) {
    if (size == 0) return;
    // One page more than needed, so that an aligned stretch is inside.
    mapped_ = RoundUp(bytes()) + kHugePage;
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ABSL_RAW_CHECK(mapping_ != MAP_FAILED, "no memory for a huge array");
    data_ =
        reinterpret_cast<T*>(RoundUp(reinterpret_cast<uintptr_t>(mapping_)));
    // A kernel without huge pages refuses; small ones do as well.
    madvise(data_, RoundUp(bytes()), MADV_HUGEPAGE);
  }
  ~HugeArray() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
  }
  HugeArray(HugeArray&& other) noexcept { *this = std::move(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Is nullptr for a size of 0.
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr uintptr_t RoundUp(uintptr_t value) {
    return (value + kHugePage - 1) / kHugePage * kHugePage;
  }

  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_
