// SPDX-License-Identifier: Apache-2.0

// The search by AVX2: a node is two vectors.

#if defined(__x86_64__)

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernels/kernel_table.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt")
#endif

namespace planb {
namespace {

#include "lpm/kernels/nodes.inc"
#include "lpm/kernels/search.inc"
#include "lpm/kernels/walk_scalar.inc"

struct Avx2 : ScalarWalk<Avx2> {
  static size_t TwoTables(const FibView& fib, size_t n, WalkState& walk) {
    size_t more = 0;
    for (size_t i = 0; i < n; i += 8) {
      __m256i at = LoadWords(walk.entry + i);
      at = TableStep(fib, at, LoadWords(walk.first_key + i));
      at = TableStep(fib, at, LoadWords(walk.key + i));
      _mm256_store_si256(reinterpret_cast<__m256i*>(walk.entry + i), at);
      more += static_cast<size_t>(_mm_popcnt_u32(static_cast<uint32_t>(
          _mm256_movemask_ps(_mm256_castsi256_ps(InTable(at))))));
    }
    return more;
  }

  static void Wait(const uint8_t* values, size_t n, uint32_t flag,
                   uint32_t first, Waiting& waiting) {
    for (size_t i = 0; i < n; i += 8) {
      for (uint32_t lanes = FlaggedOf(values, i, n, flag); lanes != 0;
           lanes &= lanes - 1) {
        const auto lane = static_cast<uint32_t>(
            i + static_cast<size_t>(__builtin_ctz(lanes)));
        uint32_t value;
        __builtin_memcpy(&value, values + lane * sizeof(value), sizeof(value));
        waiting.index[waiting.count] = first + lane;
        waiting.descriptor[waiting.count++] = value & (flag - 1);
      }
    }
  }

  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t WideBelow(const char* node, uint32_t key) {
    return kEach * CountWide<kKeys>(node, key);
  }
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t NarrowBelow(const char* node, uint32_t key) {
    return kEach * CountNarrow<kKeys>(node, key);
  }

 private:
  static __m256i Set(uint32_t value) {
    return _mm256_set1_epi32(static_cast<int>(value));
  }
  static __m256i LoadWords(const uint32_t* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  // Of n values, which of the eight from the i-th on are flagged: a bit each.
  static uint32_t FlaggedOf(const uint8_t* values, size_t i, size_t n,
                            uint32_t flag) {
    const size_t left = n - i < 8 ? n - i : 8;
    const __m256i there =
        _mm256_cmpgt_epi32(Set(static_cast<uint32_t>(left)),
                           _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i eight = _mm256_maskload_epi32(
        reinterpret_cast<const int*>(values + i * sizeof(uint32_t)), there);
    const __m256i flagged =
        _mm256_cmpeq_epi32(_mm256_and_si256(eight, Set(flag)), Set(flag));
    return static_cast<uint32_t>(
        _mm256_movemask_ps(_mm256_castsi256_ps(flagged)));
  }
  static __m256i InTable(__m256i entries) {
    return _mm256_cmpeq_epi32(_mm256_and_si256(entries, Set(kTypeMask)),
                              Set(kTableEntry << kTypeShift));
  }

  // TableIndex, and what is there, for the lanes at a table.
  static __m256i TableStep(const FibView& fib, __m256i at, __m256i keys) {
    // The payload times 16, without what is below it in the entry.
    const __m256i base = _mm256_and_si256(
        _mm256_srli_epi32(at, kPayloadShift - 4), Set(~(kLineWords - 1)));
    const __m256i shifts = _mm256_and_si256(at, Set(kShiftMask));
    const __m256i index = _mm256_and_si256(
        _mm256_add_epi32(base, _mm256_srlv_epi32(keys, shifts)),
        Set(kIndexMask));
    return _mm256_mask_i32gather_epi32(
        at, reinterpret_cast<const int*>(fib.lines), index, InTable(at), 4);
  }

  static __m256i Load(const char* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }

  // AVX2 compares only signed numbers: `a` is not below `b` if the larger of
  // both is `a`. One bit for each byte of a key; the first kKeys count.
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

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace planb {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the
// wider registers.
bool RunsHere() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx2Kernel = {"avx2", RunsHere, LookupAny<Avx2>,
                            LookupWithLengthsAny<Avx2>, LookupUpperAny<Avx2>};

}  // namespace planb

#endif  // defined(__x86_64__)
