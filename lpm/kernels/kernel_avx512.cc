// SPDX-License-Identifier: Apache-2.0

// The search by AVX-512: a node is one vector, a count one compare and one
// popcount (PlanB paper, Listing 1); the root and the tables are walked for 16
// addresses at a time.

#if defined(__x86_64__)

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernels/kernel_table.h"

#if defined(__clang__)
#pragma clang attribute push(                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt")
#endif

namespace planb {
namespace {

#include "lpm/kernels/nodes.inc"
#include "lpm/kernels/search.inc"

struct Avx512 {
  static constexpr size_t kFew = 4;
  static constexpr bool kOneByOne = false;

  // Which lanes of a group of 16 are listed is a mask of 16 bits; they come in
  // order.
  struct Lists {
    NodeList wide, narrow;
    __mmask16 wide_lanes[kBlock / kLanes];
    __mmask16 narrow_lanes[kBlock / kLanes];
  };

  template <typename Packed>
  static void Root(const FibView& fib, const uint8_t* in, size_t n,
                   WalkState& walk) {
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t left = n - i;
      const uint8_t* const from = in + i * Packed::kBytes;
      if (left > kAhead) {
        NextBlock(from + kAhead * Packed::kBytes).Ask(kLanes * Packed::kBytes);
      }
      __m512i first, keys;
      if constexpr (std::is_same_v<Packed, Ipv4>) {
        first = SwapWords(_mm512_maskz_loadu_epi32(LowMask16(left), from));
        keys = _mm512_slli_epi32(first, 16);
      } else {
        LoadIpv6<Packed>(from, left, first, keys);
      }
      // Lanes past the end are at no table and in no partition.
      const __m512i at = _mm512_mask_i32gather_epi32(
          Set(MakeEntry(kValueEntry, kNoRoute)), LowMask16(left),
          _mm512_srli_epi32(first, 32 - kRootBits), fib.root, 4);
      _mm512_store_si512(walk.first_key + i, first);
      _mm512_store_si512(walk.key + i, keys);
      _mm512_store_si512(walk.entry + i, at);
    }
  }

  [[gnu::always_inline]] static void Walk(const FibView& fib, size_t n,
                                          WalkState& walk, Lists& lists,
                                          uint8_t*) {
    TableList more;
    FirstTables(fib, n, walk, more);
    if (more.count > 0) FurtherTables(fib, more);
    List(n, walk, more, lists);
  }

  [[gnu::always_inline]] static void Put(uint32_t value, size_t i,
                                         NodeList& list, uint8_t*) {
    list.at[i] = value;
  }

  [[gnu::always_inline]] static bool Deliver(size_t n, uint32_t flag,
                                             const WalkState& walk,
                                             const Lists& lists, uint8_t* out) {
    const uint32_t* wide = lists.wide.at;
    const uint32_t* narrow = lists.narrow.at;
    __m512i any = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += kLanes) {
      __m512i values =
          _mm512_srli_epi32(_mm512_load_si512(walk.entry + i), kPayloadShift);
      const __mmask16 in_wide = lists.wide_lanes[i / kLanes];
      const __mmask16 in_narrow = lists.narrow_lanes[i / kLanes];
      if ((in_wide | in_narrow) != 0) {
        values = Expand(values, in_wide, wide);
        values = Expand(values, in_narrow, narrow);
      }
      any = _mm512_or_si512(any, values);
      _mm512_mask_storeu_epi32(out + i * sizeof(NextHopId), LowMask16(n - i),
                               values);
    }
    return _mm512_test_epi32_mask(any, Set(flag)) != 0;
  }

  static void Wait(const uint8_t* values, size_t n, uint32_t flag,
                   uint32_t first, Waiting& waiting) {
    for (size_t i = 0; i < n; i += kLanes) {
      const __m512i vector = _mm512_maskz_loadu_epi32(
          LowMask16(n - i), values + i * sizeof(uint32_t));
      const __mmask16 flagged = _mm512_test_epi32_mask(vector, Set(flag));
      const __m512i index =
          _mm512_add_epi32(Iota(), Set(first + static_cast<uint32_t>(i)));
      const __m512i descriptor = _mm512_and_si512(vector, Set(flag - 1));
      Compress(flagged, index, waiting.index + waiting.count);
      Compress(flagged, descriptor, waiting.descriptor + waiting.count);
      waiting.count += Count(flagged);
    }
  }

  template <typename Packed>
  static void Pass(const FibView& fib, const uint8_t* in, const uint32_t* index,
                   const uint32_t* descriptor, size_t n, WalkState& walk) {
    for (size_t i = 0; i < n; i += kLongs) {
      const __mmask8 valid = Half(n - i, 0);
      const __m512i at = LoadLongs(valid, index + i);
      const DescriptorLanes passed(fib, valid,
                                   LoadLongs(valid, descriptor + i));
      __m512i keys, entries;
      if constexpr (std::is_same_v<Packed, Ipv6>) {
        const __m512i from = _mm512_slli_epi64(at, 4);
        passed.Pass(SwapLongs(GatherLongs(valid, from, in)),
                    SwapLongs(GatherLongs(valid, from, in + 8)), keys, entries);
      } else {
        const __m512i from = _mm512_slli_epi64(at, 3);
        passed.PassUpper(SwapLongs(GatherLongs(valid, from, in)), keys,
                         entries);
      }
      StoreWords(_mm512_srli_epi64(keys, 32), walk.first_key + i);
      StoreWords(_mm512_srli_epi64(keys, 32), walk.key + i);
      StoreWords(entries, walk.entry + i);
    }
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

  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t WideBelow(const char* node, uint32_t key) {
    return kEach * Count(_mm512_mask_cmpgt_epu32_mask(
                       LowMask16(kKeys), Set(key), _mm512_load_si512(node)));
  }
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t NarrowBelow(const char* node, uint32_t key) {
    if constexpr (kKeys <= 16) {
      return kEach *
             Count(_mm256_mask_cmpgt_epu16_mask(
                 LowMask16(kKeys), _mm256_set1_epi16(static_cast<short>(key)),
                 _mm256_load_si256(reinterpret_cast<const __m256i*>(node))));
    } else {
      return kEach * Count(_mm512_mask_cmpgt_epu16_mask(
                         static_cast<__mmask32>((uint64_t{1} << kKeys) - 1),
                         SetShort(key), _mm512_load_si512(node)));
    }
  }

 private:
  static constexpr int kLineShift = 6;
  // How far ahead addresses of a block are asked for.
  static constexpr size_t kAhead = kBlock / 2;

  // Lanes that are at a second table, packed, with room for a whole vector.
  struct TableList {
    size_t count;
    alignas(64) uint32_t entry[kBlock + kLanes];
    alignas(64) uint32_t key[kBlock + kLanes];
    // Which ones of each group of 16.
    __mmask16 lanes[kBlock / kLanes];
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

  // Words of eight lanes that are 64 bits wide meanwhile.
  static constexpr size_t kLongs = 8;
  static __m512i LoadLongs(__mmask8 valid, const uint32_t* from) {
    return _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(valid, from));
  }
  static void StoreWords(__m512i longs, uint32_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtepi64_epi32(longs));
  }
  static __m512i GatherLongs(__mmask8 valid, __m512i offsets,
                             const void* from) {
    return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), valid, offsets,
                                       from, 1);
  }
  static __m512i SetLong(uint64_t value) {
    return _mm512_set1_epi64(static_cast<long long>(value));
  }

  // The descriptors of eight lanes. See PassDescriptor; shifts by 64 and more,
  // and by less than nothing, give 0 here.
  class DescriptorLanes {
   public:
    DescriptorLanes(const FibView& fib, __mmask8 valid, __m512i descriptor) {
      static_assert(sizeof(Descriptor) == 32);
      const __m512i offset = _mm512_slli_epi64(descriptor, 5);
      const auto* const from = reinterpret_cast<const char*>(fib.descriptors);
      high_ = GatherLongs(valid, offset, from + offsetof(Descriptor, high));
      low_ = GatherLongs(valid, offset, from + offsetof(Descriptor, low));
      // Two words each: `fallback` above, `upper_entry` above.
      entry_ = GatherLongs(valid, offset, from + offsetof(Descriptor, entry));
      length_ = GatherLongs(valid, offset, from + offsetof(Descriptor, length));
    }

    // Keys are the upper words of `keys`, entries the lower ones.
    void Pass(__m512i high, __m512i low, __m512i& keys,
              __m512i& entries) const {
      const __m512i length = Low(length_);
      const __m512i below = _mm512_sub_epi64(length, SetLong(kUpperBits));
      const __m512i above = _mm512_sub_epi64(SetLong(kUpperBits), length);
      keys = _mm512_or_si512(_mm512_sllv_epi64(high, length),
                             _mm512_or_si512(_mm512_srlv_epi64(low, above),
                                             _mm512_sllv_epi64(low, below)));
      // Of both halves, what is left of the first `length` bits.
      const __m512i none = _mm512_setzero_si512();
      const __m512i other = _mm512_or_si512(
          _mm512_srlv_epi64(_mm512_xor_si512(high, high_),
                            _mm512_max_epi64(above, none)),
          _mm512_srlv_epi64(_mm512_xor_si512(low, low_),
                            _mm512_sub_epi64(SetLong(kUpperBits),
                                             _mm512_max_epi64(below, none))));
      entries = InsideOr(other, Low(entry_));
    }
    void PassUpper(__m512i upper, __m512i& keys, __m512i& entries) const {
      const __m512i length = Low(length_);
      const __m512i above = _mm512_sub_epi64(SetLong(kUpperBits), length);
      keys = _mm512_sllv_epi64(upper, length);
      const __m512i other =
          _mm512_srlv_epi64(_mm512_xor_si512(upper, high_),
                            _mm512_max_epi64(above, _mm512_setzero_si512()));
      entries = InsideOr(other, _mm512_srli_epi64(length_, 32));
    }

   private:
    static __m512i Low(__m512i longs) {
      return _mm512_and_si512(longs, SetLong(0xffffffff));
    }
    // Where the address has `other` bits, the fallback in place of the entry.
    __m512i InsideOr(__m512i other, __m512i entries) const {
      const __m512i outside =
          _mm512_slli_epi64(_mm512_srli_epi64(entry_, 32), kPayloadShift);
      return _mm512_mask_mov_epi64(
          entries, _mm512_test_epi64_mask(other, other), outside);
    }

    __m512i high_, low_, entry_, length_;
  };

  static __m512i ShiftsOf(__m512i entries) {
    return _mm512_and_si512(entries, Set(kShiftMask));
  }

  static __mmask16 LanesAt(EntryType type, __m512i entries) {
    return _mm512_cmpeq_epi32_mask(_mm512_and_si512(entries, Set(kTypeMask)),
                                   Set(type << kTypeShift));
  }

  // TableIndex, and what is there, for the lanes at a table.
  static __m512i TableStep(const FibView& fib, __m512i at, __m512i keys) {
    // The payload times 16, without what is below it in the entry.
    const __m512i base = _mm512_and_si512(
        _mm512_srli_epi32(at, kPayloadShift - 4), Set(~(kLineWords - 1)));
    const __m512i index = _mm512_and_si512(
        _mm512_add_epi32(base, _mm512_srlv_epi32(keys, ShiftsOf(at))),
        Set(kIndexMask));
    return _mm512_mask_i32gather_epi32(at, LanesAt(kTableEntry, at), index,
                                       fib.lines, 4);
  }

  // Takes all lanes through their first table, and lists those that are then at
  // a second one.
  [[gnu::always_inline]] static void FirstTables(const FibView& fib, size_t n,
                                                 WalkState& walk,
                                                 TableList& more) {
    size_t count = 0;
    for (size_t i = 0; i < n; i += kLanes) {
      const __m512i at = TableStep(fib, _mm512_load_si512(walk.entry + i),
                                   _mm512_load_si512(walk.first_key + i));
      _mm512_store_si512(walk.entry + i, at);
      const __mmask16 in_table = LanesAt(kTableEntry, at);
      more.lanes[i / kLanes] = in_table;
      // The branch is predictable: most tables have such a lane in nearly all
      // groups, or in hardly any.
      if (in_table == 0) continue;
      Compress(in_table, at, more.entry + count);
      Compress(in_table, _mm512_load_si512(walk.key + i), more.key + count);
      count += Count(in_table);
    }
    more.count = count;
  }

  // Takes the lanes of `more` through all further tables.
  [[gnu::always_inline]] static void FurtherTables(const FibView& fib,
                                                   TableList& more) {
    _mm512_storeu_si512(more.entry + more.count, _mm512_setzero_si512());
    __mmask16 any;
    do {
      any = 0;
      for (size_t i = 0; i < more.count; i += kLanes) {
        const __m512i at = TableStep(fib, _mm512_load_si512(more.entry + i),
                                     _mm512_load_si512(more.key + i));
        _mm512_store_si512(more.entry + i, at);
        any |= LanesAt(kTableEntry, at);
      }
    } while (any != 0);
  }

  // Lists the lanes that are in partitions, once those of `more` are back in
  // their places.
  [[gnu::always_inline]] static void List(size_t n, WalkState& walk,
                                          const TableList& more, Lists& lists) {
    const uint32_t* from = more.entry;
    size_t wide = 0, narrow = 0;
    for (size_t i = 0; i < n; i += kLanes) {
      __m512i entries = _mm512_load_si512(walk.entry + i);
      const __mmask16 in_more = more.lanes[i / kLanes];
      if (in_more != 0) {
        entries = Expand(entries, in_more, from);
        _mm512_store_si512(walk.entry + i, entries);
      }
      const __mmask16 in_wide = LanesAt(kWideEntry, entries);
      const __mmask16 in_narrow = LanesAt(kNarrowEntry, entries);
      lists.wide_lanes[i / kLanes] = in_wide;
      lists.narrow_lanes[i / kLanes] = in_narrow;
      if ((in_wide | in_narrow) == 0) continue;
      const __m512i keys = _mm512_load_si512(walk.key + i);
      const __m512i node = _mm512_slli_epi32(
          _mm512_srli_epi32(entries, kPayloadShift), kLineShift);
      Compress(in_wide, node, lists.wide.at + wide);
      Compress(in_wide, keys, lists.wide.key + wide);
      wide += Count(in_wide);
      Compress(in_narrow, node, lists.narrow.at + narrow);
      Compress(in_narrow, _mm512_srlv_epi32(keys, ShiftsOf(entries)),
               lists.narrow.key + narrow);
      narrow += Count(in_narrow);
    }
    Pad(wide, lists.wide);
    Pad(narrow, lists.narrow);
  }

  // Writes the lanes of `mask` side by side, and then anything, 16 in all.
  static void Compress(__mmask16 mask, __m512i lanes, uint32_t* to) {
    // In registers first: Zen 4 is slow at compressing to memory.
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, lanes));
  }
  // Replaces the lanes of `mask` by words from `from`, and takes it past them.
  static __m512i Expand(__m512i lanes, __mmask16 mask, const uint32_t*& from) {
    const __m512i expanded =
        _mm512_mask_expand_epi32(lanes, mask, _mm512_loadu_si512(from));
    from += Count(mask);
    return expanded;
  }

  static void Pad(size_t count, NodeList& list) {
    list.count = count;
    if (count == 0) return;
    _mm512_storeu_si512(list.at + count, Set(list.at[0]));
    _mm512_storeu_si512(list.key + count, Set(list.key[0]));
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
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx512Kernel = {"avx512", RunsHere, LookupAny<Avx512>,
                              LookupWithLengthsAny<Avx512>,
                              LookupUpperAny<Avx512>};

}  // namespace planb

#endif  // defined(__x86_64__)
