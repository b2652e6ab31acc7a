// SPDX-License-Identifier: Apache-2.0

// Goes through the slots of a table: for who visits a whole FIB rather than
// looks an address up.

#ifndef PLANB_LPM_KERNELS_TABLE_WALK_H_
#define PLANB_LPM_KERNELS_TABLE_WALK_H_

#include <cstdint>

#include "lpm/kernels/layout.h"

namespace planb {

// Calls `visit(entry, key, width)` for each slot of the table that `entry`
// leads to, in ascending order. `key` is the first of a slot, in the terms of
// the walk there, and `width` the number of bits it leaves open.
// REQUIRES: `entry` is a table's, of a slot with this key and width.
template <typename Visit>
void ForEachSlot(const Line* lines, uint32_t entry, uint32_t key, int width,
                 Visit visit) {
  const int shift = ShiftOf(entry);
  const uint32_t first = TableIndex(entry, key);
  for (uint32_t i = 0; i < 1u << (width - shift); ++i) {
    const uint32_t at = first + i;
    visit(lines[at / kLineWords].words[at % kLineWords], key + (i << shift),
          shift);
  }
}

// The same for the table below slot `slot` of the root. It goes by bits 0..31
// of the address; what is below it, and so what `visit` is told, by 16..47.
template <typename Visit>
void ForEachSlotBelowRoot(const Line* lines, uint32_t entry, uint32_t slot,
                          Visit visit) {
  ForEachSlot(lines, entry, slot << (32 - kRootBits), 32 - kRootBits,
              [&](uint32_t child, uint32_t key, int width) {
                visit(child, key << 16, width + 16);
              });
}

}  // namespace planb

#endif  // PLANB_LPM_KERNELS_TABLE_WALK_H_
