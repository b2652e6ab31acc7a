// SPDX-License-Identifier: Apache-2.0

// Partitions: small linearized B+-trees of two levels, a line of separators and
// then up to 17 (wide) or 33 (narrow) leaves, shared by neighbouring slots.

#ifndef PLANB_LPM_FIB_PARTITION_H_
#define PLANB_LPM_FIB_PARTITION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/fib/block_pool.h"
#include "lpm/kernels/layout.h"

namespace planb {

// How many intervals fit, for one width of values (in bytes).
struct LeafShape {
  explicit LeafShape(int bytes_of_value);

  int value_bytes;
  // Of one leaf.
  uint32_t wide_intervals = 0, wide_values_at = 0;
  uint32_t narrow_intervals = 0, narrow_values_at = 0;
  uint32_t flag = 0;  // kDescriptorFlag

  // The `i`th of a leaf's values.
  uint32_t ReadValue(const char* values, uint32_t i) const;

  uint32_t max_wide() const { return (kWideSeparators + 1) * wide_intervals; }
  uint32_t max_narrow() const {
    return (kNarrowSeparators + 1) * narrow_intervals;
  }
};

// Where an entry goes: in the root, or in a table among the lines.
struct Position {
  bool in_root = false;
  uint32_t index = 0;
};

// Consecutive intervals of one slot: where each begins, and its value.
struct SlotIntervals {
  const uint32_t* keys;
  const uint32_t* values;
  uint32_t count;
};

// Packs the slots it is given, in ascending order of their keys, into as few
// partitions as they fit, and writes each slot's entry as soon as its partition
// is laid out: by Flush() at the latest. Marks the blocks of partitions in
// which a value names a descriptor. Thread-compatible.
class PartitionPacker {
 public:
  PartitionPacker(const LeafShape& shape, LinePool& lines, uint32_t* root)
      : shape_(shape), lines_(lines), root_(root) {}

  // REQUIRES: count <= max_wide(); keys above those of the slots given since
  // the last Flush().
  void AddWide(const SlotIntervals& slot, Position position);

  // REQUIRES: count <= max_narrow(); as above; the keys have no bit set below
  // `shift` and differ in none from bit shift + 16.
  void AddNarrow(const SlotIntervals& slot, Position position, int shift);

  // Slots given later share nothing with those given before.
  void Flush();

  void WriteEntry(Position position, uint32_t entry);

 private:
  // Slots waiting for their partition.
  struct Open {
    std::vector<uint32_t> keys, values;
    std::vector<Position> positions;
    int shift = 0;        // narrow only
    uint32_t window = 0;  // narrow only: what is above the 16 bits
  };

  static void Append(const SlotIntervals& slot, Position position, Open& open);
  void FlushWide();
  void FlushNarrow();
  void Point(Open& open, EntryType type, uint32_t first);
  template <typename Key>
  uint32_t Write(const Open& open, uint32_t leaf_intervals, uint32_t separators,
                 uint32_t values_at);

  const LeafShape& shape_;
  LinePool& lines_;
  uint32_t* const root_;
  Open wide_, narrow_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_PARTITION_H_
