// SPDX-License-Identifier: Apache-2.0

// From intervals to entries: decides for each slot of the root or of a table
// whether it is one value, a partition, or a table of smaller slots.

#ifndef PLANB_LPM_FIB_SLOT_COMPILER_H_
#define PLANB_LPM_FIB_SLOT_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/fib/block_pool.h"
#include "lpm/fib/interval_list.h"
#include "lpm/fib/partition.h"
#include "lpm/kernels/layout.h"

namespace planb {

// The part of the walk's key that a slot leaves open: `width` bits below the
// ones it shares, which are those of `low`.
struct SlotRange {
  uint32_t low;
  int width;  // 0..32
};

// Thread-compatible. Entries are complete after Flush().
class SlotCompiler {
 public:
  SlotCompiler(const LeafShape& shape, LinePool& lines, uint32_t* root)
      : shape_(shape), lines_(lines), packer_(shape, lines, root) {}

  // Compiles a slot below the first table, of intervals that begin with it, by
  // the last 32 bits of their starts. Slots of one key space must come in
  // ascending order; Flush() when another space begins.
  template <typename Start>
  void Compile(const IntervalList<Start>& intervals, SlotRange range,
               Position position) {
    CompileRun(Load(intervals), range, position, /*dense=*/false);
  }

  // Compiles slot `slot` of the root. Starts are bits 0..47.
  void CompileRootSlot(const IntervalList<uint64_t>& intervals, uint32_t slot);

  void Flush() { packer_.Flush(); }

  void WriteEntry(Position position, uint32_t entry) {
    packer_.WriteEntry(position, entry);
  }

 private:
  // A run of what is being compiled, which overwrites it.
  struct Run {
    uint32_t* keys;
    uint32_t* values;
    uint32_t count;
  };

  template <typename Start>
  Run Load(const IntervalList<Start>& intervals) {
    keys_.clear();
    for (Start start : intervals.starts) {
      keys_.push_back(static_cast<uint32_t>(start));
    }
    values_ = intervals.values;
    return {keys_.data(), values_.data(), static_cast<uint32_t>(keys_.size())};
  }

  void CompileRun(Run run, SlotRange range, Position position, bool dense);
  bool FitsNarrow(const Run& run, int shift, bool dense) const;
  template <typename Start>
  int TableBits(const Start* starts, uint32_t count, int width) const;
  template <typename Start>
  uint64_t TableCost(const Start* starts, uint32_t count, int width,
                     int bits) const;
  template <typename Start, typename Child>
  void FillTable(const Start* starts, Run run, Start low, int width, int bits,
                 uint32_t first_line, Child child);

  const LeafShape& shape_;
  LinePool& lines_;
  PartitionPacker packer_;
  std::vector<uint32_t> keys_, values_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_SLOT_COMPILER_H_
