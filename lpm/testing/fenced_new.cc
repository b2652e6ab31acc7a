// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/fenced_new.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace planb {
FencedNew::FencedNew() = default;
FencedNew::~FencedNew() = default;
bool FencedNew::Available() { return false; }
size_t FencedNew::Bytes() { return 0; }
}  // namespace planb

#else

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

constexpr size_t kPage = 4096;
// Addresses, not memory. None is given out twice.
constexpr size_t kArena = size_t{1} << 40;

thread_local bool fenced = false;

class Fence {
 public:
  // Never destroyed: blocks may outlive everything.
  static Fence& Get() {
    static Fence* const fence = new (std::malloc(sizeof(Fence))) Fence;
    return *fence;
  }

  // Right before a page that stays forbidden.
  void* Allocate(size_t size, size_t alignment) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t rounded =
        (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
    const size_t pages = (rounded + kPage - 1) / kPage * kPage;
    ABSL_RAW_CHECK(used_ + pages + kPage <= kArena, "the arena is used up");
    char* const begin = arena_ + used_;
    used_ += pages + kPage;
    ABSL_RAW_CHECK(mprotect(begin, pages, PROT_READ | PROT_WRITE) == 0,
                   "cannot open pages: too many blocks");
    char* const block = begin + pages - rounded;
    blocks_.emplace(block, Block{begin, pages, size});
    bytes_ += size;
    return block;
  }

  // False if `block` is not of the arena.
  bool Free(void* block) {
    if (reinterpret_cast<uintptr_t>(block) -
            reinterpret_cast<uintptr_t>(arena_) >=
        kArena) {
      return false;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = blocks_.find(block);
    ABSL_RAW_CHECK(it != blocks_.end(), "deleted twice, or never allocated");
    const Block& freed = it->second;
    ABSL_RAW_CHECK(mmap(freed.begin, freed.pages, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                        -1, 0) == freed.begin,
                   "cannot close pages");
    bytes_ -= freed.size;
    blocks_.erase(it);
    return true;
  }

  size_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

 private:
  struct Block {
    char* begin;
    size_t pages;
    size_t size;
  };
  // From malloc, since new leads back here.
  template <typename T>
  struct Malloc {
    using value_type = T;
    Malloc() = default;
    template <typename U>
    explicit Malloc(const Malloc<U>&) {}
    T* allocate(size_t n) {
      return static_cast<T*>(std::malloc(n * sizeof(T)));
    }
    void deallocate(T* memory, size_t) { std::free(memory); }
    bool operator==(const Malloc&) const { return true; }
  };

  Fence()
      : arena_(static_cast<char*>(
            mmap(nullptr, kArena, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    ABSL_RAW_CHECK(arena_ != MAP_FAILED, "no room for the arena");
  }

  std::mutex mutex_;
  char* const arena_;
  size_t used_ = 0;
  size_t bytes_ = 0;
  std::map<void*, Block, std::less<>, Malloc<std::pair<void* const, Block>>>
      blocks_;
};

void* Allocate(size_t size, size_t alignment) {
  if (fenced) return Fence::Get().Allocate(size, alignment);
  const size_t rounded =
      (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* const block = std::aligned_alloc(alignment, rounded);
  ABSL_RAW_CHECK(block != nullptr, "no memory");
  return block;
}

void Free(void* block) {
  if (block != nullptr && !Fence::Get().Free(block)) std::free(block);
}

}  // namespace

FencedNew::FencedNew() { fenced = true; }
FencedNew::~FencedNew() { fenced = false; }
bool FencedNew::Available() { return true; }
size_t FencedNew::Bytes() { return Fence::Get().bytes(); }

}  // namespace planb

// The other forms (arrays, nothrow, sized) call these.
void* operator new(size_t size) {
  return planb::Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return planb::Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { planb::Free(block); }
void operator delete(void* block, size_t) noexcept { planb::Free(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  planb::Free(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  planb::Free(block);
}

#endif
