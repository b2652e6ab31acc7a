// From intervals to entries: decides for each slot of the root or of a table
// whether it is one value, a partition, or a table of smaller slots.

#ifndef PLANB_LPM_SLOT_COMPILER_H_
#define PLANB_LPM_SLOT_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/block_pool.h"
#include "lpm/layout.h"
#include "lpm/partition.h"

namespace planb {

// The part of the walk's key that a slot leaves open: `width` bits below the
// ones it shares, which are those of `low`.
struct SlotRange {
  uint32_t low;
  int width;  // 0..32
};

// Intervals of a slot while it is compiled. The first begins with the slot.
// Neighbours have different values. Compiling overwrites them.
struct IntervalList {
  std::vector<uint32_t> keys;
  std::vector<uint32_t> values;

  void Clear() {
    keys.clear();
    values.clear();
  }
  void Add(uint32_t key, uint32_t value) {
    keys.push_back(key);
    values.push_back(value);
  }
  size_t size() const { return keys.size(); }
};

// Thread-compatible. Entries are complete after Flush().
class SlotCompiler {
 public:
  SlotCompiler(const LeafShape& shape, LinePool& lines, uint32_t* root)
      : shape_(shape), lines_(lines), packer_(shape, lines, root) {}

  // Compiles a slot below the first table. Slots of one key space must come in
  // ascending order; Flush() when another space begins.
  void Compile(IntervalList& intervals, SlotRange range, Position position);

  // Compiles slot `slot` of the root. `starts` are bits 0..47 of where each
  // interval begins; `intervals.keys` their last 32 bits.
  void CompileRootSlot(const std::vector<uint64_t>& starts,
                       IntervalList& intervals, uint32_t slot);

  void Flush() { packer_.Flush(); }

  void WriteEntry(Position position, uint32_t entry) {
    packer_.WriteEntry(position, entry);
  }

 private:
  // A run of the list being compiled.
  struct Run {
    uint32_t* keys;
    uint32_t* values;
    uint32_t count;
  };

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
};

}  // namespace planb

#endif  // PLANB_LPM_SLOT_COMPILER_H_
