// SPDX-License-Identifier: Apache-2.0

// Counts in packed next hops, as lookups write them.

#ifndef PLANB_LPM_KERNELS_ANSWERS_H_
#define PLANB_LPM_KERNELS_ANSWERS_H_

#include <cstddef>

namespace planb {

// How many of the `count` next hops (4 bytes each, in any order of bytes, not
// necessarily aligned) are kNoRoute. Reads just these; O(count), by vectors.
// Thread-safe.
size_t CountNoRoute(const void* next_hops, size_t count);

}  // namespace planb

#endif  // PLANB_LPM_KERNELS_ANSWERS_H_
