#include "lpm/descriptor_compiler.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"
#include "lpm/bits.h"

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

uint32_t DescriptorCompiler::Compile(absl::Span<const ValueInterval> intervals,
                                     int length) {
  // One value, before or after everything else or both, is the fallback: skip
  // the bits that all the rest shares.
  const ValueInterval& front = intervals.front();
  const ValueInterval& back = intervals.back();
  absl::uint128 base = front.start;
  int skip = length;
  uint32_t fallback = front.value;
  const auto rest = [&](absl::uint128 first, absl::uint128 end,
                        uint32_t other) {
    const int common = CommonBits(first, end);
    if (common <= skip) return;
    skip = common;
    base = first & Mask(skip);
    fallback = other;
  };
  if (front.value == back.value) {
    rest(intervals[1].start, back.start - 1, front.value);
  } else {
    rest(front.start, back.start - 1, back.value);
    rest(intervals[1].start, front.start | ~Mask(length), front.value);
  }
  const absl::uint128 last = base | ~Mask(skip);

  // Cut what is inside at the slots of the next 32 bits. A slot that is cut
  // itself becomes a descriptor of its own.
  const int below = skip + 32;
  const absl::uint128 slot_bits = below < 128 ? ~Mask(below) : absl::uint128{0};
  IntervalList list;
  const auto add = [&](absl::uint128 start, uint32_t value) {
    const uint32_t key = KeyAt(start, skip);
    if (list.size() > 0 && list.keys.back() == key) {
      list.values.back() = value;
    } else if (list.size() == 0 || list.values.back() != value) {
      list.Add(key, value);
    }
  };
  size_t i = 0;
  while (i + 1 < intervals.size() && intervals[i + 1].start <= base) ++i;
  uint32_t value = intervals[i++].value;
  add(base, value);
  std::vector<ValueInterval> part;
  while (i < intervals.size() && intervals[i].start <= last) {
    const absl::uint128 slot = intervals[i].start & ~slot_bits;
    part.clear();
    if (intervals[i].start != slot) part.push_back({slot, value});
    while (i < intervals.size() && intervals[i].start <= last &&
           (intervals[i].start & ~slot_bits) == slot) {
      part.push_back(intervals[i++]);
    }
    value = part.back().value;
    if (part.size() == 1) {
      add(slot, value);
    } else {
      add(slot, Compile(part, below));
      const absl::uint128 next = slot + slot_bits + 1;
      if (next != 0 && next <= last) add(next, value);
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
                             .unused = 0};
  if (index >= shape_.flag) overflow_ = true;
  return shape_.flag | index;
}

}  // namespace planb
