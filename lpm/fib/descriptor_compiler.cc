// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/descriptor_compiler.h"

#include <vector>

#include "lpm/routes/bits.h"

namespace planb {
namespace {

// The first `length` bits, 1..128.
absl::uint128 Mask(int length) { return absl::Uint128Max() << (128 - length); }

// The 32 bits from bit `from`; 0 past the end.
uint32_t KeyAt(absl::uint128 address, int from) {
  return from == 128 ? 0
                     : static_cast<uint32_t>(
                           absl::Uint128High64(address << from) >> 32);
}

}  // namespace

uint32_t DescriptorCompiler::Compile(
    const IntervalList<absl::uint128>& intervals, int length) {
  const std::vector<absl::uint128>& starts = intervals.starts;
  const std::vector<uint32_t>& values = intervals.values;
  // One value, before or after everything else or both, is the fallback: skip
  // the bits that all the rest shares.
  absl::uint128 base = starts.front();
  int skip = length;
  uint32_t fallback = values.front();
  const auto rest = [&](absl::uint128 first, absl::uint128 end,
                        uint32_t other) {
    const int common = CommonBits(first, end);
    if (common <= skip) return;
    skip = common;
    base = first & Mask(skip);
    fallback = other;
  };
  if (values.front() == values.back()) {
    rest(starts[1], starts.back() - 1, values.front());
  } else {
    rest(starts.front(), starts.back() - 1, values.back());
    rest(starts[1], starts.front() | ~Mask(length), values.front());
  }
  const absl::uint128 last = base | ~Mask(skip);

  // Cut what is inside at the slots of the next 32 bits, or of those up to bit
  // 64. A slot that is cut itself becomes a descriptor of its own.
  const int below = SlotLengthBelow(skip);
  const absl::uint128 slot_bits = below < 128 ? ~Mask(below) : absl::uint128{0};
  IntervalList<uint32_t> list;
  size_t i = 0;
  while (i + 1 < intervals.size() && starts[i + 1] <= base) ++i;
  uint32_t value = values[i++];
  list.Add(KeyAt(base, skip), value);
  IntervalList<absl::uint128> part;
  while (i < intervals.size() && starts[i] <= last) {
    const absl::uint128 slot = starts[i] & ~slot_bits;
    part.Clear();
    part.Add(slot, value);
    for (; i < intervals.size() && starts[i] <= last &&
           (starts[i] & ~slot_bits) == slot;
         ++i) {
      part.Add(starts[i], values[i]);
    }
    value = part.values.back();
    if (part.size() == 1) {
      list.Add(KeyAt(slot, skip), value);
    } else {
      list.Add(KeyAt(slot, skip), Compile(part, below));
      const absl::uint128 next = slot + slot_bits + 1;
      if (next != 0 && next <= last) list.Add(KeyAt(next, skip), value);
    }
  }

  slots_.Compile(list, {.low = 0, .width = 32}, {.in_root = true});
  slots_.Flush();
  const uint32_t index = descriptors_.Allocate(1);
  *descriptors_.at(index) = {.high = absl::Uint128High64(base),
                             .low = absl::Uint128Low64(base),
                             .entry = entry_,
                             .fallback = fallback,
                             .length = static_cast<uint32_t>(skip),
                             .upper_entry = UpperEntry(skip, list.size())};
  if (index >= shape_.flag || descriptors_.overflow()) {
    overflow_ = true;
    return 0;
  }
  return shape_.flag | index;
}

// Why this answers for a /64 exactly, kUndecided if and only if its addresses
// have several values. Neighbouring intervals have different values: a /64 has
// several if and only if an interval begins in it, past its first address.
// Where no such interval begins in a whole /48, it has no descriptor, and the
// walk is that of any address. In a /48 that has one, look at the first.
//
// - Less than 64 bits long: what it holds and what is outside are whole /64s.
//   Outside, all take the fallback. Inside, the list changes values at the
//   first addresses of /64s alone; so one of them takes one value of the list:
//   a plain one if no interval begins in it past its first address, or that of
//   a descriptor compiled for it alone, of two intervals at least. That one
//   skips bits, if any, past 64: as below, it says undecided.
// - 64 bits long: outside, other /64s take the fallback. Inside is a /64, with
//   one value if the list has but one. (That is a plain one: a slot that is cut
//   has a neighbour in the list, for it is one of 2^32.)
// - Longer: inside is a part of one /64, where something begins or ends that
//   does not have the fallback's value, as the rest of that /64 has.
uint32_t DescriptorCompiler::UpperEntry(int length, size_t intervals) const {
  const bool one_value =
      length < kUpperBits || (length == kUpperBits && intervals == 1);
  return one_value ? entry_ : kUndecidedEntry;
}

}  // namespace planb
