// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_updater.h"

#include <algorithm>
#include <cstring>

#include "lpm/fib/fib_walk.h"
#include "lpm/kernels/layout.h"

namespace planb {
namespace {

// Lists all that hangs on an entry as garbage. A visitor of fib_walk.h.
class GarbageVisitor {
 public:
  GarbageVisitor(TableCompiler& table, SpareTables& spares, Garbage& garbage)
      : table_(table),
        lines_(table.lines()),
        spares_(spares),
        garbage_(garbage) {}

  void EnterTable(uint32_t) {}
  void LeaveTable(uint32_t first_line) {
    garbage_.lines.push_back(first_line);
    const auto spare = spares_.Take(first_line);
    if (spare.has_value()) garbage_.lines.push_back(spare->first);
  }

  // One slot less names the partition. With the last of them the partition
  // becomes garbage, and so do the descriptors that its values name: those of
  // slots that went before stay until then.
  void Partition(uint32_t entry, uint32_t /*key*/, int /*width*/) {
    const uint32_t first = PayloadOf(entry);
    if (!lines_.DropSlot(first)) return;
    garbage_.lines.push_back(first);
    if (!lines_.marked(first)) return;
    ForEachInterval(lines_.at(0), entry, table_.shape(),
                    [this](uint32_t, uint32_t value) { Value(value); });
  }

  void Value(uint32_t value) {
    const uint32_t flag = table_.shape().flag;
    if ((value & flag) == 0) return;
    const uint32_t index = value & (flag - 1);
    WalkEntry(lines_.at(0), table_.descriptors().at(index)->entry, 0, 32,
              *this);
    garbage_.descriptors.push_back(index);
  }

 private:
  TableCompiler& table_;
  LinePool& lines_;
  SpareTables& spares_;
  Garbage& garbage_;
};

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

void TableUpdater::Update(const RouteSet& routes, Changes changed,
                          uint64_t generation, uint64_t oldest) {
  generation_ = generation;
  oldest_ = oldest;
  written_.clear();
  while (!changed.empty() && !table_.failed()) {
    const auto index =
        static_cast<uint32_t>(MainBits(changed[0].first()) >> kBelowRoot);
    const MainSlot slot = {uint64_t{index} << kBelowRoot, kBelowRoot};
    const size_t count = CountIn(changed, slot);
    roots_.push_back(index);
    UpdateSlot(routes, changed.first(count),
               {.slot = slot, .position = {.in_root = true, .index = index}});
    changed.remove_prefix(count);
  }
}

uint32_t TableUpdater::EntryAt(Position position) {
  const uint32_t index = position.index;
  return position.in_root
             ? table_.root().entries[index]
             : table_.lines().at(index / kLineWords)->words[index % kLineWords];
}

// Tables of fewer lines are copied whole.
constexpr uint32_t kLeastSpare = 4;

// So many changes in a slot are made one by one.
constexpr size_t kMostEdits = 8;

// Goes down where the changes touch few slots of the table there; otherwise
// edits the slot or compiles it anew.
void TableUpdater::UpdateSlot(const RouteSet& routes, Changes changed,
                              const Place& place) {
  const MainSlot& slot = place.slot;
  const uint32_t entry = EntryAt(place.position);
  const bool first_table = slot.width == kBelowRoot;
  const int below = ShiftOf(entry) + (first_table ? 16 : 0);
  const int length = kMainBits - below;
  const bool all = std::any_of(
      changed.begin(), changed.end(),
      [&](const Prefix& prefix) { return prefix.length() < slot.length(); });
  if (TypeOf(entry) != kTableEntry) {
    if (all || first_table || changed.size() > kMostEdits) {
      return CompileAnew(routes, place);
    }
    if (changed.size() == 1) return EditSlot(routes, changed[0], place);
    // The first ones may turn the slot into a table.
    for (size_t i = 0; i < changed.size() && !table_.failed(); ++i) {
      UpdateSlot(routes, changed.subspan(i, 1), place);
    }
    return;
  }
  if (all || SlotsTouched(changed, length) > (1u << (slot.width - below)) / 4) {
    return CompileAnew(routes, place);
  }
  const uint32_t entries = 1u << (slot.width - below);
  const uint32_t table =
      CopyTable(entry, KeyOf(slot), slot.width - below, place.position);
  const size_t written_before = written_.size();
  while (!changed.empty() && !table_.failed()) {
    // The slots of the first change, and all changes in them.
    const uint64_t first = (MainBits(changed[0].first()) - slot.low) >> below;
    const uint64_t slots = SlotsTouched(changed.first(1), length);
    const bool covers = changed[0].length() < length;
    for (uint64_t index = first; index < first + slots && !table_.failed();
         ++index) {
      const MainSlot child = {slot.low + (index << below), below};
      const size_t count = CountIn(changed, child);
      // The one that covers the slot stays until the last.
      UpdateSlot(routes, covers ? changed.first(1) : changed.first(count),
                 {.slot = child,
                  .position = {.index = table + static_cast<uint32_t>(index)},
                  .table = table,
                  .entries = entries});
      if (!covers || index + 1 == first + slots) changed.remove_prefix(count);
    }
  }
  for (size_t i = written_before; i < written_.size(); ++i) {
    spares_.Written(table / kLineWords, entries / kLineWords, written_[i]);
  }
}

void TableUpdater::CompileAnew(const RouteSet& routes, const Place& place) {
  const uint32_t entry = EntryAt(place.position);
  table_.CompileSlot(routes, place.slot, place.position);
  if (table_.failed()) return;  // nothing to walk is left
  GarbageVisitor visitor(table_, spares_, garbage_);
  const Line* const lines = table_.lines().at(0);
  if (place.position.in_root) {
    WalkRootEntry(lines, entry, place.position.index, visitor);
  } else {
    WalkEntry(lines, entry, KeyOf(place.slot), place.slot.width, visitor);
  }
}

// Changes a slot that is no table's where one prefix in it changed: what the
// prefix covers, or the /48 that it is in. Other routes of the slot are not
// looked at: the rest of its intervals is as it was.
void TableUpdater::EditSlot(const RouteSet& routes, const Prefix& prefix,
                            const Place& place) {
  const uint32_t entry = EntryAt(place.position);
  if (!FindSharers(entry, place)) return CompileAnew(routes, place);
  const int width = std::max(kMainBits - prefix.length(), 0);
  const MainSlot range = {MainBits(prefix.first()) >> width << width, width};
  const IntervalList<uint64_t>& intervals = table_.IntervalsOf(routes, range);
  if (table_.failed()) return;
  by_.Clear();
  for (uint64_t start : intervals.starts) {
    by_.starts.push_back(static_cast<uint32_t>(start));
  }
  by_.values = intervals.values;
  dropped_.clear();
  const IntervalChange change = {.low = static_cast<uint32_t>(range.low),
                                 .last = static_cast<uint32_t>(range.last()),
                                 .by = by_};
  if (!EditPartition(entry, place, change)) Repartition(entry, place, change);
  if (table_.failed()) return;
  GarbageVisitor visitor(table_, spares_, garbage_);
  for (uint32_t value : dropped_) visitor.Value(value);
}

// Finds the entries that name the partition of `entry`. False if one is in
// another table.
bool TableUpdater::FindSharers(uint32_t entry, const Place& place) {
  sharers_.clear();
  const uint32_t at = place.position.index;
  if (TypeOf(entry) == kValueEntry) {
    sharers_.push_back(at);
    return true;
  }
  const uint32_t count = table_.lines().slots(PayloadOf(entry));
  const uint32_t* const words = table_.lines().at(0)->words;
  for (uint32_t i = at; i > place.table && sharers_.size() + 1 < count;) {
    if (words[--i] == entry) sharers_.push_back(i);
  }
  std::reverse(sharers_.begin(), sharers_.end());
  for (uint32_t i = at;
       i < place.table + place.entries && sharers_.size() < count; ++i) {
    if (words[i] == entry) sharers_.push_back(i);
  }
  return sharers_.size() == count;
}

// The partition of `entry` in a copy, for all slots that share it. False if the
// change does not fit into it.
bool TableUpdater::EditPartition(uint32_t entry, const Place& place,
                                 const IntervalChange& change) {
  const EntryType type = TypeOf(entry);
  if (type == kValueEntry) return false;
  LinePool& lines = table_.lines();
  const uint32_t first = PayloadOf(entry);
  const uint32_t low = KeyOf(place.slot);
  PartitionEditor::Slot slot = {
      .low = low,
      .last =
          static_cast<uint32_t>(low + (uint64_t{1} << place.slot.width) - 1),
      .only = sharers_.size() == 1};
  std::optional<PartitionEditor::Result> copy;
  if (type == kWideEntry) {
    copy = editor_.CopyWide(first, change, slot, dropped_);
  } else {
    const int shift = ShiftOf(entry);
    const auto narrow = [shift](uint32_t key) {
      return (key >> shift) & 0xffff;
    };
    uint32_t finer = change.last + 1;
    part_.Clear();
    part_.values = change.by.values;
    for (uint32_t start : change.by.starts) {
      finer |= start;
      part_.starts.push_back(narrow(start));
    }
    if ((finer & ((1u << shift) - 1)) != 0) return false;
    slot.low = narrow(slot.low);
    slot.last = narrow(slot.last);
    copy = editor_.CopyNarrow(
        first,
        {.low = narrow(change.low), .last = narrow(change.last), .by = part_},
        slot, dropped_);
  }
  if (!copy.has_value()) return false;
  if (table_.failed()) return true;
  const uint32_t flag = table_.shape().flag;
  bool marked = lines.marked(first);
  for (uint32_t value : change.by.values) marked |= (value & flag) != 0;
  const uint32_t copied = MakeEntry(type, copy->first, ShiftOf(entry));
  for (uint32_t index : sharers_) {
    if (index == place.position.index && copy->one_value) {
      table_.WriteEntry({.index = index}, MakeEntry(kValueEntry, copy->value));
      continue;
    }
    table_.WriteEntry({.index = index}, copied);
    lines.AddSlot(copy->first);
    if (marked) lines.Mark(copy->first);
  }
  garbage_.lines.push_back(first);
  return true;
}

// Compiles all slots that share a partition anew, or a slot of one value, from
// the intervals that there are.
void TableUpdater::Repartition(uint32_t entry, const Place& place,
                               const IntervalChange& change) {
  const LeafShape& shape = table_.shape();
  const EntryType type = TypeOf(entry);
  const bool narrow = type == kNarrowEntry;
  const int width = place.slot.width;
  const uint32_t key = KeyOf(place.slot);
  old_.Clear();
  if (type == kValueEntry) {
    old_.starts.push_back(key);
    old_.values.push_back(PayloadOf(entry));
  } else {
    const int shift = narrow ? ShiftOf(entry) : 0;
    // Above what a narrow key says.
    const uint32_t window =
        narrow && shift < 16 ? key >> (shift + 16) << (shift + 16) : 0;
    ForEachInterval(table_.lines().at(0), entry, shape,
                    [&](uint32_t start, uint32_t value) {
                      old_.starts.push_back(window | start << shift);
                      old_.values.push_back(value);
                    });
  }
  const auto low_of = [&](uint32_t index) {
    return key + static_cast<uint32_t>((int64_t{index} - place.position.index) *
                                       (int64_t{1} << width));
  };
  // A partition does not say where its first interval begins: with the first
  // slot, if the interval is in force there.
  if (old_.size() == 1 || old_.starts[1] > low_of(sharers_[0])) {
    old_.starts[0] = low_of(sharers_[0]);
  }
  Splice(old_, ~uint32_t{0}, change, shape.flag, new_, dropped_);

  // Each slot gets a run of its own. Where it is tight, two partitions get one
  // half each.
  const size_t most = narrow ? shape.shared_narrow() : shape.shared_wide();
  const size_t half = new_.size() > most ? new_.size() / 2 : new_.size();
  bool cut = false;
  size_t next = 0;
  for (uint32_t index : sharers_) {
    const uint32_t low = low_of(index);
    const auto last = static_cast<uint32_t>(low + (uint64_t{1} << width) - 1);
    while (next < new_.size() && new_.starts[next] < low) {
      // Of a slot that has left the partition.
      if ((new_.values[next] & shape.flag) != 0) {
        dropped_.push_back(new_.values[next]);
      }
      ++next;
    }
    part_.Clear();
    if (next == new_.size() || new_.starts[next] != low) {
      part_.Add(low, new_.values[next - 1]);
    }
    for (; next < new_.size() && new_.starts[next] <= last; ++next) {
      part_.Add(new_.starts[next], new_.values[next]);
    }
    table_.slots().Compile(part_, {low, width}, {.index = index}, narrow);
    if (!cut && next > half) {
      table_.slots().Flush();
      cut = true;
    }
  }
  for (; next < new_.size(); ++next) {
    if ((new_.values[next] & shape.flag) != 0) {
      dropped_.push_back(new_.values[next]);
    }
  }
  table_.slots().Flush();
  if (type != kValueEntry) garbage_.lines.push_back(PayloadOf(entry));
}

// Copies a table of 2^bits entries for `position` to point to, and returns its
// first entry.
uint32_t TableUpdater::CopyTable(uint32_t entry, uint32_t first_key, int bits,
                                 Position position) {
  LinePool& lines = table_.lines();
  const uint32_t from = TableLine(entry, first_key);
  const uint32_t size = (1u << bits) / kLineWords;
  uint32_t to = 0;
  const std::optional<SpareTables::Spare> spare = spares_.Take(from);
  if (spare.has_value() && spare->generation <= oldest_) {
    to = spare->first;
    for (uint32_t i = 0; i < size; ++i) {
      if (spare->differs[i]) *lines.at(to + i) = *lines.at(from + i);
    }
  } else {
    if (spare.has_value()) garbage_.lines.push_back(spare->first);
    to = lines.Allocate(size);
    if (table_.failed()) return 0;
    std::memcpy(lines.at(to), lines.at(from), size * sizeof(Line));
  }
  table_.WriteEntry(
      position,
      MakeEntry(kTableEntry, PayloadOf(entry) + to - from, ShiftOf(entry)));
  if (size < kLeastSpare) {
    garbage_.lines.push_back(from);
  } else {
    spares_.Keep(to, {.first = from, .generation = generation_, .differs = {}});
  }
  return to * kLineWords;
}

}  // namespace planb
