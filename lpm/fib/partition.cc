// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/partition.h"

#include <algorithm>
#include <cstring>

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
  for (uint32_t i = 0; i < count; ++i) {
    const V value = static_cast<V>(values[std::min(i, have - 1)]);
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
  uint32_t value = 0;  // little-endian, as all who write it are
  std::memcpy(&value, values + i * static_cast<uint32_t>(value_bytes),
              static_cast<size_t>(value_bytes));
  return value;
}

void PartitionPacker::AddWide(const SlotIntervals& slot, Position position) {
  if (wide_.keys.size() + slot.count > shape_.max_wide()) FlushWide();
  Append(slot, position, wide_);
}

void PartitionPacker::AddNarrow(const SlotIntervals& slot, Position position,
                                int shift) {
  const auto window =
      static_cast<uint32_t>(uint64_t{slot.keys[0]} >> (shift + 16));
  if (narrow_.shift != shift || narrow_.window != window ||
      narrow_.keys.size() + slot.count > shape_.max_narrow()) {
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

void PartitionPacker::WriteEntry(Position position, uint32_t entry) {
  if (position.in_root) {
    root_[position.index] = entry;
  } else {
    lines_.at(position.index / kLineWords)->words[position.index % kLineWords] =
        entry;
  }
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
    lines_.AddSlot(first);
  }
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

}  // namespace planb
