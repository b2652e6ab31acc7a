// SPDX-License-Identifier: Apache-2.0

// The search for each instruction set. The templates of paper.inc are included
// for each of them anew, after a #pragma that lets the compiler use it.

#include <endian.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/rivals/paper_tree.h"

namespace planb::paper {
namespace {

// In portable C++, for any 64-bit machine.
namespace scalar {

#include "benchmarks/rivals/paper.inc"

struct Scalar {
  // The sum of the comparisons: no branch, and compilers vectorize it as far
  // as the baseline instruction set allows.
  static int Rank(const TreeNode& node, int64_t key) {
    int rank = 0;
    for (int64_t bound : node.keys) rank += key > bound ? 1 : 0;
    return rank;
  }
};

bool RunsHere() { return true; }

}  // namespace scalar

// Always sixteen together: more does not help without vectors, and
// keeps the compiler busy for minutes.
const Kernel kScalarKernel = {"scalar", scalar::RunsHere,
                              scalar::Search<scalar::Scalar, 16>::Lookup,
                              scalar::Search<scalar::Scalar, 16>::Lookup,
                              scalar::Search<scalar::Scalar, 16>::Lookup};

}  // namespace
}  // namespace planb::paper

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")

namespace planb::paper {
namespace {

// A node is two vectors of four keys.
namespace avx2 {

#include "benchmarks/rivals/paper.inc"

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

}  // namespace avx2
}  // namespace
}  // namespace planb::paper

#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,popcnt")

namespace planb::paper {
namespace {

// A node is one vector, a rank one compare and one popcount (PlanB paper,
// Listing 1).
namespace avx512 {

#include "benchmarks/rivals/paper.inc"

struct Avx512 {
  static int Rank(const TreeNode& node, int64_t key) {
    const __mmask8 below = _mm512_cmpgt_epi64_mask(
        _mm512_set1_epi64(key), _mm512_load_si512(node.keys));
    return _mm_popcnt_u32(below);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace planb::paper

#pragma GCC pop_options
#endif

namespace planb::paper {
namespace {

#if defined(__x86_64__)
namespace avx2 {
// __builtin_cpu_supports also asks whether the operating system saves the
// wider registers.
bool RunsHere() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}
}  // namespace avx2

namespace avx512 {
bool RunsHere() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
}
}  // namespace avx512

const Kernel kAvx2Kernel = {
    "avx2", avx2::RunsHere, avx2::Search<avx2::Avx2, 8>::Lookup,
    avx2::Search<avx2::Avx2, 16>::Lookup, avx2::Search<avx2::Avx2, 32>::Lookup};

const Kernel kAvx512Kernel = {"avx512", avx512::RunsHere,
                              avx512::Search<avx512::Avx512, 8>::Lookup,
                              avx512::Search<avx512::Avx512, 16>::Lookup,
                              avx512::Search<avx512::Avx512, 32>::Lookup};
#endif

const std::vector<const Kernel*>& RunnableKernels() {
  static const auto* const kernels = [] {
    auto* found = new std::vector<const Kernel*>;
    for (const Kernel* kernel : {
#if defined(__x86_64__)
           &kAvx512Kernel, &kAvx2Kernel,
#endif
               &kScalarKernel
         }) {
      if (kernel->runs_here()) found->push_back(kernel);
    }
    return found;
  }();
  return *kernels;
}

}  // namespace

absl::Span<const Kernel* const> AvailableKernels() { return RunnableKernels(); }

const Kernel* FindKernel(absl::string_view name) {
  for (const Kernel* kernel : RunnableKernels()) {
    if (name == "auto" || name == kernel->name) return kernel;
  }
  return nullptr;
}

LookupFunction LookupOf(const Kernel& kernel, int lanes) {
  switch (lanes) {
    case 8:
      return kernel.lookup8;
    case 16:
      return kernel.lookup16;
    case 32:
      return kernel.lookup32;
    default:
      return nullptr;
  }
}

}  // namespace planb::paper
