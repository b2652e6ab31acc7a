// SPDX-License-Identifier: Apache-2.0

// The search by NEON, which every 64-bit Arm processor has: a node is four
// vectors.

#if defined(__aarch64__)

#include <arm_neon.h>
#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernels/kernel_table.h"

namespace planb {
namespace {

#include "lpm/kernels/nodes.inc"
#include "lpm/kernels/search.inc"
#include "lpm/kernels/walk_scalar.inc"

struct Neon : ScalarWalk<Neon> {
  // A key that is below subtracts -1. The last vector may reach into the
  // leaf's values: the first kKeys count.
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t WideBelow(const char* node, uint32_t key) {
    constexpr uint32_t kLanesOf[4] = {0, 1, 2, 3};
    const auto* const keys = reinterpret_cast<const uint32_t*>(node);
    const uint32x4_t wanted = vdupq_n_u32(key);
    uint32x4_t count = vdupq_n_u32(0);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kKeys; i += 4) {
      uint32x4_t below = vcltq_u32(vld1q_u32(keys + i), wanted);
      if (i + 4 > kKeys) {
        below = vandq_u32(
            below, vcltq_u32(vld1q_u32(kLanesOf), vdupq_n_u32(kKeys - i)));
      }
      count = vsubq_u32(count, below);
    }
    return kEach * vaddvq_u32(count);
  }
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t NarrowBelow(const char* node, uint32_t key) {
    constexpr uint16_t kLanesOf[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto* const keys = reinterpret_cast<const uint16_t*>(node);
    const uint16x8_t wanted = vdupq_n_u16(static_cast<uint16_t>(key));
    uint16x8_t count = vdupq_n_u16(0);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kKeys; i += 8) {
      uint16x8_t below = vcltq_u16(vld1q_u16(keys + i), wanted);
      if (i + 8 > kKeys) {
        below = vandq_u16(
            below, vcltq_u16(vld1q_u16(kLanesOf),
                             vdupq_n_u16(static_cast<uint16_t>(kKeys - i))));
      }
      count = vsubq_u16(count, below);
    }
    return kEach * vaddvq_u16(count);
  }
};

bool RunsHere() { return true; }

}  // namespace

const Kernel kNeonKernel = {"neon", RunsHere, LookupAny<Neon>,
                            LookupWithLengthsAny<Neon>, LookupUpperAny<Neon>};

}  // namespace planb

#endif  // defined(__aarch64__)
