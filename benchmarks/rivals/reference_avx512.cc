#include <endian.h>
#include <immintrin.h>

#include "benchmarks/rivals/reference_search.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,popcnt")

namespace planb::reference {
namespace {

#include "benchmarks/rivals/reference_search.inc"

struct Avx512 {
  static uint64_t Rank(const uint64_t* node, uint64_t key) {
    const __mmask8 below = _mm512_cmpgt_epu64_mask(
        _mm512_set1_epi64(static_cast<int64_t>(key)), _mm512_load_si512(node));
    return static_cast<uint64_t>(_mm_popcnt_u64(below));
  }
};

}  // namespace

void LookupAvx512(const View& tree, const void* addresses, size_t count,
                  void* next_hops) {
  Search<Avx512>::Lookup(tree, addresses, count, next_hops);
}

}  // namespace planb::reference

#pragma GCC pop_options

namespace planb::reference {

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
}

}  // namespace planb::reference
