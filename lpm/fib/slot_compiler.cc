// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/slot_compiler.h"

#include <algorithm>
#include <cassert>

namespace planb {
namespace {

constexpr int kMinTableBits = 4;  // a line

// The cost model, in cycles of a lookup, where every interval is looked up
// equally often: what it costs that an interval is found in a partition rather
// than in a table, that its slot needs a further table, and that a line of a
// table takes its place in the cache. Measured on Zen 4; the choice moves
// little when they are off by half.
constexpr uint64_t kPartitionCost = 6;
constexpr uint64_t kTableStepCost = 6;
constexpr uint64_t kLineCost = 20;

// Fewer intervals than these are left to wide partitions, which slots of all
// widths share, unless the slot is one of few bits.
constexpr uint32_t kMinNarrow = 24;

}  // namespace

void SlotCompiler::CompileRun(Run run, SlotRange range, Position position,
                              bool dense) {
  if (run.count == 1) {
    packer_.WriteEntry(position, MakeEntry(kValueEntry, run.values[0]));
    return;
  }
  const SlotIntervals slot = {run.keys, run.values, run.count};
  const int shift = std::max(range.width - 16, 0);
  if (FitsNarrow(run, shift, dense)) {
    packer_.AddNarrow(slot, position, shift);
    return;
  }
  if (run.count <= shape_.max_wide()) {
    packer_.AddWide(slot, position);
    return;
  }
  const int bits = TableBits(run.keys, run.count, range.width);
  const int below = range.width - bits;
  const uint32_t first = lines_.Allocate(1u << (bits - kMinTableBits));
  // Slots of up to 16 bits are worth narrow partitions however few their
  // intervals: many of them share one.
  FillTable(run.keys, run, range.low, range.width, bits, first,
            [&](const Run& child, uint32_t low, Position at) {
              CompileRun(child, {low, below}, at, range.width <= 16);
            });
  packer_.WriteEntry(
      position,
      MakeEntry(kTableEntry, first - (range.low >> below) / kLineWords, below));
}

void SlotCompiler::CompileRootSlot(const IntervalList<uint64_t>& intervals,
                                   uint32_t slot) {
  const Position position = {.in_root = true, .index = slot};
  const Run run = Load(intervals);
  const uint64_t* const starts = intervals.starts.data();
  if (run.count == 1) {
    packer_.WriteEntry(position, MakeEntry(kValueEntry, run.values[0]));
    return;
  }
  constexpr int kWidth = kMainBits - kRootBits;
  const int bits = TableBits(starts, run.count, kWidth);
  const int below = kWidth - bits;
  const uint32_t first = lines_.Allocate(1u << (bits - kMinTableBits));
  uint64_t key_space = 0;
  FillTable(starts, run, uint64_t{slot} << kWidth, kWidth, bits, first,
            [&](const Run& child, uint64_t low, Position at) {
              // Bits 16..47 are a key within one /16.
              if (low >> 32 != key_space) packer_.Flush();
              key_space = low >> 32;
              CompileRun(child, {static_cast<uint32_t>(low), below}, at,
                         /*dense=*/false);
            });
  // The first table goes by bits 0..31, 16 above those of the other keys.
  packer_.WriteEntry(
      position,
      MakeEntry(kTableEntry, first - (slot << bits) / kLineWords, below - 16));
  packer_.Flush();
}

bool SlotCompiler::FitsNarrow(const Run& run, int shift, bool dense) const {
  if (run.count > shape_.max_narrow()) return false;
  if (!dense && run.count < kMinNarrow) return false;
  uint32_t bits = 0;
  for (uint32_t i = 0; i < run.count; ++i) bits |= run.keys[i];
  return (bits & ((uint64_t{1} << shift) - 1)) == 0;
}

// The number of bits that costs least.
template <typename Start>
int SlotCompiler::TableBits(const Start* starts, uint32_t count,
                            int width) const {
  int bits = kMinTableBits;
  const int most = std::min(width, kMaxTableBits);
  while (bits < most && (uint64_t{64} << bits) < count) ++bits;
  const int last = std::min(bits + 7, most);
  uint64_t least = TableCost(starts, count, width, bits);
  for (int more = bits + 1; more <= last; ++more) {
    const uint64_t cost = TableCost(starts, count, width, more);
    if (cost < least) {
      least = cost;
      bits = more;
    }
  }
  return bits;
}

template <typename Start>
uint64_t SlotCompiler::TableCost(const Start* starts, uint32_t count, int width,
                                 int bits) const {
  const int below = width - bits;
  uint64_t cost = kLineCost << (bits - kMinTableBits);
  for (uint32_t i = 0; i < count;) {
    const Start slot = starts[i] >> below;
    uint32_t end = i + 1;
    while (end < count && starts[end] >> below == slot) ++end;
    const uint32_t inside = end - i;
    // As FillTable has it: the interval from before may reach into the slot.
    const uint32_t before = starts[i] == slot << below ? 0 : 1;
    if (inside + before > 1) cost += kPartitionCost * inside;
    if (inside + before > shape_.max_wide()) cost += kTableStepCost * inside;
    i = end;
  }
  return cost;
}

// Cuts the run at the slots of a table and has `child` compile each.
template <typename Start, typename Child>
void SlotCompiler::FillTable(const Start* starts, Run run, Start low, int width,
                             int bits, uint32_t first_line, Child child) {
  const int below = width - bits;
  uint32_t value = run.values[0];  // in force where the slot begins
  uint32_t next = 0;               // interval
  for (uint32_t slot = 0; slot < 1u << bits; ++slot) {
    const Start begin = low + (Start{slot} << below);
    const Position position = {.index = first_line * kLineWords + slot};
    const uint32_t from = next;
    while (next < run.count && (starts[next] - low) >> below == slot) ++next;
    // The slot of a descriptor ends within the slot that it begins in: the
    // value of one is in one place, with which the descriptor goes.
    assert((next > from && starts[from] == begin) ||
           (value & shape_.flag) == 0);
    if (next == from) {
      packer_.WriteEntry(position, MakeEntry(kValueEntry, value));
      continue;
    }
    const uint32_t last_value = run.values[next - 1];
    Run part = {run.keys + from, run.values + from, next - from};
    if (starts[from] != begin) {
      // The interval from before reaches into this slot. What came before is
      // compiled, so its place in the list is free.
      part = {part.keys - 1, part.values - 1, part.count + 1};
      part.keys[0] = static_cast<uint32_t>(begin);
      part.values[0] = value;
    }
    child(part, begin, position);
    value = last_value;
  }
}

}  // namespace planb
