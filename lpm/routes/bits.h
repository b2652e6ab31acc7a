// SPDX-License-Identifier: Apache-2.0

// Bits of left-aligned addresses, counted from the first.

#ifndef PLANB_LPM_ROUTES_BITS_H_
#define PLANB_LPM_ROUTES_BITS_H_

#include <cstdint>

#include "absl/numeric/bits.h"
#include "absl/numeric/int128.h"

namespace planb {

// How many first bits two addresses share: 0..128.
inline int CommonBits(absl::uint128 a, absl::uint128 b) {
  const absl::uint128 differ = a ^ b;
  const uint64_t high = absl::Uint128High64(differ);
  return high != 0 ? absl::countl_zero(high)
                   : 64 + absl::countl_zero(absl::Uint128Low64(differ));
}

// Bits 0..47: what the main walk of a FIB decides on.
inline uint64_t MainBits(absl::uint128 bits) {
  return absl::Uint128High64(bits) >> 16;
}

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_BITS_H_
