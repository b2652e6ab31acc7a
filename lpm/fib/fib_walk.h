// SPDX-License-Identifier: Apache-2.0

// Visits all that hangs on an entry of a FIB: slots, tables and partitions, in
// the order of addresses. For statistics and for what an update leaves unused;
// not for the lookup path.

#ifndef PLANB_LPM_FIB_FIB_WALK_H_
#define PLANB_LPM_FIB_FIB_WALK_H_

#include <cstdint>
#include <cstring>

#include "lpm/fib/partition_compiler.h"
#include "lpm/kernels/layout.h"

namespace planb {

// The first line of the table that `entry` sends `first_key` to.
inline uint32_t TableLine(uint32_t entry, uint32_t first_key) {
  return TableIndex(entry, first_key) / kLineWords;
}

// Visits what `entry` leads to. `key` is the first of its slot, in the terms of
// the walk there, and `width` the number of bits that the slot leaves open.
//
// `visitor` provides
//   void Value(uint32_t value);         // may name a descriptor
//   void Partition(uint32_t entry, uint32_t key, int width);
//   void EnterTable(uint32_t entries);  // its slots follow, then
//   void LeaveTable(uint32_t first_line);
template <typename Visitor>
void WalkEntry(const Line* lines, uint32_t entry, uint32_t key, int width,
               Visitor& visitor);

// Visits a table. Its slots are those of the walk below when their keys move up
// by `up` bits. REQUIRES: `entry` is a table's.
template <typename Visitor>
void WalkTable(const Line* lines, uint32_t entry, uint32_t key, int width,
               int up, Visitor& visitor) {
  const int below = ShiftOf(entry);
  const uint32_t entries = 1u << (width - below);
  const uint32_t first = TableIndex(entry, key);
  visitor.EnterTable(entries);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t at = first + i;
    WalkEntry(lines, lines[at / kLineWords].words[at % kLineWords],
              (key + (i << below)) << up, below + up, visitor);
  }
  visitor.LeaveTable(first / kLineWords);
}

template <typename Visitor>
void WalkEntry(const Line* lines, uint32_t entry, uint32_t key, int width,
               Visitor& visitor) {
  switch (TypeOf(entry)) {
    case kValueEntry:
      return visitor.Value(PayloadOf(entry));
    case kTableEntry:
      return WalkTable(lines, entry, key, width, /*up=*/0, visitor);
    case kWideEntry:
    case kNarrowEntry:
      return visitor.Partition(entry, key, width);
  }
}

// The same for the entry of slot `slot` of the root: a value or a table. The
// table goes by bits 0..31 of the address, what is below it by 16..47.
template <typename Visitor>
void WalkRootEntry(const Line* lines, uint32_t entry, uint32_t slot,
                   Visitor& visitor) {
  constexpr int kWidth = 32 - kRootBits;
  if (TypeOf(entry) != kTableEntry) return visitor.Value(PayloadOf(entry));
  WalkTable(lines, entry, slot << kWidth, kWidth, /*up=*/16, visitor);
}

// Calls `visit(start, value)` for each interval of a partition at `node`, in
// ascending order of `start`, which is in the terms of the partition; its
// keys have the type `Key`. Returns the number of leaves.
template <typename Key, typename Visit>
uint32_t ForEachIntervalAt(const Line* node, const LeafShape& shape,
                           Visit visit) {
  constexpr bool kWide = sizeof(Key) == 4;
  constexpr Key kPadding = static_cast<Key>(~Key{0});
  constexpr uint32_t kSeparators = kWide ? kWideSeparators : kNarrowSeparators;
  const uint32_t in_leaf =
      kWide ? shape.wide_intervals : shape.narrow_intervals;
  const uint32_t values_at =
      kWide ? shape.wide_values_at : shape.narrow_values_at;
  const auto key_at = [](const Line* line, uint32_t i) {
    Key key;
    std::memcpy(&key,
                reinterpret_cast<const char*>(line->words) + i * sizeof(Key),
                sizeof(Key));
    return key;
  };
  uint32_t leaf = 0;
  do {
    const Line* const from = node + 1 + leaf;
    const char* const values =
        reinterpret_cast<const char*>(from->words) + values_at;
    for (uint32_t i = 0; i < in_leaf; ++i) {
      // Keys are starts minus one. The first start of all is 0.
      const Key before = i > 0      ? key_at(from, i - 1)
                         : leaf > 0 ? key_at(node, leaf - 1)
                                    : kPadding;
      if (i > 0 && before == kPadding) break;
      visit(uint32_t{static_cast<Key>(before + 1)}, shape.ReadValue(values, i));
    }
    ++leaf;
  } while (leaf <= kSeparators && key_at(node, leaf - 1) != kPadding);
  return leaf;
}

// The same for the partition that `entry` names.
template <typename Visit>
uint32_t ForEachInterval(const Line* lines, uint32_t entry,
                         const LeafShape& shape, Visit visit) {
  const Line* const node = lines + PayloadOf(entry);
  return TypeOf(entry) == kWideEntry
             ? ForEachIntervalAt<uint32_t>(node, shape, visit)
             : ForEachIntervalAt<uint16_t>(node, shape, visit);
}

// The value that the walk by `key` comes to from `entry`.
inline uint32_t ValueAt(const Line* lines, const LeafShape& shape,
                        uint32_t entry, uint32_t key) {
  while (TypeOf(entry) == kTableEntry) {
    const uint32_t at = TableIndex(entry, key);
    entry = lines[at / kLineWords].words[at % kLineWords];
  }
  uint32_t found = PayloadOf(entry);
  if (TypeOf(entry) == kValueEntry) return found;
  if (TypeOf(entry) == kNarrowEntry) key = key >> ShiftOf(entry) & 0xffff;
  ForEachInterval(lines, entry, shape, [&](uint32_t start, uint32_t value) {
    if (start <= key) found = value;
  });
  return found;
}

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_WALK_H_
