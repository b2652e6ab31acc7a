// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_updater.h"

#include <algorithm>
#include <cstring>

#include "lpm/kernels/table_walk.h"
#include "lpm/routes/bits.h"

namespace planb {
namespace {

constexpr int kBelowRoot = kMainBits - kRootBits;

// The changes at the beginning of the list that lie in `slot`.
size_t CountIn(absl::Span<const Prefix> changed, const MainSlot& slot) {
  size_t count = 0;
  while (count < changed.size() &&
         MainBits(changed[count].first()) <= slot.last()) {
    ++count;
  }
  return count;
}

// The first line of the table that `entry` sends `first_key` to.
uint32_t TableLine(uint32_t entry, uint32_t first_key) {
  return TableIndex(entry, first_key) / kLineWords;
}

// What a slot of the main walk is called in its table's key: bits 0..31 in the
// first table, 16..47 further down.
uint32_t KeyOf(const MainSlot& slot) {
  return static_cast<uint32_t>(slot.width == kBelowRoot ? slot.low >> 16
                                                        : slot.low);
}

// How many slots of `length` bits the changes lie in or cover, about.
uint64_t SlotsTouched(absl::Span<const Prefix> changed, int length) {
  uint64_t slots = 0;
  for (const Prefix& prefix : changed) {
    slots += uint64_t{1} << std::max(length - prefix.length(), 0);
  }
  return slots;
}

}  // namespace

void TableUpdater::Update(const RouteSet& routes, Changes changed) {
  while (!changed.empty() && !table_.failed()) {
    const auto index =
        static_cast<uint32_t>(MainBits(changed[0].first()) >> kBelowRoot);
    const MainSlot slot = {uint64_t{index} << kBelowRoot, kBelowRoot};
    const size_t count = CountIn(changed, slot);
    UpdateSlot(routes, changed.first(count), table_.root().entries[index], slot,
               {.in_root = true, .index = index});
    changed.remove_prefix(count);
  }
}

// Goes down where the changes touch few slots of the table there; otherwise
// compiles the slot anew.
void TableUpdater::UpdateSlot(const RouteSet& routes, Changes changed,
                              uint32_t entry, const MainSlot& slot,
                              Position position) {
  const bool first_table = slot.width == kBelowRoot;
  const int below = ShiftOf(entry) + (first_table ? 16 : 0);
  const int length = kMainBits - below;
  const bool all = std::any_of(
      changed.begin(), changed.end(),
      [&](const Prefix& prefix) { return prefix.length() < slot.length(); });
  if (all || TypeOf(entry) != kTableEntry ||
      SlotsTouched(changed, length) > (1u << (slot.width - below)) / 4) {
    table_.CompileSlot(routes, slot, position);
    if (table_.failed()) return;  // nothing to walk is left
    if (first_table) {
      RetireRootEntry(entry, position.index);
    } else {
      RetireEntry(entry, KeyOf(slot), slot.width);
    }
    return;
  }
  const uint32_t table =
      CopyTable(entry, KeyOf(slot), slot.width - below, position);
  while (!changed.empty() && !table_.failed()) {
    // The slots of the first change, and all changes in them.
    const uint64_t first = (MainBits(changed[0].first()) - slot.low) >> below;
    const uint64_t slots = SlotsTouched(changed.first(1), length);
    const bool covers = changed[0].length() < length;
    for (uint64_t index = first; index < first + slots && !table_.failed();
         ++index) {
      const MainSlot child = {slot.low + (index << below), below};
      const size_t count = CountIn(changed, child);
      const Position at = {.index = table + static_cast<uint32_t>(index)};
      // The one that covers the slot stays until the last.
      UpdateSlot(routes, covers ? changed.first(1) : changed.first(count),
                 table_.lines()
                     .at(at.index / kLineWords)
                     ->words[at.index % kLineWords],
                 child, at);
      if (!covers || index + 1 == first + slots) changed.remove_prefix(count);
    }
  }
}

// Copies a table of 2^bits entries for `position` to point to, and returns its
// first entry.
uint32_t TableUpdater::CopyTable(uint32_t entry, uint32_t first_key, int bits,
                                 Position position) {
  LinePool& lines = table_.lines();
  const uint32_t from = TableLine(entry, first_key);
  const uint32_t size = (1u << bits) / kLineWords;
  const uint32_t to = lines.Allocate(size);
  if (table_.failed()) return 0;
  std::memcpy(lines.at(to), lines.at(from), size * sizeof(Line));
  table_.WriteEntry(
      position,
      MakeEntry(kTableEntry, PayloadOf(entry) + to - from, ShiftOf(entry)));
  garbage_.lines.push_back(from);
  return to * kLineWords;
}

void TableUpdater::RetireRootEntry(uint32_t entry, uint32_t slot) {
  if (TypeOf(entry) != kTableEntry) return RetireValue(PayloadOf(entry));
  ForEachSlotBelowRoot(table_.lines().at(0), entry, slot,
                       [this](uint32_t child, uint32_t key, int width) {
                         RetireEntry(child, key, width);
                       });
  garbage_.lines.push_back(TableLine(entry, slot << (32 - kRootBits)));
}

void TableUpdater::RetireEntry(uint32_t entry, uint32_t key, int width) {
  switch (TypeOf(entry)) {
    case kValueEntry:
      RetireValue(PayloadOf(entry));
      break;
    case kWideEntry:
      RetirePartition(PayloadOf(entry), /*narrow=*/false);
      break;
    case kNarrowEntry:
      RetirePartition(PayloadOf(entry), /*narrow=*/true);
      break;
    case kTableEntry:
      ForEachSlot(table_.lines().at(0), entry, key, width,
                  [this](uint32_t child, uint32_t child_key, int child_width) {
                    RetireEntry(child, child_key, child_width);
                  });
      garbage_.lines.push_back(TableLine(entry, key));
      break;
  }
}

// One slot less names the partition; the last one's going is its end, and that
// of the descriptors its values name. (Those of slots that went before linger
// until then.)
void TableUpdater::RetirePartition(uint32_t first, bool narrow) {
  LinePool& lines = table_.lines();
  if (!lines.DropSlot(first)) return;
  garbage_.lines.push_back(first);
  if (!lines.marked(first)) return;
  const LeafShape& shape = table_.shape();
  const uint32_t count = narrow ? shape.narrow_intervals : shape.wide_intervals;
  const uint32_t values_at =
      narrow ? shape.narrow_values_at : shape.wide_values_at;
  uint32_t previous = 0;
  for (uint32_t line = first + 1; line < first + lines.size(first); ++line) {
    const char* const leaf = reinterpret_cast<const char*>(lines.at(line));
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t value = shape.ReadValue(leaf + values_at, i);
      // The last interval's value is repeated to the end of the leaf.
      if (value != previous) RetireValue(value);
      previous = value;
    }
  }
}

void TableUpdater::RetireValue(uint32_t value) {
  if ((value & table_.shape().flag) == 0) return;
  const uint32_t index = value & (table_.shape().flag - 1);
  RetireEntry(table_.descriptors().at(index)->entry, 0, 32);
  garbage_.descriptors.push_back(index);
}

}  // namespace planb
