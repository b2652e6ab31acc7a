// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/partition_compiler.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/kernel_table.h"
#include "lpm/kernels/layout.h"
#include "lpm/kernels/table_walk.h"

namespace planb {

std::unique_ptr<const Fib> FibBuilder::Make(TableCompiler& table,
                                            std::shared_ptr<FibArena> arena,
                                            uint64_t generation) {
  std::unique_ptr<Fib> fib(new Fib);
  // First what the destructor goes by: an allocation below may throw.
  fib->arena_ = std::move(arena);
  fib->generation_ = generation;
  fib->arena_->Enter(generation);
  fib->family_ = table.family();
  fib->value_bytes_ = table.values().value_bytes();
  fib->root_ = std::make_unique<FibRoot>(table.root());
  fib->next_hops_ = table.values().next_hops();
  fib->next_hop_count_ = table.values().next_hop_count();
  return fib;
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes) {
  return Build(family, routes, FibLimits());
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes, const FibLimits& limits) {
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    ABSL_RAW_CHECK(route.prefix.family() == family, "route of another family");
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
    previous = &route;
  }
  const absl::StatusOr<std::unique_ptr<TableCompiler>> compiled =
      CompileTable(family, routes, limits);
  if (!compiled.ok()) return compiled.status();
  TableCompiler& table = **compiled;
  // Of exactly the size needed.
  auto arena = std::make_shared<FibArena>(table.lines().used(),
                                          table.descriptors().used());
  table.lines().MoveTo(arena->lines(), arena->line_capacity());
  table.descriptors().MoveTo(arena->descriptors(),
                             arena->descriptor_capacity());
  return FibBuilder::Make(table, std::move(arena), 0);
}

Fib::~Fib() { arena_->Leave(generation_); }

FibView Fib::View() const {
  return {root_->entries.data(), arena_->lines(), arena_->descriptors(),
          next_hops_.get(), value_bytes_};
}

void Fib::Lookup(const void* addresses, size_t count, void* next_hops,
                 const Kernel& kernel) const {
  kernel.lookup(View(), family_, addresses, count, next_hops);
}

void Fib::LookupUpper(const void* upper_halves, size_t count, void* next_hops,
                      const Kernel& kernel) const {
  ABSL_RAW_CHECK(family_ == Family::kIpv6, "an IPv4 address has no upper half");
  kernel.lookup_upper(View(), upper_halves, count, next_hops);
}

NextHopId Fib::Lookup(const Address& address, const Kernel& kernel) const {
  ABSL_RAW_CHECK(address.family() == family_, "address of another family");
  NextHopId next_hop;
  Lookup(address.ToPacked().data(), 1, &next_hop, kernel);
  return le32toh(next_hop);
}

size_t Fib::own_bytes() { return sizeof(Fib) + sizeof(FibRoot); }

size_t Fib::bytes() const {
  return own_bytes() + arena_->line_capacity() * sizeof(Line) +
         arena_->descriptor_capacity() * sizeof(Descriptor) +
         next_hop_count_ * sizeof(NextHopId);
}

namespace {

class StatsWalk {
 public:
  explicit StatsWalk(const FibView& fib) : fib_(fib), shape_(fib.value_bytes) {}

  FibStats Walk() {
    for (uint32_t slot = 0; slot < kRootEntries; ++slot) {
      WalkRootEntry(fib_.root[slot], slot);
    }
    stats_.value_bytes = fib_.value_bytes;
    stats_.root_bytes = sizeof(FibRoot);
    return stats_;
  }

 private:
  // How far down the walk is.
  struct Depth {
    int tables = 0;
    int descriptors = 0;
    // Of the slots that have descriptors here.
    uint32_t slot_length = kMainBits;
  };

  void WalkRootEntry(uint32_t entry, uint32_t slot) {
    if (TypeOf(entry) != kTableEntry) return WalkValue(PayloadOf(entry), {});
    const Depth below = EnterTable(1u << (32 - kRootBits - ShiftOf(entry)), {});
    ForEachSlotBelowRoot(fib_.lines, entry, slot,
                         [&](uint32_t child, uint32_t key, int width) {
                           WalkEntry(child, key, width, below);
                         });
  }

  // `key` is the first of the entry's slot, `width` the bits it leaves open.
  void WalkEntry(uint32_t entry, uint32_t key, int width, Depth at) {
    switch (TypeOf(entry)) {
      case kValueEntry:
        WalkValue(PayloadOf(entry), at);
        break;
      case kTableEntry: {
        const Depth below = EnterTable(1u << (width - ShiftOf(entry)), at);
        ForEachSlot(fib_.lines, entry, key, width,
                    [&](uint32_t child, uint32_t child_key, int child_width) {
                      WalkEntry(child, child_key, child_width, below);
                    });
        break;
      }
      case kWideEntry:
        WalkPartition<uint32_t>(entry, key, width, at);
        break;
      case kNarrowEntry:
        WalkPartition<uint16_t>(entry, key, width, at);
        break;
    }
  }

  Depth EnterTable(uint32_t size, Depth at) {
    ++stats_.tables;
    stats_.table_bytes += size * sizeof(uint32_t);
    ++at.tables;
    stats_.table_steps = std::max(stats_.table_steps, at.tables);
    return at;
  }

  // The part of the partition that belongs to the slot.
  template <typename Key>
  void WalkPartition(uint32_t entry, uint32_t key, int width, Depth at) {
    constexpr bool kWide = sizeof(Key) == 4;
    const char* const node =
        reinterpret_cast<const char*>(fib_.lines + PayloadOf(entry));
    const uint32_t separators = kWide ? kWideSeparators : kNarrowSeparators;
    const uint32_t in_leaf =
        kWide ? shape_.wide_intervals : shape_.narrow_intervals;
    const uint32_t values_at =
        kWide ? shape_.wide_values_at : shape_.narrow_values_at;
    const auto key_at = [](const char* from, uint32_t i) {
      Key value;
      std::memcpy(&value, from + i * sizeof(Key), sizeof(Key));
      return value;
    };
    constexpr Key kPadding = static_cast<Key>(~Key{0});
    uint32_t leaves = 1;
    while (leaves <= separators && key_at(node, leaves - 1) != kPadding) {
      ++leaves;
    }
    if (seen_.insert(PayloadOf(entry)).second) {
      stats_.partition_bytes += (1 + leaves) * sizeof(Line);
      stats_.partition_room += leaves * in_leaf;
      ++(kWide ? stats_.wide_partitions : stats_.narrow_partitions);
    }
    // Keys of this slot, in the partition's terms.
    const auto low = static_cast<Key>(key >> ShiftOf(entry));
    const auto last = static_cast<Key>((key + ((uint64_t{1} << width) - 1)) >>
                                       ShiftOf(entry));
    bool begun = false;
    uint32_t before = 0;  // the value in force where the slot begins
    for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
      const char* const from = node + (1 + leaf) * sizeof(Line);
      for (uint32_t i = 0; i < in_leaf; ++i) {
        const uint32_t value = shape_.ReadValue(from + values_at, i);
        const Key less_one = i > 0      ? key_at(from, i - 1)
                             : leaf > 0 ? key_at(node, leaf - 1)
                                        : Key{0};
        if (i + leaf > 0 && less_one == kPadding) break;
        const bool first = i + leaf == 0;
        const auto start = static_cast<Key>(first ? 0 : less_one + 1);
        if (first || start <= low) {
          before = value;
          continue;
        }
        if (start > last) break;
        if (!begun) WalkValue(before, at);
        begun = true;
        WalkValue(value, at);
      }
    }
    if (!begun) WalkValue(before, at);
  }

  // An interval, in the order of addresses, goes on or begins.
  void WalkValue(uint32_t value, Depth at) {
    if ((value & shape_.flag) != 0) {
      const Descriptor& descriptor =
          fib_.descriptors[value & (shape_.flag - 1)];
      ++stats_.descriptors;
      stats_.descriptor_bytes += sizeof(Descriptor);
      ++at.descriptors;
      stats_.descriptor_steps =
          std::max(stats_.descriptor_steps, at.descriptors);
      // What is skipped: bits of the base between the slot's and its own.
      const absl::uint128 skipped =
          (absl::MakeUint128(descriptor.high, descriptor.low) &
           ~(absl::Uint128Max() << (128 - at.slot_length))) >>
          (128 - descriptor.length);
      const absl::uint128 ones =
          (absl::uint128(1) << (descriptor.length - at.slot_length)) - 1;
      at.slot_length = static_cast<uint32_t>(
          SlotLengthBelow(static_cast<int>(descriptor.length)));
      if (skipped != 0) WalkValue(descriptor.fallback, at);
      WalkEntry(descriptor.entry, 0, 32, at);
      if (skipped != ones) WalkValue(descriptor.fallback, at);
      return;
    }
    if (stats_.intervals == 0 || value != last_value_) ++stats_.intervals;
    last_value_ = value;
  }

  const FibView& fib_;
  const LeafShape shape_;
  FibStats stats_;
  uint32_t last_value_ = 0;
  absl::flat_hash_set<uint32_t> seen_;  // partitions
};

}  // namespace

FibStats Fib::Stats() const {
  FibStats stats = StatsWalk(View()).Walk();
  stats.next_hop_bytes = next_hop_count_ * sizeof(NextHopId);
  return stats;
}

}  // namespace planb
