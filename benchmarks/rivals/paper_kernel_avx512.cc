// The search by AVX-512: a node is one vector, a rank one compare and one
// popcount (PlanB paper, Listing 1).

#include <endian.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "benchmarks/rivals/paper_kernel.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,popcnt")

namespace planb::paper {
namespace {

#include "benchmarks/rivals/paper_search.inc"

struct Avx512 {
  static int Rank(const TreeNode& node, int64_t key) {
    const __mmask8 below = _mm512_cmpgt_epi64_mask(
        _mm512_set1_epi64(key), _mm512_load_si512(node.keys));
    return _mm_popcnt_u32(below);
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
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
}

}  // namespace

const Kernel kAvx512Kernel = {"avx512", RunsHere, Search<Avx512, 8>::Lookup,
                              Search<Avx512, 16>::Lookup,
                              Search<Avx512, 32>::Lookup};

}  // namespace planb::paper
