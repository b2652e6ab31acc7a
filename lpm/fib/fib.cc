// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/fib_walk.h"
#include "lpm/fib/partition_compiler.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/kernel_table.h"
#include "lpm/kernels/layout.h"

namespace planb {

std::unique_ptr<const Fib> FibBuilder::Make(const TableCompiler& table,
                                            std::shared_ptr<FibArena> arena,
                                            uint64_t generation,
                                            std::unique_ptr<FibRoot> root) {
  std::unique_ptr<Fib> fib(new Fib);
  // First what the destructor goes by: an allocation below may throw.
  fib->arena_ = std::move(arena);
  fib->generation_ = generation;
  fib->arena_->Enter(generation);
  fib->family_ = table.family();
  fib->value_bytes_ = table.values().value_bytes();
  fib->root_ = std::move(root);
  fib->next_hops_ = table.values().next_hops();
  fib->prefix_lengths_ = table.values().prefix_lengths();
  fib->next_hop_count_ = table.values().next_hop_count();
  return fib;
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes, const FibOptions& options) {
  return Build(family, routes, options, FibLimits());
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes, const FibOptions& options,
    const FibLimits& limits) {
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    ABSL_RAW_CHECK(route.prefix.family() == family, "route of another family");
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
    previous = &route;
  }
  const absl::StatusOr<std::unique_ptr<TableCompiler>> compiled =
      CompileTable(family, routes, options, limits);
  if (!compiled.ok()) return compiled.status();
  TableCompiler& table = **compiled;
  // Of exactly the size needed.
  auto arena = std::make_shared<FibArena>(
      table.lines().used(), table.descriptors().used(), table.lines().used(),
      FibArena::Memory::kNow);
  table.lines().MoveTo(arena->lines(), arena->line_capacity());
  table.descriptors().MoveTo(arena->descriptors(),
                             arena->descriptor_capacity());
  return FibBuilder::Make(table, std::move(arena), 0,
                          std::make_unique<FibRoot>(table.root()));
}

Fib::~Fib() { arena_->Leave(generation_, std::move(root_)); }

FibView Fib::View() const {
  return {root_->entries.data(), arena_->lines(), arena_->descriptors(),
          next_hops_.get(), value_bytes_};
}

void Fib::Lookup(const void* addresses, size_t count, void* next_hops,
                 const Kernel& kernel) const {
  kernel.lookup(View(), family_, addresses, count, next_hops);
}

void Fib::LookupWithLengths(const void* addresses, size_t count,
                            void* next_hops, void* lengths,
                            const Kernel& kernel) const {
  ABSL_RAW_CHECK(keeps_prefix_lengths(), "the FIB has no prefix lengths");
  FibView view = View();
  view.prefix_lengths = prefix_lengths_.get();
  kernel.lookup_with_lengths(view, family_, addresses, count, next_hops,
                             lengths);
}

void Fib::LookupUpper(const void* upper_halves, size_t count, void* next_hops,
                      const Kernel& kernel) const {
  ABSL_RAW_CHECK(family_ == Family::kIpv6, "an IPv4 address has no upper half");
  kernel.lookup_upper(View(), upper_halves, count, next_hops);
}

NextHopId Fib::Lookup(const Address& address, const Kernel& kernel) const {
  ABSL_RAW_CHECK(address.family() == family_, "address of another family");
  // Not ToPacked(), which may allocate.
  const std::array<uint64_t, 2> packed = {
      htobe64(absl::Uint128High64(address.bits())),
      htobe64(absl::Uint128Low64(address.bits()))};
  NextHopId next_hop;
  Lookup(packed.data(), 1, &next_hop, kernel);
  return le32toh(next_hop);
}

size_t Fib::own_bytes() { return sizeof(Fib) + sizeof(FibRoot); }

size_t Fib::bytes() const {
  return own_bytes() + arena_->bytes() +
         next_hop_count_ *
             (sizeof(NextHopId) + (keeps_prefix_lengths() ? 1 : 0));
}

namespace {

// Counts what a FIB consists of. A visitor of fib_walk.h.
class StatsVisitor {
 public:
  explicit StatsVisitor(const FibView& fib)
      : fib_(fib), shape_(fib.value_bytes) {}

  FibStats Count() {
    for (uint32_t slot = 0; slot < kRootEntries; ++slot) {
      WalkRootEntry(fib_.lines, fib_.root[slot], slot, *this);
    }
    stats_.value_bytes = fib_.value_bytes;
    stats_.root_bytes = sizeof(FibRoot);
    return stats_;
  }

  void EnterTable(uint32_t entries) {
    ++stats_.tables;
    stats_.table_bytes += entries * sizeof(uint32_t);
    stats_.table_steps = std::max(stats_.table_steps, ++depth_.tables);
  }
  void LeaveTable(uint32_t) { --depth_.tables; }

  // Visits the part of the partition that belongs to the slot.
  void Partition(uint32_t entry, uint32_t key, int width) {
    const bool wide = TypeOf(entry) == kWideEntry;
    // First and last key of the slot, in the partition's terms.
    const uint32_t mask = wide ? ~uint32_t{0} : 0xffff;
    const uint32_t low = (key >> ShiftOf(entry)) & mask;
    const uint32_t last =
        static_cast<uint32_t>((key + ((uint64_t{1} << width) - 1)) >>
                              ShiftOf(entry)) &
        mask;
    bool begun = false;
    uint32_t before = 0;  // the value in force where the slot begins
    const uint32_t leaves = ForEachInterval(
        fib_.lines, entry, shape_, [&](uint32_t start, uint32_t value) {
          if (start <= low) before = value;
          if (start <= low || start > last) return;
          if (!begun) Value(before);
          begun = true;
          Value(value);
        });
    if (!begun) Value(before);
    if (seen_.insert(PayloadOf(entry)).second) {
      stats_.partition_bytes += (1 + leaves) * sizeof(Line);
      ++(wide ? stats_.wide_partitions : stats_.narrow_partitions);
    }
  }

  // An interval, in the order of addresses, goes on or begins.
  void Value(uint32_t value) {
    if ((value & shape_.flag) != 0) {
      return Visit(fib_.descriptors[value & (shape_.flag - 1)]);
    }
    if (stats_.intervals == 0 || value != last_value_) ++stats_.intervals;
    last_value_ = value;
  }

 private:
  // How far down the walk is.
  struct Depth {
    int tables = 0;
    int descriptors = 0;
    // Of the slots that have descriptors here.
    uint32_t slot_length = kMainBits;
  };

  void Visit(const Descriptor& descriptor) {
    const Depth above = depth_;
    ++stats_.descriptors;
    stats_.descriptor_bytes += sizeof(Descriptor);
    stats_.descriptor_steps =
        std::max(stats_.descriptor_steps, ++depth_.descriptors);
    // What is skipped: bits of the base between the slot's and its own.
    const absl::uint128 skipped =
        (absl::MakeUint128(descriptor.high, descriptor.low) &
         ~(absl::Uint128Max() << (128 - depth_.slot_length))) >>
        (128 - descriptor.length);
    const absl::uint128 ones =
        (absl::uint128(1) << (descriptor.length - depth_.slot_length)) - 1;
    depth_.slot_length = static_cast<uint32_t>(
        SlotLengthBelow(static_cast<int>(descriptor.length)));
    if (skipped != 0) Value(descriptor.fallback);
    WalkEntry(fib_.lines, descriptor.entry, 0, 32, *this);
    if (skipped != ones) Value(descriptor.fallback);
    depth_ = above;
  }

  const FibView& fib_;
  const LeafShape shape_;
  FibStats stats_;
  Depth depth_;
  uint32_t last_value_ = 0;
  absl::flat_hash_set<uint32_t> seen_;  // partitions
};

}  // namespace

FibStats Fib::Stats() const {
  const FibView view = View();
  FibStats stats = StatsVisitor(view).Count();
  stats.next_hop_bytes = next_hop_count_ * sizeof(NextHopId);
  if (keeps_prefix_lengths()) stats.prefix_length_bytes = next_hop_count_;
  return stats;
}

}  // namespace planb
