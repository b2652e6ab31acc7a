// The search by AVX2: a node is two vectors.

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernel_table.h"

#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")

namespace planb {
namespace {

#include "lpm/search.inc"
#include "lpm/walk_scalar.inc"

struct Avx2 : ScalarWalk<Avx2> {
  static uint64_t WideSeparators(const char* node, uint32_t key) {
    return CountWide<kWideSeparators>(node, key);
  }
  static uint64_t NarrowSeparators(const char* node, uint32_t key) {
    return CountNarrow<kNarrowSeparators>(node, key);
  }
  template <typename V>
  static uint64_t WideLeaf(const char* leaf, uint32_t key) {
    return CountWide<Leaf<V>::kWideKeys>(leaf, key);
  }
  template <typename V>
  static uint64_t NarrowLeaf(const char* leaf, uint32_t key) {
    return CountNarrow<Leaf<V>::kNarrowKeys>(leaf, key);
  }

 private:
  static __m256i Load(const char* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }

  // AVX2 compares only signed numbers: `a` is not below `b` if the larger of
  // both is `a`. One bit for each octet of a key; the first kKeys count.
  template <int kKeys>
  static uint64_t CountWide(const char* node, uint32_t key) {
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(key));
    const auto not_below = [wanted](__m256i keys) {
      return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(
          _mm256_cmpeq_epi32(_mm256_max_epu32(keys, wanted), keys))));
    };
    uint32_t bits = not_below(Load(node));
    if constexpr (kKeys > 8) bits |= not_below(Load(node + 32)) << 8;
    return Zeros<kKeys>(bits);
  }
  template <int kKeys>
  static uint64_t CountNarrow(const char* node, uint32_t key) {
    const __m256i wanted = _mm256_set1_epi16(static_cast<short>(key));
    const auto not_below = [wanted](__m256i keys) {
      return _mm256_cmpeq_epi16(_mm256_max_epu16(keys, wanted), keys);
    };
    if constexpr (kKeys <= 16) {
      const auto bits =
          static_cast<uint32_t>(_mm256_movemask_epi8(not_below(Load(node))));
      return Zeros<2 * kKeys>(bits) / 2;
    } else if constexpr (kKeys == 32) {
      const __m256i both =
          _mm256_packs_epi16(not_below(Load(node)), not_below(Load(node + 32)));
      return Zeros<32>(static_cast<uint32_t>(_mm256_movemask_epi8(both)));
    } else {
      const auto low =
          static_cast<uint32_t>(_mm256_movemask_epi8(not_below(Load(node))));
      const auto high = static_cast<uint32_t>(
          _mm256_movemask_epi8(not_below(Load(node + 32))));
      return (Zeros<32>(low) + Zeros<2 * (kKeys - 16)>(high)) / 2;
    }
  }

  // How many of the low `kBits` are 0.
  template <int kBits>
  static uint64_t Zeros(uint32_t bits) {
    constexpr uint32_t kMask =
        static_cast<uint32_t>((uint64_t{1} << kBits) - 1);
    return static_cast<uint64_t>(_mm_popcnt_u32(~bits & kMask));
  }
};

}  // namespace
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the
// wider registers.
bool RunsHere() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx2Kernel = {"avx2", RunsHere, LookupAny<Avx2>};

}  // namespace planb
