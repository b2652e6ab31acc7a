// The search by AVX2: a node is two vectors of four keys.

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "benchmarks/rivals/paper_kernel.h"

#pragma GCC push_options
#pragma GCC target("avx2,popcnt")

namespace planb::paper {
namespace {

#include "benchmarks/rivals/paper_search.inc"

struct Avx2 {
  static int Rank(const TreeNode& node, int64_t key) {
    const __m256i wanted = _mm256_set1_epi64x(key);
    const auto* const keys = reinterpret_cast<const __m256i*>(node.keys);
    const int low = Below(wanted, _mm256_load_si256(keys));
    const int high = Below(wanted, _mm256_load_si256(keys + 1));
    return _mm_popcnt_u32(static_cast<unsigned>(low | high << 4));
  }

 private:
  static int Below(__m256i wanted, __m256i keys) {
    return _mm256_movemask_pd(
        _mm256_castsi256_pd(_mm256_cmpgt_epi64(wanted, keys)));
  }
};

}  // namespace
}  // namespace planb::paper

#pragma GCC pop_options

namespace planb::paper {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the
// wider registers.
bool RunsHere() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx2Kernel = {"avx2", RunsHere, Search<Avx2, 8>::Lookup,
                            Search<Avx2, 16>::Lookup, Search<Avx2, 32>::Lookup};

}  // namespace planb::paper
