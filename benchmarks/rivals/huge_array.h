// SPDX-License-Identifier: Apache-2.0

// Arrays that ask for huge pages (2 MB), so that measurements show caches and
// not the TLB: for search structures and for traces alike.

#ifndef PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_
#define PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"

namespace planb {

// Zeroed memory, a multiple of huge pages, advised MADV_HUGEPAGE. The
// kernel may not follow. Thread-compatible.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  // Crashes if there is no memory.
  explicit HugeBuffer(size_t bytes) {
    if (bytes == 0) return;
    // One page more than needed, so that an aligned stretch is inside.
    mapped_ = RoundUp(bytes) + kHugePage;
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ABSL_RAW_CHECK(mapping_ != MAP_FAILED, "no memory for a huge array");
    data_ =
        reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(mapping_)));
    // A kernel without huge pages refuses; small ones do as well.
    madvise(data_, RoundUp(bytes), MADV_HUGEPAGE);
  }
  ~HugeBuffer() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
  }
  HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    return *this;
  }

  // Aligned to a huge page; nullptr if made of 0 bytes.
  void* data() const { return data_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr uintptr_t RoundUp(uintptr_t value) {
    return (value + kHugePage - 1) / kHugePage * kHugePage;
  }

  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  void* data_ = nullptr;
};

// A fixed number of T, all bytes zero at first. Thread-compatible.
template <typename T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  HugeArray() = default;
  explicit HugeArray(size_t size) : buffer_(size * sizeof(T)), size_(size) {}
  HugeArray(HugeArray&& other) noexcept { *this = std::move(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() { return static_cast<T*>(buffer_.data()); }
  const T* data() const { return static_cast<const T*>(buffer_.data()); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  HugeBuffer buffer_;
  size_t size_ = 0;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_HUGE_ARRAY_H_
