// SPDX-License-Identifier: Apache-2.0

// The search by AVX2: a node is two vectors, and eight lanes are listed at
// once. The root and the tables are read one word at a time: AMD's gathers are
// slower.

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

// The lanes of each mask of eight: their numbers side by side, a byte each.
struct LanesOfMasks {
  alignas(64) uint64_t lanes[256] = {};

  constexpr LanesOfMasks() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      int count = 0;
      for (uint64_t lane = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) != 0) lanes[mask] |= lane << (8 * count++);
      }
    }
  }
};
constexpr LanesOfMasks kLanesOfMasks;

class Avx2 : public ScalarWalk<Avx2> {
 public:
  static constexpr size_t kFew = 15;

  // And the first table, which is the one that goes by other keys.
  template <typename Packed>
  static void Root(const FibView& fib, const uint8_t* in, size_t n,
                   WalkState& walk) {
    static_assert(kFew + 1 >= 8, "or the last eight begin before the first");
    alignas(64) uint32_t index[kBlock];
    alignas(64) uint32_t at[kBlock];
    ForEights(n, [&](size_t i) {
      __m256i first, keys;
      LoadAddresses(Packed(), in + i * Packed::kBytes, first, keys);
      Store(first, walk.first_key + i);
      Store(keys, walk.key + i);
      Store(_mm256_srli_epi32(first, 32 - kRootBits), index + i);
    });
    Fetch(fib.root, index, n, at);
    ForEights(n, [&](size_t i) {
      const __m256i entries = LoadWords(at + i);
      Store(_mm256_and_si256(IndexOf(entries, LoadWords(walk.first_key + i)),
                             InTable(entries)),
            index + i);
    });
    Fetch(fib.words(), index, n, walk.entry);
    ForEights(n, [&](size_t i) {
      const __m256i entries = LoadWords(at + i);
      Store(_mm256_blendv_epi8(entries, LoadWords(walk.entry + i),
                               InTable(entries)),
            walk.entry + i);
    });
    walk.Pad(n);
  }

  static void Walk(const FibView& fib, size_t n, WalkState& walk, Lists& lists,
                   uint8_t* out) {
    for (size_t i = 0; i < n; ++i) PutPayload(walk.entry[i], i, out);
    LaneList tables;
    Counts counts;
    __m128i lanes = _mm_cvtsi64_si128(0x0706050403020100);
    for (size_t i = 0; i < n; i += 8) {
      List(LoadWords(walk.entry + i), LoadWords(walk.key + i), lanes, lists,
           tables, counts);
      lanes = _mm_add_epi8(lanes, _mm_set1_epi8(8));
    }
    while (counts.table > 0) NextTable(fib, lists, tables, counts, out);
    Pad(counts.wide, lists.wide);
    Pad(counts.narrow, lists.narrow);
  }

  static void Wait(const uint8_t* values, size_t n, uint32_t flag,
                   uint32_t first, Waiting& waiting) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m256i eight =
          LoadWords(reinterpret_cast<const uint32_t*>(values) + i);
      const __m256i flagged = _mm256_and_si256(eight, Set(flag));
      const uint32_t mask = SignsOf(_mm256_cmpeq_epi32(flagged, Set(flag)));
      const __m256i order = _mm256_cvtepu8_epi32(LanesOf(mask));
      Store(_mm256_add_epi32(order, Set(first + static_cast<uint32_t>(i))),
            waiting.index + waiting.count);
      Store(_mm256_permutevar8x32_epi32(_mm256_and_si256(eight, Set(flag - 1)),
                                        order),
            waiting.descriptor + waiting.count);
      waiting.count += Ones(mask);
    }
    ScalarWalk::Wait(values + i * sizeof(uint32_t), n - i, flag,
                     first + static_cast<uint32_t>(i), waiting);
  }

  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t WideBelow(const char* node, uint32_t key) {
    const __m256i wanted = Set(key);
    const auto not_below = [wanted](const char* keys) {
      return _mm256_cmpeq_epi32(_mm256_min_epu32(LoadKeys(keys), wanted),
                                wanted);
    };
    if constexpr (kKeys <= 8) {
      return EachOfRest<kKeys, 1, kEach>(SignsOf(not_below(node)) &
                                         LowBits(kKeys));
    } else {
      return EachOfRest<kKeys, 2, kEach>(
          BytesOf(_mm256_packs_epi32(not_below(node), not_below(node + 32))) &
          PackedBits(2 * (kKeys - 8)));
    }
  }
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t NarrowBelow(const char* node, uint32_t key) {
    const __m256i wanted = _mm256_set1_epi16(static_cast<short>(key));
    const auto not_below = [wanted](const char* keys) {
      return _mm256_cmpeq_epi16(_mm256_min_epu16(LoadKeys(keys), wanted),
                                wanted);
    };
    if constexpr (kKeys <= 16) {
      return EachOfRest<kKeys, 2, kEach>(BytesOf(not_below(node)) &
                                         LowBits(2 * kKeys));
    } else {
      return EachOfRest<kKeys, 1, kEach>(
          BytesOf(_mm256_packs_epi16(not_below(node), not_below(node + 32))) &
          PackedBits(kKeys - 16));
    }
  }

 private:
  // How many lanes are listed.
  struct Counts {
    size_t wide = 0, narrow = 0, table = 0;
  };

  static __m256i Set(uint32_t value) {
    return _mm256_set1_epi32(static_cast<int>(value));
  }
  static __m256i LoadWords(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static __m256i LoadKeys(const char* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void Store(__m256i words, uint32_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
  }
  static uint32_t SignsOf(__m256i words) {
    return static_cast<uint32_t>(
        _mm256_movemask_ps(_mm256_castsi256_ps(words)));
  }
  static uint32_t BytesOf(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
  }
  static uint64_t Ones(uint32_t mask) {
    return static_cast<uint64_t>(_mm_popcnt_u32(mask));
  }

  // AVX2 compares only signed numbers: a key is not below `wanted` if the
  // smaller of both is `wanted`. So the bits are those of the keys not below,
  // of each key kBits; and this is kEach for each of the others.
  template <uint32_t kKeys, uint64_t kBits, uint64_t kEach>
  static uint64_t EachOfRest(uint32_t bits) {
    if constexpr (kEach % kBits == 0) {
      return kEach * kKeys - kEach / kBits * Ones(bits);
    } else {
      return kEach * kKeys - kEach * Ones(bits) / kBits;
    }
  }
  static constexpr uint32_t LowBits(uint32_t count) {
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  }
  // The bits of a whole vector that is packed together with another, and of
  // that one's first `upper`: all 16, or no more than 8.
  static constexpr uint32_t PackedBits(uint32_t upper) {
    return upper == 16 ? ~0u : 0x00ff00ff | LowBits(upper) << 8;
  }

  // Takes eight lanes a step: those from step's argument on. The last steps may
  // overlap. REQUIRES: n >= 8.
  template <typename Step>
  [[gnu::always_inline]] static void ForEights(size_t n, Step step) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) step(i);
    if (i < n) step(n - 8);
  }

  // Bits 0..31 and bits 16..47 of eight addresses.
  static void LoadAddresses(Ipv4, const uint8_t* in, __m256i& first,
                            __m256i& keys) {
    const __m256i swap = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    first = _mm256_shuffle_epi8(LoadWords(in), swap);
    keys = _mm256_slli_epi32(first, 16);
  }
  static void LoadAddresses(Ipv6Upper, const uint8_t* in, __m256i& first,
                            __m256i& keys) {
    Split(LoadWords(in), LoadWords(in + 32),
          _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7), first, keys);
  }
  static void LoadAddresses(Ipv6, const uint8_t* in, __m256i& first,
                            __m256i& keys) {
    Split(_mm256_unpacklo_epi64(LoadWords(in), LoadWords(in + 32)),
          _mm256_unpacklo_epi64(LoadWords(in + 64), LoadWords(in + 96)),
          _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), first, keys);
  }
  // Of upper halves, which `order` then puts in order.
  static void Split(__m256i ab, __m256i cd, __m256i order, __m256i& first,
                    __m256i& keys) {
    // Both of each, side by side.
    const __m256i both = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(5, 4, 3, 2, 3, 2, 1, 0, 13, 12, 11, 10, 11, 10, 9, 8));
    const __m256 a = _mm256_castsi256_ps(_mm256_shuffle_epi8(ab, both));
    const __m256 c = _mm256_castsi256_ps(_mm256_shuffle_epi8(cd, both));
    keys = _mm256_permutevar8x32_epi32(
        _mm256_castps_si256(_mm256_shuffle_ps(a, c, 0x88)), order);
    first = _mm256_permutevar8x32_epi32(
        _mm256_castps_si256(_mm256_shuffle_ps(a, c, 0xdd)), order);
  }

  // Without the asm the compiler makes such loads a gather.
  static uint32_t Word(const uint32_t* from) {
    uint32_t word = *from;
    asm("" : "+r"(word));
    return word;
  }
  // to[i] = from[index[i]].
  [[gnu::always_inline]] static void Fetch(const uint32_t* from,
                                           const uint32_t* index, size_t n,
                                           uint32_t* to) {
    ForEights(n, [&](size_t i) {
#pragma GCC unroll 8
      for (size_t j = i; j < i + 8; ++j) to[j] = Word(from + index[j]);
    });
  }

  static __m256i InTable(__m256i entries) {
    return _mm256_cmpeq_epi32(_mm256_and_si256(entries, Set(kTypeMask)),
                              Set(kTableEntry << kTypeShift));
  }
  // Keys below the shifts of their entries.
  static __m256i Shifted(__m256i keys, __m256i entries) {
    return _mm256_srlv_epi32(keys, _mm256_and_si256(entries, Set(kShiftMask)));
  }
  // TableIndex.
  static __m256i IndexOf(__m256i entries, __m256i keys) {
    // The payload times 16, without what is below it in the entry.
    const __m256i base = _mm256_and_si256(
        _mm256_srli_epi32(entries, kPayloadShift - 4), Set(~(kLineWords - 1)));
    return _mm256_and_si256(_mm256_add_epi32(base, Shifted(keys, entries)),
                            Set(kIndexMask));
  }

  // The lanes of `mask`, a byte each, and then zeros.
  static __m128i LanesOf(uint32_t mask) {
    return _mm_loadl_epi64(
        reinterpret_cast<const __m128i*>(&kLanesOfMasks.lanes[mask]));
  }
  // Writes the lanes of `mask` side by side to the list of `count`, and then
  // anything, eight in all; returns the new count.
  [[gnu::always_inline]] static size_t Append(uint32_t mask, __m256i at,
                                              __m256i keys, __m128i lanes,
                                              LaneList& list, size_t count) {
    const __m128i which = LanesOf(mask);
    const __m256i order = _mm256_cvtepu8_epi32(which);
    Store(_mm256_permutevar8x32_epi32(at, order), list.at + count);
    Store(_mm256_permutevar8x32_epi32(keys, order), list.key + count);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(list.lane + count),
                     _mm_shuffle_epi8(lanes, which));
    return count + Ones(mask);
  }

  // Lists those of eight lanes that have a way to go. Of those at a table,
  // at[i] is the index of the next entry.
  [[gnu::always_inline]] static void List(__m256i entries, __m256i keys,
                                          __m128i lanes, Lists& lists,
                                          LaneList& tables, Counts& counts) {
    static_assert(kTableEntry == 1 && kWideEntry == 2 && kNarrowEntry == 3);
    const uint32_t high = SignsOf(_mm256_slli_epi32(entries, 30 - kTypeShift));
    const uint32_t low = SignsOf(_mm256_slli_epi32(entries, 31 - kTypeShift));
    const __m256i node = _mm256_and_si256(
        _mm256_srli_epi32(entries, kPayloadShift - 6), Set(~uint32_t{63}));
    counts.wide =
        Append(high & ~low, node, keys, lanes, lists.wide, counts.wide);
    counts.narrow = Append(high & low, node, Shifted(keys, entries), lanes,
                           lists.narrow, counts.narrow);
    counts.table = Append(low & ~high, IndexOf(entries, keys), keys, lanes,
                          tables, counts.table);
  }

  // Takes the lanes of `tables` through one, and lists them anew.
  static void NextTable(const FibView& fib, Lists& lists, LaneList& tables,
                        Counts& counts, uint8_t* out) {
    const size_t n = counts.table;
    const uint32_t* const words = fib.words();
    for (size_t i = 0; i < n; ++i) {
      tables.at[i] = Word(words + tables.at[i]);
      PutPayload(tables.at[i], tables.lane[i], out);
    }
    // Past the end there are entries that lead nowhere.
    Store(_mm256_setzero_si256(), tables.at + n);
    counts.table = 0;
    for (size_t i = 0; i < n; i += 8) {
      List(LoadWords(tables.at + i), LoadWords(tables.key + i),
           _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables.lane + i)),
           lists, tables, counts);
    }
  }

  static void PutPayload(uint32_t entry, size_t lane, uint8_t* out) {
    const uint32_t value = PayloadOf(entry);
    __builtin_memcpy(out + lane * sizeof(value), &value, sizeof(value));
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
