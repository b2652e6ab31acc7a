// Sixteen addresses a step: a gather from the table, one from the blocks where
// an address needs it, and one from the next hops.

#include <immintrin.h>

#include "benchmarks/rivals/dir24_search.h"

// GCC 12 takes the undefined value inside its own intrinsics for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")

namespace planb::dir24 {
namespace {

constexpr size_t kLanes = 16;

// Reverses the octets of each of sixteen numbers.
__m512i Swapped(__m512i value) {
  return _mm512_shuffle_epi8(
      value, _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11,
                                                  10, 9, 8, 15, 14, 13, 12)));
}

// The entries at `index` in `entries`, for the lanes of `mask`; the others are
// as in `otherwise`.
template <typename Entry>
__m512i Gathered(__m512i otherwise, __mmask16 mask, __m512i index,
                 const Entry* entries) {
  const __m512i read = _mm512_mask_i32gather_epi32(otherwise, mask, index,
                                                   entries, sizeof(Entry));
  if constexpr (sizeof(Entry) == 4) return read;
  return _mm512_and_si512(read, _mm512_set1_epi32(0xffff));
}

template <typename Entry>
__m512i NextHops(const View<Entry>& view, __m512i wire, __mmask16 lanes) {
  const __m512i address = Swapped(wire);
  const __m512i is_block =
      _mm512_set1_epi32(static_cast<int32_t>(kIsBlock<Entry>));
  __m512i entry = Gathered(_mm512_setzero_si512(), lanes,
                           _mm512_srli_epi32(address, 8), view.table);
  const __mmask16 more = _mm512_test_epi32_mask(entry, is_block);
  if (more != 0) {
    const __m512i block = _mm512_andnot_si512(is_block, entry);
    const __m512i index =
        _mm512_or_si512(_mm512_slli_epi32(block, 8),
                        _mm512_and_si512(address, _mm512_set1_epi32(0xff)));
    entry = Gathered(entry, more, index, view.blocks);
  }
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, entry,
                                     view.next_hops, 4);
}

}  // namespace

template <typename Entry>
void LookupAvx512(const View<Entry>& view, const void* addresses, size_t count,
                  void* next_hops) {
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
#pragma GCC unroll 4
  for (; count >= kLanes; count -= kLanes) {
    _mm512_storeu_si512(
        out, NextHops(view, _mm512_loadu_si512(in), __mmask16{0xffff}));
    in += 4 * kLanes;
    out += 4 * kLanes;
  }
  if (count > 0) {
    const auto lanes = static_cast<__mmask16>((1U << count) - 1);
    _mm512_mask_storeu_epi32(
        out, lanes, NextHops(view, _mm512_maskz_loadu_epi32(lanes, in), lanes));
  }
}

template void LookupAvx512(const View<uint16_t>&, const void*, size_t, void*);
template void LookupAvx512(const View<uint32_t>&, const void*, size_t, void*);

}  // namespace planb::dir24

#pragma GCC pop_options

namespace planb::dir24 {

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw");
}

}  // namespace planb::dir24
