// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/partition_compiler.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/numeric/bits.h"

namespace planb {

namespace {

template <typename V>
LeafShape Shaped(LeafShape shape) {
  shape.wide_intervals = Leaf<V>::kWideKeys + 1;
  shape.wide_values_at = Leaf<V>::kWideValuesAt;
  shape.narrow_intervals = Leaf<V>::kNarrowKeys + 1;
  shape.narrow_values_at = Leaf<V>::kNarrowValuesAt;
  shape.flag = kDescriptorFlag<V>;
  return shape;
}

// The last `count` of a leaf's values repeat where there are fewer intervals.
template <typename V>
void WriteValues(const uint32_t* values, uint32_t have, uint32_t count,
                 char* to) {
  V value = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i < have) value = static_cast<V>(values[i]);
    std::memcpy(to + i * sizeof(V), &value, sizeof(V));
  }
}

}  // namespace

LeafShape::LeafShape(int bytes_of_value) : value_bytes(bytes_of_value) {
  *this = value_bytes == 1   ? Shaped<uint8_t>(*this)
          : value_bytes == 2 ? Shaped<uint16_t>(*this)
                             : Shaped<uint32_t>(*this);
}

uint32_t LeafShape::ReadValue(const char* values, uint32_t i) const {
  uint32_t value = 0;  // little-endian, as WriteValues stores it
  std::memcpy(&value, values + i * static_cast<uint32_t>(value_bytes),
              static_cast<size_t>(value_bytes));
  return value;
}

void PartitionPacker::AddWide(const SlotIntervals& slot, Position position) {
  if (wide_.keys.size() + slot.count > shape_.shared_wide()) FlushWide();
  Append(slot, position, wide_);
}

void PartitionPacker::AddNarrow(const SlotIntervals& slot, Position position,
                                int shift) {
  const auto window =
      static_cast<uint32_t>(uint64_t{slot.keys[0]} >> (shift + 16));
  if (narrow_.shift != shift || narrow_.window != window ||
      narrow_.keys.size() + slot.count > shape_.shared_narrow()) {
    FlushNarrow();
  }
  narrow_.shift = shift;
  narrow_.window = window;
  Append(slot, position, narrow_);
}

void PartitionPacker::Append(const SlotIntervals& slot, Position position,
                             Open& open) {
  open.keys.insert(open.keys.end(), slot.keys, slot.keys + slot.count);
  open.values.insert(open.values.end(), slot.values, slot.values + slot.count);
  open.positions.push_back(position);
}

void PartitionPacker::Flush() {
  FlushWide();
  FlushNarrow();
}

void PartitionPacker::FlushWide() {
  if (wide_.keys.empty()) return;
  Point(wide_, kWideEntry,
        Write<uint32_t>(wide_, shape_.wide_intervals, kWideSeparators,
                        shape_.wide_values_at));
}

void PartitionPacker::FlushNarrow() {
  if (narrow_.keys.empty()) return;
  for (uint32_t& key : narrow_.keys) key = (key >> narrow_.shift) & 0xffff;
  Point(narrow_, kNarrowEntry,
        Write<uint16_t>(narrow_, shape_.narrow_intervals, kNarrowSeparators,
                        shape_.narrow_values_at));
}

void PartitionPacker::Point(Open& open, EntryType type, uint32_t first) {
  uint32_t any = 0;
  for (uint32_t value : open.values) any |= value;
  if ((any & shape_.flag) != 0) lines_.Mark(first);
  for (Position position : open.positions) {
    WriteEntry(position, MakeEntry(type, first, open.shift));
  }
  lines_.AddSlots(first, static_cast<uint32_t>(open.positions.size()));
  open.keys.clear();
  open.values.clear();
  open.positions.clear();
}

// Lays out the intervals: the first key of each leaf but the first is a
// separator, the others are in the leaves. Returns the first line.
template <typename Key>
uint32_t PartitionPacker::Write(const Open& open, uint32_t leaf_intervals,
                                uint32_t separators, uint32_t values_at) {
  constexpr Key kPadding = static_cast<Key>(~Key{0});
  const auto count = static_cast<uint32_t>(open.keys.size());
  const uint32_t leaves = (count + leaf_intervals - 1) / leaf_intervals;
  const uint32_t first = lines_.Allocate(1 + leaves);
  const auto key_at = [&](uint32_t i) {
    return i < count ? static_cast<Key>(open.keys[i] - 1) : kPadding;
  };
  char* const node = reinterpret_cast<char*>(lines_.at(first));
  for (uint32_t i = 0; i < separators; ++i) {
    const Key key = key_at((i + 1) * leaf_intervals);
    std::memcpy(node + i * sizeof(Key), &key, sizeof(Key));
  }
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    char* const to = node + (1 + leaf) * sizeof(Line);
    const uint32_t begin = leaf * leaf_intervals;
    std::memset(to, 0xff, sizeof(Line));
    for (uint32_t i = 1; i < leaf_intervals; ++i) {
      const Key key = key_at(begin + i);
      std::memcpy(to + (i - 1) * sizeof(Key), &key, sizeof(Key));
    }
    const uint32_t* const values = open.values.data() + begin;
    const uint32_t have = std::min(count - begin, leaf_intervals);
    switch (shape_.value_bytes) {
      case 1:
        WriteValues<uint8_t>(values, have, leaf_intervals, to + values_at);
        break;
      case 2:
        WriteValues<uint16_t>(values, have, leaf_intervals, to + values_at);
        break;
      default:
        WriteValues<uint32_t>(values, have, leaf_intervals, to + values_at);
    }
  }
  return first;
}

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
  if (tables_apart_) packer_.Flush();
  // Slots of up to 16 bits are worth narrow partitions however few their
  // intervals: many of them share one.
  FillTable(run.keys, run, range.low, below, first, 0, 1u << bits,
            [&](const Run& child, uint32_t low, Position at) {
              CompileRun(child, {low, below}, at, range.width <= 16);
            });
  if (tables_apart_) packer_.Flush();
  packer_.WriteEntry(
      position,
      MakeEntry(kTableEntry, first - (range.low >> below) / kLineWords, below));
}

void SlotCompiler::CompileRootSlot(const IntervalList<uint64_t>& intervals,
                                   uint32_t slot, uint32_t& entry) {
  const Position position = {.apart = &entry};
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
  FillSlots(starts, run, uint64_t{slot} << kWidth, kWidth, below, first, 0,
            1u << bits);
  // The first table goes by bits 0..31, 16 above those of the other keys.
  packer_.WriteEntry(
      position,
      MakeEntry(kTableEntry, first - (slot << bits) / kLineWords, below - 16));
  packer_.Flush();
}

// As CompileSlots.
void SlotCompiler::FillSlots(const uint64_t* starts, Run run, uint64_t low,
                             int width, int below, uint32_t first_line,
                             uint32_t begin, uint32_t end) {
  uint64_t key_space = 0;
  FillTable(starts, run, low, below, first_line, begin, end,
            [&](const Run& child, uint64_t first, Position at) {
              // Bits 16..47 are a key within one /16.
              if (first >> 32 != key_space) packer_.Flush();
              key_space = first >> 32;
              CompileRun(child, {static_cast<uint32_t>(first), below}, at,
                         /*dense=*/width <= 16);
            });
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

// Cuts the run at the slots of a table, from entry `first_slot` to before
// `end`, and has `child` compile each.
template <typename Start, typename Child>
void SlotCompiler::FillTable(const Start* starts, Run run, Start low, int below,
                             uint32_t first_line, uint32_t first_slot,
                             uint32_t end, Child child) {
  uint32_t value = run.values[0];  // in force where the slot begins
  uint32_t next = 0;               // interval
  for (uint32_t slot = first_slot; slot < end; ++slot) {
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

void Splice(const IntervalList<uint32_t>& from, uint32_t end,
            const IntervalChange& change, uint32_t flag,
            IntervalList<uint32_t>& to, std::vector<uint32_t>& dropped) {
  to.Clear();
  const auto add = [&to](uint32_t start, uint32_t value) {
    if (to.size() > 0 && to.values.back() == value) return;
    to.starts.push_back(start);
    to.values.push_back(value);
  };
  const size_t n = from.size();
  size_t i = 0;
  // A partition does not say where its first interval begins. A descriptor's,
  // in force where the change begins, begins there.
  if (from.starts[0] < change.low && (from.values[0] & flag) != 0 &&
      (n == 1 || from.starts[1] > change.low)) {
    dropped.push_back(from.values[0]);
    add(from.starts[0], change.by.values[0]);
    i = 1;
  }
  for (; i < n && from.starts[i] < change.low; ++i) {
    add(from.starts[i], from.values[i]);
  }
  for (size_t j = 0; j < change.by.size(); ++j) {
    add(change.by.starts[j], change.by.values[j]);
  }
  // What is in force at the last address of the change.
  std::optional<uint32_t> after;
  if (i > 0) after = from.values[i - 1];
  for (; i < n && from.starts[i] <= change.last; ++i) {
    after = from.values[i];
    if ((*after & flag) != 0) dropped.push_back(*after);
  }
  // It goes on behind the change, but for a descriptor, past which nothing
  // reads until the next interval.
  const bool begins = i < n && from.starts[i] == change.last + 1;
  if (change.last != end && !begins && after.has_value() &&
      (*after & flag) == 0) {
    add(change.last + 1, *after);
  }
  for (; i < n; ++i) add(from.starts[i], from.values[i]);
}

namespace {

// One leaf or node of a partition as it lies in memory.
template <typename Key, typename V>
struct Form {
  static constexpr bool kWide = sizeof(Key) == 4;
  static constexpr uint32_t kSeparators =
      kWide ? kWideSeparators : kNarrowSeparators;
  static constexpr uint32_t kKeys =
      kWide ? Leaf<V>::kWideKeys : Leaf<V>::kNarrowKeys;
  static constexpr uint32_t kValuesAt =
      kWide ? Leaf<V>::kWideValuesAt : Leaf<V>::kNarrowValuesAt;
  static constexpr Key kPadding = static_cast<Key>(~Key{0});
  static constexpr uint32_t kLast = kPadding;

  static Key KeyAt(const Line* line, uint32_t i) {
    Key key;
    std::memcpy(&key,
                reinterpret_cast<const char*>(line->words) + i * sizeof(Key),
                sizeof(Key));
    return key;
  }
  static void WriteKey(Line* line, uint32_t i, Key key) {
    std::memcpy(reinterpret_cast<char*>(line->words) + i * sizeof(Key), &key,
                sizeof(Key));
  }
  static uint32_t ValueAt(const Line* line, uint32_t i) {
    V value;
    std::memcpy(
        &value,
        reinterpret_cast<const char*>(line->words) + kValuesAt + i * sizeof(V),
        sizeof(V));
    return value;
  }

  // The leaf in which `key` is looked up. REQUIRES: not before `leaf`.
  static uint32_t LeafOf(const Line* node, uint32_t leaves, uint32_t leaf,
                         uint32_t key) {
    while (leaf + 1 < leaves && KeyAt(node, leaf) < key) ++leaf;
    return leaf;
  }
  static uint32_t Intervals(const Line* leaf) {
    uint32_t keys = 0;
    while (keys < kKeys && KeyAt(leaf, keys) != kPadding) ++keys;
    return keys + 1;
  }
  // Where a leaf begins.
  static uint32_t Start(const Line* node, uint32_t leaf) {
    return leaf == 0 ? 0 : uint32_t{KeyAt(node, leaf - 1)} + 1;
  }
  static void Read(const Line* node, uint32_t leaf,
                   IntervalList<uint32_t>& to) {
    const Line* const line = node + 1 + leaf;
    const uint32_t count = Intervals(line);
    for (uint32_t i = 0; i < count; ++i) {
      to.starts.push_back(i == 0 ? Start(node, leaf)
                                 : uint32_t{KeyAt(line, i - 1)} + 1);
      to.values.push_back(ValueAt(line, i));
    }
  }
  static void Write(const IntervalList<uint32_t>& from, size_t begin,
                    size_t count, Line* line) {
    std::memset(line, 0xff, sizeof(Line));
    for (uint32_t i = 1; i < count; ++i) {
      WriteKey(line, i - 1, static_cast<Key>(from.starts[begin + i] - 1));
    }
    WriteValues<V>(from.values.data() + begin, static_cast<uint32_t>(count),
                   kKeys + 1, reinterpret_cast<char*>(line->words) + kValuesAt);
  }

  // Whether an interval of a leaf is one, and the last one.
  static bool IsInterval(const Line* leaf, uint32_t i) {
    return i == 0 || KeyAt(leaf, i - 1) != kPadding;
  }
  static bool IsLast(const Line* leaf, uint32_t i) {
    return i == kKeys || KeyAt(leaf, i) == kPadding;
  }

  // Its last key.
  static uint32_t EndOf(const Line* node, uint32_t leaves, uint32_t leaf,
                        uint32_t i) {
    const Line* const line = node + 1 + leaf;
    if (!IsLast(line, i)) return KeyAt(line, i);
    return leaf + 1 < leaves ? KeyAt(node, leaf) : kLast;
  }

  // A bit for each place in a leaf with `value`, or with `flag` in its value.
  static uint32_t Places(const Line* leaf, uint32_t value, uint32_t flag) {
    uint32_t places = 0;
    for (uint32_t i = 0; i <= kKeys; ++i) {
      const uint32_t at = ValueAt(leaf, i);
      places |= uint32_t{at == value || (at & flag) != 0} << i;
    }
    return places;
  }
  static void Find(const Line* node, uint32_t leaves, uint32_t value,
                   uint32_t flag, std::vector<PartitionEditor::Found>& found) {
    static_assert(kKeys < 32);
    for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
      const Line* const line = node + 1 + leaf;
      for (uint32_t left = Places(line, value, flag); left != 0;
           left &= left - 1) {
        const auto i = static_cast<uint32_t>(absl::countr_zero(left));
        if (!IsInterval(line, i)) break;
        found.push_back({.index = leaf * (kKeys + 1) + i,
                         .start = i == 0 ? Start(node, leaf)
                                         : uint32_t{KeyAt(line, i - 1)} + 1,
                         .last = EndOf(node, leaves, leaf, i),
                         .value = ValueAt(line, i)});
      }
    }
  }

  // As WriteValues has it, for the last value of a leaf, too.
  static void WriteValue(Line* node, uint32_t index, uint32_t value) {
    Line* const line = node + 1 + index / (kKeys + 1);
    uint32_t i = index % (kKeys + 1);
    const uint32_t end = IsLast(line, i) ? kKeys + 1 : i + 1;
    for (const V v = static_cast<V>(value); i < end; ++i) {
      std::memcpy(
          reinterpret_cast<char*>(line->words) + kValuesAt + i * sizeof(V), &v,
          sizeof(V));
    }
  }
};

}  // namespace

template <typename Key, typename V>
std::optional<PartitionEditor::Result> PartitionEditor::CopyOf(
    uint32_t first, const IntervalChange& change, const Slot& slot,
    std::vector<uint32_t>& dropped) {
  using Form = Form<Key, V>;
  constexpr uint32_t kInLeaf = Form::kKeys + 1;
  const Line* node = lines_.at(first);
  const uint32_t leaves = lines_.size(first) - 1;
  const size_t dropped_before = dropped.size();
  // The leaves from `begin` to before `end` are written anew.
  uint32_t begin = Form::LeafOf(node, leaves, 0, change.low);
  uint32_t end = Form::LeafOf(node, leaves, begin, change.last) + 1;
  uint32_t last = 0;
  for (bool widened = false;; widened = true) {
    old_.Clear();
    for (uint32_t leaf = begin; leaf < end; ++leaf) {
      Form::Read(node, leaf, old_);
    }
    last = end < leaves ? Form::Start(node, end) - 1 : Form::kLast;
    dropped.resize(dropped_before);
    Splice(old_, last, change, shape_.flag, new_, dropped);
    // Intervals that are few, or too many for their leaves, are put together
    // with those of a neighbour that has room.
    const size_t leaves_then = new_.size() <= kInLeaf / 2 ? 1
                               : new_.size() > kInLeaf * (end - begin)
                                   ? end - begin + 1
                                   : 0;
    const auto has_room = [&](uint32_t leaf) {
      return new_.size() + Form::Intervals(node + 1 + leaf) <=
             kInLeaf * leaves_then;
    };
    if (widened || leaves_then == 0) break;
    if (end < leaves && has_room(end)) {
      ++end;
    } else if (begin > 0 && has_room(begin - 1)) {
      --begin;
    } else {
      break;
    }
  }

  Result result;
  if (new_.starts[0] <= slot.low && slot.last <= last) {
    size_t i = new_.size() - 1;
    while (new_.starts[i] > slot.last) --i;
    result.one_value = new_.starts[i] <= slot.low;
    result.value = new_.values[i];
    if (result.one_value && slot.only) return result;
  }
  const auto count = static_cast<uint32_t>(new_.size());
  const uint32_t written = (count + kInLeaf - 1) / kInLeaf;
  const uint32_t rest = leaves - end;
  if (begin + written + rest > Form::kSeparators + 1) {
    dropped.resize(dropped_before);
    return std::nullopt;
  }
  result.first = lines_.Allocate(1 + begin + written + rest);
  if (lines_.overflow()) return result;
  node = lines_.at(first);
  Line* const to = lines_.at(result.first);
  std::memset(to, 0xff, sizeof(Line));
  std::memcpy(to, node, begin * sizeof(Key));
  std::memcpy(to + 1, node + 1, begin * sizeof(Line));
  for (uint32_t i = 0, at = 0; i < written; ++i) {
    const uint32_t in_leaf = (count - at) / (written - i);
    const uint32_t leaf = begin + i;
    if (leaf > 0) {
      Form::WriteKey(to, leaf - 1, static_cast<Key>(new_.starts[at] - 1));
    }
    Form::Write(new_, at, in_leaf, to + 1 + leaf);
    at += in_leaf;
  }
  if (rest > 0) {
    char* const keys = reinterpret_cast<char*>(to);
    std::memcpy(keys + (begin + written - 1) * sizeof(Key),
                reinterpret_cast<const char*>(node) + (end - 1) * sizeof(Key),
                rest * sizeof(Key));
    std::memcpy(to + 1 + begin + written, node + 1 + end, rest * sizeof(Line));
  }
  return result;
}

// Calls `visit` with the form of a partition.
template <typename Visit>
auto PartitionEditor::WithForm(bool narrow, const Visit& visit) const {
  switch (shape_.value_bytes) {
    case 1:
      return narrow ? visit(Form<uint16_t, uint8_t>())
                    : visit(Form<uint32_t, uint8_t>());
    case 2:
      return narrow ? visit(Form<uint16_t, uint16_t>())
                    : visit(Form<uint32_t, uint16_t>());
    default:
      return narrow ? visit(Form<uint16_t, uint32_t>())
                    : visit(Form<uint32_t, uint32_t>());
  }
}

void PartitionEditor::Find(uint32_t first, bool narrow, uint32_t value,
                           uint32_t flag, std::vector<Found>& found) const {
  found.clear();
  WithForm(narrow, [&](auto form) {
    form.Find(lines_.at(first), lines_.size(first) - 1, value, flag, found);
  });
}

uint32_t PartitionEditor::CopyWith(uint32_t first, bool narrow,
                                   const std::vector<uint32_t>& changed,
                                   uint32_t value) {
  const uint32_t size = lines_.size(first);
  const uint32_t copy = lines_.Allocate(size);
  if (lines_.overflow()) return copy;
  std::memcpy(lines_.at(copy), lines_.at(first), size * sizeof(Line));
  WithForm(narrow, [&](auto form) {
    for (uint32_t index : changed) {
      form.WriteValue(lines_.at(copy), index, value);
    }
  });
  return copy;
}

std::optional<PartitionEditor::Result> PartitionEditor::Copy(
    uint32_t first, bool narrow, const IntervalChange& change, const Slot& slot,
    std::vector<uint32_t>& dropped) {
  return WithForm(narrow, [&]<typename Key, typename V>(Form<Key, V>) {
    return CopyOf<Key, V>(first, change, slot, dropped);
  });
}

}  // namespace planb
