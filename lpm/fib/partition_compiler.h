// SPDX-License-Identifier: Apache-2.0

// From intervals to entries: decides for each slot of the root or of a table
// whether it is one value, a partition, or a table of smaller slots.
//
// A partition is a small linearized B+-tree of two levels: a line of separators
// and then up to 17 (wide) or 33 (narrow) leaves. Neighbouring slots share it.

#ifndef PLANB_LPM_FIB_PARTITION_COMPILER_H_
#define PLANB_LPM_FIB_PARTITION_COMPILER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lpm/fib/elementary_intervals.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/kernels/layout.h"

namespace planb {

// How many intervals fit into leaves, for one width of values (in bytes).
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
  // Of slots that share a partition: leaves a ninth of it for changes.
  uint32_t shared_wide() const { return max_wide() - max_wide() / 9; }
  uint32_t shared_narrow() const { return max_narrow() - max_narrow() / 9; }
};

// Where an entry goes: to `apart`, as in the root or in a descriptor; or, if
// that is null, to entry `index` of the lines.
struct Position {
  uint32_t* apart = nullptr;
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
  PartitionPacker(const LeafShape& shape, LinePool& lines)
      : shape_(shape), lines_(lines) {}

  // REQUIRES: count <= max_wide(); keys above those of the slots given since
  // the last Flush().
  void AddWide(const SlotIntervals& slot, Position position);

  // REQUIRES: count <= max_narrow(); as above; the keys have no bit set below
  // `shift` and differ in none from bit shift + 16.
  void AddNarrow(const SlotIntervals& slot, Position position, int shift);

  // Slots given later share nothing with those given before.
  void Flush();

  void WriteEntry(Position position, uint32_t entry) {
    if (position.apart != nullptr) {
      *position.apart = entry;
    } else {
      const uint32_t line = position.index / kLineWords;
      lines_.at(line)->words[position.index % kLineWords] = entry;
      if (log_ != nullptr) log_->push_back(line);
    }
  }
  // The same for entries of the lines.
  void WriteEntries(const std::vector<uint32_t>& indexes, uint32_t entry) {
    for (uint32_t last = ~uint32_t{0}; const uint32_t index : indexes) {
      const uint32_t line = index / kLineWords;
      lines_.at(line)->words[index % kLineWords] = entry;
      if (log_ != nullptr && line != last) log_->push_back(line);
      last = line;
    }
  }

  // From now on adds each line that WriteEntry writes to. Null: no more.
  void LogTo(std::vector<uint32_t>* log) { log_ = log; }

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
  Open wide_, narrow_;
  std::vector<uint32_t>* log_ = nullptr;
};

// The part of the walk's key that a slot leaves open: `width` bits below the
// ones it shares, which are those of `low`.
struct SlotRange {
  uint32_t low;
  int width;  // 0..32
};

// Thread-compatible. Entries are complete after Flush().
class SlotCompiler {
 public:
  // `tables_apart`: no slot of a table below the first shares a partition with
  // one beside that table. Then all that name a partition are in one table.
  SlotCompiler(const LeafShape& shape, LinePool& lines, bool tables_apart)
      : shape_(shape),
        lines_(lines),
        packer_(shape, lines),
        tables_apart_(tables_apart) {}

  // Compiles a slot below the first table, of intervals that begin with it, by
  // the last 32 bits of their starts. Slots of one key space must come in
  // ascending order; Flush() when another space begins.
  // `dense`: narrow partitions however few the intervals.
  template <typename Start>
  void Compile(const IntervalList<Start>& intervals, SlotRange range,
               Position position, bool dense = false) {
    CompileRun(Load(intervals), range, position, dense);
  }

  // Compiles slot `slot` of the root, whose entry is `entry`. Starts are bits
  // 0..47.
  void CompileRootSlot(const IntervalList<uint64_t>& intervals, uint32_t slot,
                       uint32_t& entry);

  // Compiles the slots from entry `begin` of a table to before `end`. The table
  // is at line `first_line`, and divides the slot of `width` bits at `low` of
  // the main walk into those of `below` bits. Starts are bits 0..47, of
  // intervals that begin with the first slot.
  void CompileSlots(const IntervalList<uint64_t>& intervals, uint64_t low,
                    int width, int below, uint32_t first_line, uint32_t begin,
                    uint32_t end) {
    FillSlots(intervals.starts.data(), Load(intervals), low, width, below,
              first_line, begin, end);
    packer_.Flush();
  }

  void Flush() { packer_.Flush(); }

  // Bytes of the lists of what it has compiled.
  size_t list_bytes() const {
    return (keys_.capacity() + values_.capacity()) * sizeof(uint32_t);
  }

  void WriteEntry(Position position, uint32_t entry) {
    packer_.WriteEntry(position, entry);
  }
  void WriteEntries(const std::vector<uint32_t>& indexes, uint32_t entry) {
    packer_.WriteEntries(indexes, entry);
  }
  void LogTo(std::vector<uint32_t>* log) { packer_.LogTo(log); }

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
  void FillSlots(const uint64_t* starts, Run run, uint64_t low, int width,
                 int below, uint32_t first_line, uint32_t begin, uint32_t end);
  template <typename Start, typename Child>
  void FillTable(const Start* starts, Run run, Start low, int below,
                 uint32_t first_line, uint32_t first_slot, uint32_t end,
                 Child child);

  const LeafShape& shape_;
  LinePool& lines_;
  PartitionPacker packer_;
  const bool tables_apart_;
  std::vector<uint32_t> keys_, values_;
};

// What changes in a run of intervals: the addresses from `low` to `last` have
// the intervals `by`, the first of which begins at `low`. All in one key space,
// in which a descriptor's interval ends where the slot that it is in ends, or
// where the next interval begins.
struct IntervalChange {
  uint32_t low, last;
  const IntervalList<uint32_t>& by;
};

// Makes `to` what `from`, which ends at `end`, is after `change`. Neighbours of
// one value are merged. Adds the values with `flag` that are no longer named to
// `dropped`.
void Splice(const IntervalList<uint32_t>& from, uint32_t end,
            const IntervalChange& change, uint32_t flag,
            IntervalList<uint32_t>& to, std::vector<uint32_t>& dropped);

// Changes a partition in a copy of it, leaf by leaf. Thread-compatible.
class PartitionEditor {
 public:
  PartitionEditor(const LeafShape& shape, LinePool& lines)
      : shape_(shape), lines_(lines) {}

  // One slot of a partition.
  struct Slot {
    uint32_t low, last;
    bool only;  // no other slot names the partition
  };
  struct Result {
    // The slot has one value, as was easily seen.
    bool one_value = false;
    uint32_t value = 0;
    // The first line of the copy, a block without slots. There is none if the
    // only slot has one value.
    uint32_t first = 0;
  };

  // Copies the partition at `first`, with a change within `slot`; all is in the
  // partition's terms. nullopt if that takes more leaves than a partition may
  // have. Adds to `dropped` as Splice does.
  // O(bytes of the partition, which are 2,176 at most + intervals).
  std::optional<Result> Copy(uint32_t first, bool narrow,
                             const IntervalChange& change, const Slot& slot,
                             std::vector<uint32_t>& dropped);

  // An interval, the `index`th of those that there is room for; in the
  // partition's terms.
  struct Found {
    uint32_t index;
    uint32_t start, last;
    uint32_t value;
  };
  // Makes `found` the intervals of the partition at `first` that have `value`,
  // or `flag` in their value, ascending. O(bytes of the partition).
  void Find(uint32_t first, bool narrow, uint32_t value, uint32_t flag,
            std::vector<Found>& found) const;
  // Copies the partition at `first`; the intervals `changed` have `value` in
  // the copy. Returns its first line, a block without slots.
  uint32_t CopyWith(uint32_t first, bool narrow,
                    const std::vector<uint32_t>& changed, uint32_t value);

 private:
  template <typename Key, typename V>
  std::optional<Result> CopyOf(uint32_t first, const IntervalChange& change,
                               const Slot& slot,
                               std::vector<uint32_t>& dropped);
  template <typename Visit>
  auto WithForm(bool narrow, const Visit& visit) const;

  const LeafShape& shape_;
  LinePool& lines_;
  IntervalList<uint32_t> old_, new_;  // of the leaves that change
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_PARTITION_COMPILER_H_
