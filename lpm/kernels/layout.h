// SPDX-License-Identifier: Apache-2.0

// How a FIB lies in memory: the contract between the compiler, which writes it,
// and the kernels, which search it.
//
// PlanB, partitioned. The paper (NSDI '26, section 3.3) searches one linearized
// B+-tree over the upper 64 bits of an address. Here a direct-indexed root and
// a few index tables take the bits in which real tables are crowded, and what
// is left is many small linearized B+-trees, two levels each, over the 32 or 16
// bits that still vary: twice to four times as many keys in a cache line, and a
// walk of a length that does not grow with the table.
//
//   root, 4096 entries      bits 0..11 of the address
//   index tables            the next few bits, more of them in crowded places
//   partition               one line of separators, then leaves of keys, values
//   descriptor              bits 48..127, where a prefix longer than /48
//   decides
//
// Everything is named by index, nothing by address: a FIB can be moved, copied
// or mapped. Tables and partitions lie in 64-byte lines, and descriptors in an
// array of their own.

#ifndef PLANB_LPM_KERNELS_LAYOUT_H_
#define PLANB_LPM_KERNELS_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "lpm/prefix.h"

namespace planb {

// One cache line: 16 entries of a table, or a node of a partition.
struct alignas(64) Line {
  uint32_t words[16];
};
inline constexpr uint32_t kLineWords = 16;

// What a root or table slot says about its addresses: payload:25 type:2
// shift:5. The walk goes by a 32-bit *key*: bits 16..47 of the address, or the
// 32 bits from where a descriptor says.
enum EntryType : uint32_t {
  // All take the value `payload`.
  kValueEntry = 0,
  // Go on at entry `payload * 16 + (key >> shift)`, modulo 2^29, of the lines.
  kTableEntry = 1,
  // A partition at line `payload`, over the whole key.
  kWideEntry = 2,
  // A partition at line `payload`, over the 16 bits of the key from `shift`.
  kNarrowEntry = 3,
};

inline constexpr int kTypeShift = 5;
inline constexpr int kPayloadShift = 7;
inline constexpr uint32_t kShiftMask = 31;
inline constexpr uint32_t kTypeMask = 3u << kTypeShift;
inline constexpr uint32_t kMaxPayload = (1u << 25) - 1;
// Entry indexes within the lines.
inline constexpr uint32_t kIndexMask = (1u << 29) - 1;

constexpr uint32_t MakeEntry(EntryType type, uint32_t payload, int shift = 0) {
  return (payload & kMaxPayload) << kPayloadShift | type << kTypeShift |
         static_cast<uint32_t>(shift);
}
constexpr EntryType TypeOf(uint32_t entry) {
  return static_cast<EntryType>((entry & kTypeMask) >> kTypeShift);
}
constexpr uint32_t PayloadOf(uint32_t entry) { return entry >> kPayloadShift; }
constexpr int ShiftOf(uint32_t entry) {
  return static_cast<int>(entry & kShiftMask);
}
// Which entry of the lines a table entry sends `key` to.
constexpr uint32_t TableIndex(uint32_t entry, uint32_t key) {
  return (PayloadOf(entry) * kLineWords + (key >> ShiftOf(entry))) & kIndexMask;
}

// The root is indexed by the first bits of the address. The table below it is
// the one that goes by another key: bits 0..31.
inline constexpr int kRootBits = 12;
inline constexpr size_t kRootEntries = size_t{1} << kRootBits;
// How many of the first bits the main walk decides on; the rest is below
// descriptors.
inline constexpr int kMainBits = 48;

// A leaf holds `keys` keys and then one value more than keys. The values' width
// is one for all of a FIB.
//
// Keys are starts of intervals *minus one*, compared strictly: padding of all
// ones is then below no key, not even the largest.
template <typename V>
struct Leaf;
template <>
struct Leaf<uint8_t> {
  static constexpr uint32_t kWideKeys = 12, kWideValuesAt = 48;
  static constexpr uint32_t kNarrowKeys = 20, kNarrowValuesAt = 40;
};
template <>
struct Leaf<uint16_t> {
  static constexpr uint32_t kWideKeys = 10, kWideValuesAt = 40;
  static constexpr uint32_t kNarrowKeys = 15, kNarrowValuesAt = 32;
};
template <>
struct Leaf<uint32_t> {
  static constexpr uint32_t kWideKeys = 7, kWideValuesAt = 28;
  static constexpr uint32_t kNarrowKeys = 10, kNarrowValuesAt = 20;
};
inline constexpr uint32_t kWideSeparators = 16;
inline constexpr uint32_t kNarrowSeparators = 32;

// A value is a next hop: its id itself, or its index in FibView::next_hops. In
// a FIB that keeps prefix lengths it is a next hop and a length: the index in
// FibView::next_hops and in FibView::prefix_lengths. Or, with this bit set, it
// is the index of a descriptor. One byte has no room for such a bit: tables
// that need descriptors have wider values.
template <typename V>
inline constexpr uint32_t kDescriptorFlag = 0;
template <>
inline constexpr uint32_t kDescriptorFlag<uint16_t> = 1u << 15;
template <>
inline constexpr uint32_t kDescriptorFlag<uint32_t> = 1u << 24;

// What decides among the addresses of one slot of the walk above: those that
// begin like `high`:`low` for `length` bits go on at `entry`, with the next 32
// bits as key (0 past the end); all others take the value `fallback`.
//
// None divides by bits on both sides of bit 64: below a `length` of less than
// 64, all addresses of a /64 go the same way, and where they part is the
// descriptor of that /64. So the upper half of an address knows its way:
// by `upper_entry` instead, if the bits agree up to 64.
struct alignas(32) Descriptor {
  uint64_t high;
  uint64_t low;
  uint32_t entry;
  uint32_t fallback;
  uint32_t length;  // 48..128
  // `entry`, but where the addresses of one /64 part: a value of the next hop
  // that they have in common, or kUndecidedEntry.
  uint32_t upper_entry;
};
static_assert(sizeof(Descriptor) == 32);

// The first bits of an IPv6 address, which network and routing go by.
inline constexpr int kUpperBits = 64;

// A value entry unlike all others, which have no shift.
inline constexpr uint32_t kUndecidedEntry =
    MakeEntry(kValueEntry, kNoRoute, kShiftMask);

// How long the slots are that a descriptor of `length` bits cuts: each may have
// a descriptor of its own. Three nest at most: of 48..63, 64..95 and 96..127
// bits.
constexpr int SlotLengthBelow(int length) {
  return length < kUpperBits ? kUpperBits : length + 32;
}

// What a FIB may hold: what the format can name. Tests set lower limits.
struct FibLimits {
  size_t lines = kMaxPayload;
  size_t descriptors = kDescriptorFlag<uint32_t>;
  // Distinct ones, or pairs of these and prefix lengths. One value more is
  // kNoRoute.
  uint32_t next_hops = kDescriptorFlag<uint32_t> - 1;
};

// What a kernel reads. Valid as long as the Fib it came from.
struct FibView {
  const uint32_t* root;
  const Line* lines;
  const Descriptor* descriptors;
  // nullptr: values are ids.
  const NextHopId* next_hops;
  // Bytes of a value in a leaf: 1, 2 or 4.
  int value_bytes;
  // Of the prefixes that values stand for, where a lookup asks for them.
  const uint8_t* prefix_lengths = nullptr;

  // All entries of all tables, as TableIndex counts them.
  const uint32_t* words() const {
    return reinterpret_cast<const uint32_t*>(lines);
  }
};

}  // namespace planb

#endif  // PLANB_LPM_KERNELS_LAYOUT_H_
