// SPDX-License-Identifier: Apache-2.0

// What a lookup reads of the FIB: nothing past the end of any allocation, and
// nothing that an older version took with it. Each block that the engine
// allocates ends at a forbidden page, so that a gather or a vector load one
// byte too far is a crash; AddressSanitizer does not look at those.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// An operator new whose memory ends at a forbidden page. It catches what the
// sanitizers do not see: gathers and other vector loads of the kernels. This
// program's operators new and delete are replaced by it, but for a sanitizer's.
//
// While one lives, each block that its thread allocates by `new` ends right
// before a forbidden page (its size rounded up to its alignment). Once a block
// is deleted, at any time and by any thread, its pages are forbidden for good.
// Slow, and limited to some ten thousand blocks at a time. Do not nest.
class FencedNew {
 public:
  FencedNew();
  ~FencedNew();
  FencedNew(const FencedNew&) = delete;
  FencedNew& operator=(const FencedNew&) = delete;

  // False where AddressSanitizer does the work.
  static bool Available();
  // Bytes allocated so and not yet deleted. Thread-safe.
  static size_t Bytes();
};

}  // namespace
}  // namespace planb

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace planb {
namespace {
FencedNew::FencedNew() = default;
FencedNew::~FencedNew() = default;
bool FencedNew::Available() { return false; }
size_t FencedNew::Bytes() { return 0; }
}  // namespace
}  // namespace planb

#else

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

FencedNew::FencedNew() { fenced = true; }
FencedNew::~FencedNew() { fenced = false; }
bool FencedNew::Available() { return true; }
size_t FencedNew::Bytes() { return Fence::Get().bytes(); }

}  // namespace
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

namespace planb {
namespace {

class FibFence : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibFence,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return std::string(FamilyName(param.param));
                         });

std::vector<Route> HardRoutes(Family family, size_t count, uint64_t seed) {
  std::vector<Route> routes;
  const auto next_hops = static_cast<NextHopId>(1 + seed * 37 % 400);
  for (const Prefix& prefix : HardPrefixes(family, count, seed)) {
    routes.push_back(
        {prefix, 1 + static_cast<NextHopId>(routes.size()) % next_hops});
  }
  return routes;
}

std::vector<Route> RoutesOf(const RouteSet& set) {
  std::vector<Route> routes;
  for (const auto& [prefix, next_hop] : set) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

// Where tables end: at the last address, at the first, and in between.
std::string Differences(const Fib& fib, const std::vector<Route>& routes) {
  std::string differences = DifferencesAtBoundaries(fib, routes);
  const std::vector<Address> uniform = UniformProbes(fib.family(), 2000, 1);
  return differences +
         PackedProbes(fib.family(), uniform)
             .Differences(fib, RightAnswers(fib.family(), routes, uniform));
}

TEST_P(FibFence, BuiltAtOnce) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Route> routes =
        seed == 1 ? std::vector<Route>()
                  : HardRoutes(GetParam(), 1 + seed * seed, seed);
    const size_t before = FencedNew::Bytes();
    std::unique_ptr<const Fib> fib;
    {
      const FencedNew fence;
      fib = Fib::Build(GetParam(), routes).value();
    }
    if (FencedNew::Available()) {
      // Or else this test sees little of the FIB.
      EXPECT_GE(FencedNew::Bytes() - before + 1024, fib->bytes() / 10 * 9);
    }
    ASSERT_EQ(Differences(*fib, routes), "") << "seed " << seed;
    fib.reset();
    EXPECT_EQ(FencedNew::Bytes(), before) << "a leak";
  }
}

TEST_P(FibFence, Updated) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    HistoryOptions options;
    options.family = GetParam();
    options.prefixes = 20 * seed;
    options.changes = 10;
    options.seed = seed;
    History history(options);
    RouteSet routes(GetParam());
    std::vector<std::unique_ptr<const Fib>> versions;
    std::unique_ptr<FibCompiler> compiler;
    std::unique_ptr<const Fib> first;
    {
      const FencedNew fence;
      compiler = std::make_unique<FibCompiler>(GetParam());
      first = compiler->Compile(routes).value();
    }
    versions.push_back(std::move(first));
    for (int batch = 0; batch < 60; ++batch) {
      std::vector<Prefix> changed;
      for (const Change& change : history.NextBatch()) {
        changed.push_back(change.prefix);
        if (change.next_hop == kNoRoute) {
          routes.Withdraw(change.prefix);
        } else {
          routes.Announce(change.prefix, change.next_hop);
        }
      }
      std::unique_ptr<const Fib> fib;
      {
        const FencedNew fence;
        fib = compiler->Update(routes, changed).value();
      }
      versions.push_back(std::move(fib));
      // The oldest goes, and what it alone held.
      if (versions.size() > 4) versions.erase(versions.begin());
      ASSERT_EQ(Differences(*versions.back(), RoutesOf(routes)), "")
          << "seed " << seed << ", batch " << batch;
    }
    compiler.reset();
    versions.erase(versions.begin(), versions.end() - 1);
    ASSERT_EQ(Differences(*versions[0], RoutesOf(routes)), "") << "alone";
    versions.clear();
    EXPECT_EQ(FencedNew::Bytes(), 0U) << "a leak";
  }
}

}  // namespace
}  // namespace planb
