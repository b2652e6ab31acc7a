// SPDX-License-Identifier: Apache-2.0

// The search by AVX-512: a node is one vector, a count one compare and one
// popcount (PlanB paper, Listing 1); the root and the tables are walked for 16
// addresses at a time.

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernels/kernel_table.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt")

namespace planb {
namespace {

#include "lpm/kernels/nodes.inc"
#include "lpm/kernels/search.inc"

struct Avx512 {
  template <typename Packed>
  static void Root(const FibView& fib, const uint8_t* in, size_t n,
                   WalkState& walk) {
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t left = n - i;
      const uint8_t* const from = in + i * Packed::kBytes;
      for (size_t line = 0; line < kLanes * Packed::kBytes; line += 64) {
        __builtin_prefetch(from + kAhead + line);
      }
      __m512i first, keys;
      if constexpr (std::is_same_v<Packed, Ipv4>) {
        first = SwapWords(_mm512_maskz_loadu_epi32(LowMask16(left), from));
        keys = _mm512_slli_epi32(first, 16);
      } else {
        LoadIpv6<Packed>(from, left, first, keys);
      }
      const __m512i at = _mm512_i32gather_epi32(
          _mm512_srli_epi32(first, 32 - kRootBits), fib.root, 4);
      _mm512_store_si512(walk.first_key + i, first);
      _mm512_store_si512(walk.key + i, keys);
      _mm512_store_si512(walk.entry + i, at);
    }
  }

  [[gnu::always_inline]] static uint32_t Walk(const FibView& fib, size_t n,
                                              WalkState& walk,
                                              PartitionLists& lists,
                                              uint8_t* out) {
    LaneList more;  // at the next table
    Counts counts;
    __m512i any = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += kLanes) {
      const __mmask16 valid = LowMask16(n - i);
      __m512i at = _mm512_load_si512(walk.entry + i);
      at = TableStep(fib, KindsOf(valid, at).table, at,
                     _mm512_load_si512(walk.first_key + i));
      const __m512i values = _mm512_srli_epi32(at, kPayloadShift);
      _mm512_mask_storeu_epi32(out + i * sizeof(NextHopId), valid, values);
      const Kinds kinds = KindsOf(valid, at);
      any = _mm512_mask_or_epi32(any, kinds.value, any, values);
      const __m512i lanes =
          _mm512_add_epi32(Iota(), Set(static_cast<uint32_t>(i)));
      Sort(kinds, at, _mm512_load_si512(walk.key + i), lanes, lists, more,
           counts);
    }
    while (counts.more > 0) any = Descend(fib, lists, more, counts, any, out);
    Pad(counts.wide, lists.wide);
    Pad(counts.narrow, lists.narrow);
    return static_cast<uint32_t>(_mm512_reduce_or_epi32(any));
  }

  static void Translate(const FibView& fib, size_t n, uint32_t flag,
                        uint8_t* out) {
    for (size_t i = 0; i < n; i += kLanes) {
      const __mmask16 valid = LowMask16(n - i);
      uint8_t* const to = out + i * sizeof(NextHopId);
      const __m512i values = _mm512_maskz_loadu_epi32(valid, to);
      const __mmask16 known = _mm512_testn_epi32_mask(values, Set(flag));
      _mm512_mask_storeu_epi32(
          to, valid,
          _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), known, values,
                                      fib.next_hops, 4));
    }
  }

  static uint64_t WideSeparators(const char* node, uint32_t key) {
    return Count(_mm512_cmpgt_epu32_mask(Set(key), _mm512_load_si512(node)));
  }
  static uint64_t NarrowSeparators(const char* node, uint32_t key) {
    return Count(
        _mm512_cmpgt_epu16_mask(SetShort(key), _mm512_load_si512(node)));
  }
  template <typename V>
  static uint64_t WideLeaf(const char* leaf, uint32_t key) {
    return Count(_mm512_mask_cmpgt_epu32_mask(
        static_cast<__mmask16>((1u << Leaf<V>::kWideKeys) - 1), Set(key),
        _mm512_load_si512(leaf)));
  }
  template <typename V>
  static uint64_t NarrowLeaf(const char* leaf, uint32_t key) {
    constexpr uint32_t kKeys = Leaf<V>::kNarrowKeys;
    if constexpr (kKeys <= 16) {
      return Count(_mm256_mask_cmpgt_epu16_mask(
          static_cast<__mmask16>((1u << kKeys) - 1),
          _mm256_set1_epi16(static_cast<short>(key)),
          _mm256_load_si256(reinterpret_cast<const __m256i*>(leaf))));
    } else {
      return Count(_mm512_mask_cmpgt_epu16_mask(
          (1u << kKeys) - 1, SetShort(key), _mm512_load_si512(leaf)));
    }
  }

 private:
  static constexpr int kLineShift = 6;
  // How far ahead of the search addresses are asked for, in bytes.
  static constexpr size_t kAhead = 2048;

  // How many lanes are listed where. Apart from the lists, so that they stay in
  // registers.
  struct Counts {
    size_t wide = 0, narrow = 0, more = 0;
  };

  // Which lanes are at an entry of which type.
  struct Kinds {
    __mmask16 value, table, wide, narrow;
  };

  static uint64_t Count(uint64_t mask) {
    return static_cast<uint64_t>(_mm_popcnt_u64(mask));
  }
  static __m512i Set(uint32_t value) {
    return _mm512_set1_epi32(static_cast<int>(value));
  }
  static __m512i SetShort(uint32_t value) {
    return _mm512_set1_epi16(static_cast<short>(value));
  }
  static __mmask16 LowMask16(size_t lanes) {
    return static_cast<__mmask16>(lanes >= 16 ? 0xffffu : (1u << lanes) - 1);
  }
  // Of eight, as many as are left from `first`.
  static __mmask8 Half(size_t left, size_t first) {
    if (left >= first + 8) return 0xff;
    const size_t lanes = left > first ? left - first : 0;
    return static_cast<__mmask8>((1u << lanes) - 1);
  }
  // Of pairs of words, for as many of four addresses as are left from `first`.
  static __mmask8 Quarter(size_t left, size_t first) {
    if (left >= first + 4) return 0xff;
    const size_t lanes = left > first ? left - first : 0;
    return static_cast<__mmask8>((1u << (2 * lanes)) - 1);
  }

  static __m512i Iota() {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                             15);
  }

  static __m512i SwapWords(__m512i words) {
    return _mm512_shuffle_epi8(
        words,
        _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203));
  }
  static __m512i SwapLongs(__m512i longs) {
    return _mm512_shuffle_epi8(
        longs,
        _mm512_set4_epi32(0x08090a0b, 0x0c0d0e0f, 0x00010203, 0x04050607));
  }

  // Upper halves of up to 16 addresses, eight a vector; 0 for those not there.
  [[gnu::always_inline]] static void LoadUpperHalves(Ipv6Upper,
                                                     const uint8_t* in,
                                                     size_t left, __m512i& ab,
                                                     __m512i& cd) {
    if (left >= kLanes) [[likely]] {
      ab = _mm512_loadu_si512(in);
      cd = _mm512_loadu_si512(in + 64);
    } else {
      ab = _mm512_maskz_loadu_epi64(Half(left, 0), in);
      cd = _mm512_maskz_loadu_epi64(Half(left, 8), in + 64);
    }
  }
  [[gnu::always_inline]] static void LoadUpperHalves(Ipv6, const uint8_t* in,
                                                     size_t left, __m512i& ab,
                                                     __m512i& cd) {
    __m512i a, b, c, d;
    if (left >= kLanes) [[likely]] {
      a = _mm512_loadu_si512(in);
      b = _mm512_loadu_si512(in + 64);
      c = _mm512_loadu_si512(in + 128);
      d = _mm512_loadu_si512(in + 192);
    } else {
      a = _mm512_maskz_loadu_epi64(Quarter(left, 0), in);
      b = _mm512_maskz_loadu_epi64(Quarter(left, 4), in + 64);
      c = _mm512_maskz_loadu_epi64(Quarter(left, 8), in + 128);
      d = _mm512_maskz_loadu_epi64(Quarter(left, 12), in + 192);
    }
    const __m512i upper = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    ab = _mm512_permutex2var_epi64(a, upper, b);
    cd = _mm512_permutex2var_epi64(c, upper, d);
  }

  // Bits 0..31 and bits 16..47 of up to 16 addresses; 0 for those not there.
  template <typename Packed>
  [[gnu::always_inline]] static void LoadIpv6(const uint8_t* in, size_t left,
                                              __m512i& first, __m512i& keys) {
    __m512i ab, cd;
    LoadUpperHalves(Packed(), in, left, ab, cd);
    ab = SwapLongs(ab);
    cd = SwapLongs(cd);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                           20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21,
                                          23, 25, 27, 29, 31);
    first = _mm512_permutex2var_epi32(ab, odd, cd);
    keys = _mm512_permutex2var_epi32(_mm512_srli_epi64(ab, 16), even,
                                     _mm512_srli_epi64(cd, 16));
  }

  static __m512i ShiftsOf(__m512i entries) {
    return _mm512_and_si512(entries, Set(kShiftMask));
  }

  // TableIndex, and what is there; lanes not in `in_table` stay.
  static __m512i TableStep(const FibView& fib, __mmask16 in_table, __m512i at,
                           __m512i keys) {
    // The payload times 16, without what is below it in the entry.
    const __m512i base = _mm512_and_si512(
        _mm512_srli_epi32(at, kPayloadShift - 4), Set(~(kLineWords - 1)));
    const __m512i index = _mm512_and_si512(
        _mm512_add_epi32(base, _mm512_srlv_epi32(keys, ShiftsOf(at))),
        Set(kIndexMask));
    return _mm512_mask_i32gather_epi32(at, in_table, index, fib.lines, 4);
  }

  static Kinds KindsOf(__mmask16 valid, __m512i entries) {
    const __m512i type = _mm512_and_si512(entries, Set(kTypeMask));
    const auto is = [&](EntryType wanted) {
      return _mm512_mask_cmpeq_epi32_mask(valid, type,
                                          Set(wanted << kTypeShift));
    };
    return {is(kValueEntry), is(kTableEntry), is(kWideEntry), is(kNarrowEntry)};
  }

  // Lists the lanes that are not at a value.
  [[gnu::always_inline]] static void Sort(const Kinds& kinds, __m512i entries,
                                          __m512i keys, __m512i lanes,
                                          PartitionLists& lists, LaneList& more,
                                          Counts& counts) {
    const __m512i node = _mm512_slli_epi32(
        _mm512_srli_epi32(entries, kPayloadShift), kLineShift);
    counts.wide +=
        Append(kinds.wide, node, keys, lanes, counts.wide, lists.wide);
    counts.narrow +=
        Append(kinds.narrow, node, _mm512_srlv_epi32(keys, ShiftsOf(entries)),
               lanes, counts.narrow, lists.narrow);
    counts.more += Append(kinds.table, entries, keys, lanes, counts.more, more);
  }

  // Takes the lanes of `more` through their table, and leaves in it those that
  // are then at another.
  [[gnu::always_inline]] static __m512i Descend(const FibView& fib,
                                                PartitionLists& lists,
                                                LaneList& more, Counts& counts,
                                                __m512i any, uint8_t* out) {
    LaneList done;  // at a value
    size_t done_count = 0;
    const size_t count = counts.more;
    counts.more = 0;
    for (size_t i = 0; i < count; i += kLanes) {
      const __mmask16 valid = LowMask16(count - i);
      const __m512i keys = _mm512_load_si512(more.key + i);
      const __m512i lanes = _mm512_load_si512(more.lane + i);
      const __m512i at =
          TableStep(fib, valid, _mm512_load_si512(more.at + i), keys);
      const __m512i values = _mm512_srli_epi32(at, kPayloadShift);
      const Kinds kinds = KindsOf(valid, at);
      any = _mm512_mask_or_epi32(any, kinds.value, any, values);
      done_count += Append(kinds.value, values, keys, lanes, done_count, done);
      // What is appended to `more` takes places that have been read.
      Sort(kinds, at, keys, lanes, lists, more, counts);
    }
    for (size_t i = 0; i < done_count; ++i) {
      __builtin_memcpy(out + done.lane[i] * sizeof(NextHopId), &done.at[i],
                       sizeof(NextHopId));
    }
    return any;
  }

  // Returns how many lanes of `mask` there are.
  [[gnu::always_inline]] static size_t Append(__mmask16 mask, __m512i at,
                                              __m512i keys, __m512i lanes,
                                              size_t count, LaneList& list) {
    // In registers first: Zen 4 is slow at compressing to memory.
    _mm512_storeu_si512(list.at + count, _mm512_maskz_compress_epi32(mask, at));
    _mm512_storeu_si512(list.key + count,
                        _mm512_maskz_compress_epi32(mask, keys));
    _mm512_storeu_si512(list.lane + count,
                        _mm512_maskz_compress_epi32(mask, lanes));
    return static_cast<size_t>(_mm_popcnt_u64(mask));
  }

  static void Pad(size_t count, LaneList& list) {
    list.count = count;
    if (count == 0) return;
    _mm512_storeu_si512(list.at + count, Set(list.at[0]));
    _mm512_storeu_si512(list.key + count, Set(list.key[0]));
    _mm512_storeu_si512(list.lane + count, Set(list.lane[0]));
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
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx512Kernel = {"avx512", RunsHere, LookupAny<Avx512>,
                              LookupUpperAny<Avx512>};

}  // namespace planb
