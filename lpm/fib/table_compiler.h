// SPDX-License-Identifier: Apache-2.0

// From routes to the root, lines and descriptors of a FIB: the whole address
// space, or one slot of it.

#ifndef PLANB_LPM_FIB_TABLE_COMPILER_H_
#define PLANB_LPM_FIB_TABLE_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/elementary_intervals.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/partition_compiler.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// What must be known of a list of routes to choose the width of its values.
struct RouteSummary {
  size_t routes = 0;
  NextHopId largest_id = 0;
  // Prefixes longer than /48.
  size_t long_routes = 0;
  // Distinct next hops, or pairs of these and prefix lengths, if lengths are
  // kept; counted only where largest_id or that calls for it.
  size_t next_hops = 0;
};

// Where all ids are small, values are ids. Otherwise values count the distinct
// ids as they come, and next_hops() leads back. If prefix lengths are kept,
// values count the distinct pairs of an id and a length, and prefix_lengths()
// leads to the latter. Value 0 is kNoRoute. Thread-compatible.
class ValueMap {
 public:
  // The narrowest map that does for such routes, of `min_bytes` at least; for
  // no more than `most` next hops.
  ValueMap(const RouteSummary& summary, const FibOptions& options,
           int min_bytes, uint32_t most);

  // One for other routes, without values so far: the narrowest that does, if
  // they have as many next hops as this one knows and take so many descriptors.
  ValueMap Anew(const RouteSummary& routes, size_t descriptors) const;

  // True if the width depends on how many distinct ids or pairs there are.
  static bool NeedsCount(const RouteSummary& summary,
                         const FibOptions& options);

  // What one value stands for: an id, and above it a length if these are kept.
  static uint64_t KeyOf(const Route& route, const FibOptions& options) {
    return route.next_hop |
           (options.prefix_lengths
                ? static_cast<uint64_t>(route.prefix.length()) << kLengthShift
                : 0);
  }

  // 0, and overflow() from then on, if there is no value left for `route`.
  uint32_t ToValue(const Route& route) {
    if (identity_) {
      if (route.next_hop < limit_) return route.next_hop;
      overflow_ = true;
      return 0;
    }
    const uint64_t key = KeyOf(route, options_);
    if (key == last_key_) return last_value_;
    return Map(key);
  }

  // REQUIRES: ToValue returned `value`, or it is 0.
  NextHopId NextHopOf(uint32_t value) const {
    return identity_ ? value : next_hops_[static_cast<std::ptrdiff_t>(value)];
  }

  // Bytes of a value: 1, 2 or 4.
  int value_bytes() const { return value_bytes_; }
  bool overflow() const { return overflow_; }
  // Distinct next hops or pairs that there are values for.
  uint32_t most() const { return limit_ - 1; }
  const FibOptions& options() const { return options_; }

  // Ids by value, or nullptr if values are ids. Entries that exist do not
  // change; when the array is full, a larger one takes its place.
  const std::shared_ptr<NextHopId[]>& next_hops() const { return next_hops_; }
  size_t next_hop_count() const { return size_; }
  // Lengths by value, as many, or nullptr if these are not kept.
  const std::shared_ptr<uint8_t[]>& prefix_lengths() const {
    return prefix_lengths_;
  }

 private:
  static constexpr int kLengthShift = 32;

  uint32_t Map(uint64_t key);
  template <typename Values>
  uint32_t MapIn(Values& values, uint64_t key);
  void Grow(size_t capacity);

  const FibOptions options_;
  const uint32_t most_;
  int value_bytes_;
  bool identity_;
  uint32_t limit_;  // values are below
  bool overflow_ = false;
  uint64_t last_key_ = kNoRoute;
  uint32_t last_value_ = 0;
  absl::flat_hash_map<NextHopId, uint32_t> values_;
  absl::flat_hash_map<uint64_t, uint32_t> pairs_;  // if lengths are kept
  std::shared_ptr<NextHopId[]> next_hops_;
  std::shared_ptr<uint8_t[]> prefix_lengths_;
  size_t size_ = 0, capacity_ = 0;
};

// Compiles what lies in one /48 that prefixes longer than /48 divide.
// Thread-compatible.
class DescriptorCompiler {
 public:
  DescriptorCompiler(const ValueMap& values, const LeafShape& shape,
                     LinePool& lines, DescriptorPool& descriptors)
      : values_(values),
        shape_(shape),
        descriptors_(descriptors),
        slots_(shape, lines, /*tables_apart=*/true) {}

  // Compiles the slot of `length` bits at the first interval's start and
  // returns the value that stands for it: that of its only interval, or a
  // flagged one that no other slot has, or 0 on overflow(). O(intervals).
  // The first descriptor has `most` bits at most.
  // REQUIRES: all intervals in the slot; 48 <= length; < 128 if there are two;
  // length <= most.
  uint32_t CompileSlot(const IntervalList<absl::uint128>& intervals, int length,
                       int most = 128);

  // What lies from `first` to `last`, as the structure below a descriptor of
  // `length` bits has it: by keys, with a value for each slot that is cut.
  // O(intervals). REQUIRES: `first` and `last` begin like the descriptor, and
  // bound slots of it; an interval begins at `first` or before.
  IntervalList<uint32_t> Cut(const IntervalList<absl::uint128>& intervals,
                             absl::uint128 first, absl::uint128 last,
                             int length);

  // The flagged value of a new descriptor, or 0 on overflow().
  uint32_t Add(const Descriptor& descriptor);

  // What compiles the structures below descriptors.
  SlotCompiler& slots() { return slots_; }

  // True if there were more descriptors than flagged values can name, or than
  // the pool may have; the result is then of no use.
  bool overflow() const { return overflow_; }

 private:
  uint32_t Compile(const IntervalList<absl::uint128>& intervals, int length,
                   int most);
  // What `upper_entry` is beside `entry`, in a descriptor of the first `length`
  // bits of `base`, compiled for a slot of these intervals.
  uint32_t UpperEntry(const IntervalList<absl::uint128>& intervals,
                      absl::uint128 base, int length, uint32_t entry) const;

  const ValueMap& values_;
  const LeafShape& shape_;
  DescriptorPool& descriptors_;
  SlotCompiler slots_;
  bool overflow_ = false;
};

// The first `length` bits, 1..128.
inline absl::uint128 Mask(int length) {
  return absl::Uint128Max() << (128 - length);
}

// The 32 bits from bit `from`; 0 past the end.
inline uint32_t KeyAt(absl::uint128 address, int from) {
  return from == 128 ? 0
                     : static_cast<uint32_t>(
                           absl::Uint128High64(address << from) >> 32);
}

// Bits 0..47 of left-aligned bits: what the main walk of a FIB decides on.
inline uint64_t MainBits(absl::uint128 bits) {
  return absl::Uint128High64(bits) >> (64 - kMainBits);
}
// The same of the first address of a route.
inline uint64_t MainBits(const PackedRoute& route) {
  return route.high >> (64 - kMainBits);
}

// A slot of the root or of a table below it, in the main walk: the addresses
// with bits 0..47 as in `low`, but for the last `width` of these bits.
struct MainSlot {
  uint64_t low;
  int width;

  uint64_t last() const { return low | ((uint64_t{1} << width) - 1); }
  int length() const { return kMainBits - width; }
};
// Of a slot of the root.
inline constexpr int kBelowRoot = kMainBits - kRootBits;

// What a slot of the main walk is called in its table's key: bits 0..31 in the
// first table, 16..47 further down.
inline uint32_t KeyOf(const MainSlot& slot) {
  return static_cast<uint32_t>(slot.width == kBelowRoot ? slot.low >> 16
                                                        : slot.low);
}

// A table in the main walk, and the slot that it divides: into smaller ones
// that leave `below` bits open.
struct MainTable {
  MainSlot slot;
  int below;
  uint32_t first;  // entry of the lines

  uint32_t entries() const { return uint32_t{1} << (slot.width - below); }
  // The entry that says where `low` is, and its slot.
  uint32_t IndexOf(uint64_t low) const {
    return static_cast<uint32_t>((low - slot.low) >> below);
  }
  MainSlot SlotAt(uint32_t index) const {
    return {slot.low + (uint64_t{index} << below), below};
  }
  // The one of the slot, which leads here. REQUIRES: `first` begins a line.
  uint32_t Entry() const {
    const int shift = below - (slot.width == kBelowRoot ? 16 : 0);
    return MakeEntry(kTableEntry,
                     first / kLineWords - (KeyOf(slot) >> shift) / kLineWords,
                     shift);
  }
};
// The one that `entry`, the slot's, leads to. REQUIRES: it is a table's.
inline MainTable MainTableAt(uint32_t entry, const MainSlot& slot) {
  return {.slot = slot,
          .below = ShiftOf(entry) + (slot.width == kBelowRoot ? 16 : 0),
          .first = TableIndex(entry, KeyOf(slot))};
}

// Compiles routes to the root, lines and descriptors of a FIB. Owns the pools
// that it writes to. Thread-compatible. Once failed(), the result is of no use:
// start again with a wider ValueMap, unless CheckLimits() says that none is
// wide enough.
class TableCompiler {
 public:
  TableCompiler(Family family, ValueMap values, size_t expected_routes,
                const FibLimits& limits);
  // Its parts refer to each other.
  TableCompiler(const TableCompiler&) = delete;
  TableCompiler& operator=(const TableCompiler&) = delete;

  // Compiles all routes. O(routes).
  // REQUIRES: strictly ascending; nothing compiled so far.
  void CompileAll(absl::Span<const Route> routes);
  void CompileAll(const RouteSet& routes);

  // Compiles one slot anew and writes its entry to `position`.
  // O(routes in the slot + log routes).
  void CompileSlot(const RouteSet& routes, const MainSlot& slot,
                   Position position);
  // The same for the slots from entry `begin` of `table` to before `end`.
  void CompileSlots(const RouteSet& routes, const MainTable& table,
                    uint32_t begin, uint32_t end);

  // The intervals of one slot, which has no table: good until the next call of
  // this or of CompileSlot. Compiles the descriptors in it.
  // O(routes in the slot + log routes).
  const IntervalList<uint64_t>& IntervalsOf(const RouteSet& routes,
                                            const MainSlot& slot);
  // The same for `prefix`, longer than kMainBits, with all bits of addresses;
  // nothing is compiled.
  const IntervalList<absl::uint128>& LongIntervalsOf(const RouteSet& routes,
                                                     const Prefix& prefix);
  // The value of the route of `prefix`, or of what covers it.
  uint32_t ValueOf(const RouteSet& routes, const Prefix& prefix);
  SlotCompiler& slots() { return slots_; }
  DescriptorCompiler& long_slots() { return descriptor_compiler_; }

  void WriteEntry(Position position, uint32_t entry) {
    slots_.WriteEntry(position, entry);
  }
  uint32_t EntryAt(Position position) {
    const uint32_t index = position.index;
    return position.apart != nullptr
               ? *position.apart
               : lines_.at(index / kLineWords)->words[index % kLineWords];
  }

  // The addresses of a slot.
  Prefix PrefixOf(const MainSlot& slot) const;

  // True if there are more next hops or descriptors than values for them, or
  // more of anything than the limits allow.
  bool failed() const {
    return values_.overflow() || descriptor_compiler_.overflow() ||
           lines_.overflow();
  }

  // RESOURCE_EXHAUSTED, saying of what there is too much, if values of any
  // width fail.
  absl::Status CheckLimits() const;

  FibRoot& root() { return root_; }
  const FibRoot& root() const { return root_; }
  LinePool& lines() { return lines_; }
  DescriptorPool& descriptors() { return descriptors_; }
  const ValueMap& values() const { return values_; }
  const LeafShape& shape() const { return shape_; }
  Family family() const { return family_; }

  // Bytes of the lists of intervals of the main walk, which keep the size that
  // the largest slot has made them.
  size_t list_bytes() const {
    return intervals_.starts.capacity() * sizeof(uint64_t) +
           intervals_.values.capacity() * sizeof(uint32_t) +
           slots_.list_bytes();
  }

 private:
  template <typename It>
  void CompileRange(It begin, It end);
  template <typename It, typename Intervals>
  void EnterRoutes(It it, It end, uint64_t last_main, Intervals& intervals);
  template <typename It>
  void EnterLongRoutes(It& it, It end, absl::uint128 first, absl::uint128 last,
                       uint32_t cover);
  const IntervalList<uint64_t>& IntervalsBetween(const RouteSet& routes,
                                                 const MainSlot& first,
                                                 uint64_t last);
  uint32_t ValueOf(const RouteSet& routes, const Prefix& prefix,
                   RouteSet::const_iterator& it);

  // Where what begins in another root slot ends the one before.
  void AddRootInterval(uint64_t start, uint32_t value);

  const Family family_;
  ValueMap values_;
  const LeafShape shape_;
  LinePool lines_;
  DescriptorPool descriptors_;
  FibRoot root_ = {};
  SlotCompiler slots_;
  DescriptorCompiler descriptor_compiler_;

  // Of the slot being compiled, and of the /48 in it.
  IntervalList<uint64_t> intervals_;
  IntervalList<absl::uint128> long_intervals_;
  uint32_t root_slot_ = 0;
};

// What an update may use at most, by what the last full compilation used. One
// that needs more compiles everything.
inline constexpr size_t kUpdateAside = 4 * kMaxBlockLines;
constexpr size_t MostUpdatedLines(size_t compact) {
  return 3 * compact + 3 * kUpdateAside;
}
constexpr size_t MostUpdatedDescriptors(size_t compact) {
  return 3 * compact + 2 * kUpdateAside;
}

// Compiles `routes` with the narrowest values that hold them. Errors:
// RESOURCE_EXHAUSTED if the table exceeds a limit.
absl::StatusOr<std::unique_ptr<TableCompiler>> CompileTable(
    Family family, absl::Span<const Route> routes, const FibOptions& options,
    const FibLimits& limits);
absl::StatusOr<std::unique_ptr<TableCompiler>> CompileTable(
    Family family, const RouteSet& routes, const FibOptions& options,
    const FibLimits& limits);

// Makes the Fib of what a TableCompiler compiled. A friend of Fib.
class FibBuilder {
 public:
  // A FIB of what `table` says now, in `arena`, where its lines and descriptors
  // already are. `root` is the table's.
  static std::unique_ptr<const Fib> Make(const TableCompiler& table,
                                         std::shared_ptr<FibArena> arena,
                                         uint64_t generation,
                                         std::unique_ptr<FibRoot> root);
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_COMPILER_H_
