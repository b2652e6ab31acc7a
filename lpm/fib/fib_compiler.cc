// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib_compiler.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/layout.h"
#include "lpm/kernels/table_walk.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {
namespace {

// Changes a compiled table in part: writes anew what changed and the tables on
// the way to it, and lists what that leaves unused. Thread-compatible.
class TableUpdater {
 public:
  // Blocks, by their first element.
  struct Garbage {
    std::vector<uint32_t> lines;
    std::vector<uint32_t> descriptors;
  };

  explicit TableUpdater(TableCompiler& table) : table_(table) {}

  // Makes the table that of `routes`, which differ from what it was compiled
  // from at most at `changed`. Writes to the root, and to lines and descriptors
  // that were not in use, but to none that were. If the table failed(), it is
  // of no use. REQUIRES: `changed` ascends, no prefix is shorter than
  // kRootBits.
  void Update(const RouteSet& routes, absl::Span<const Prefix> changed);

  // What Update left unused since this was last emptied.
  Garbage& garbage() { return garbage_; }

 private:
  using Changes = absl::Span<const Prefix>;

  void UpdateSlot(const RouteSet& routes, Changes changed, uint32_t entry,
                  const MainSlot& slot, Position position);
  uint32_t CopyTable(uint32_t entry, uint32_t first_key, int bits,
                     Position position);

  // All that hangs on an entry goes. `key` is the first of its slot, and
  // `width` the number of bits it leaves open.
  void RetireRootEntry(uint32_t entry, uint32_t slot);
  void RetireEntry(uint32_t entry, uint32_t key, int width);
  void RetirePartition(uint32_t first, bool narrow);
  void RetireValue(uint32_t value);

  TableCompiler& table_;
  Garbage garbage_;
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

// A change costs about as much as compiling this many routes anew.
constexpr size_t kRoutesPerChange = 48;

// Memory is given half as much again as it takes at first.
size_t WithRoom(size_t used, size_t least) { return used + used / 2 + least; }

}  // namespace

class FibCompiler::Impl {
 public:
  Impl(Family family, const FibLimits& limits)
      : family_(family), limits_(limits) {}

  absl::StatusOr<std::unique_ptr<const Fib>> Compile(const RouteSet& routes) {
    ABSL_RAW_CHECK(routes.family() == family_, "routes of another family");
    called_ = true;
    published_ = false;  // unless this comes to its end
    absl::StatusOr<std::unique_ptr<TableCompiler>> table =
        CompileTable(family_, routes, limits_);
    if (!table.ok()) return table.status();
    table_ = *std::move(table);
    updater_ = std::make_unique<TableUpdater>(*table_);
    retired_.clear();
    compact_lines_ = table_->lines().used();
    compact_descriptors_ = table_->descriptors().used();
    compact_next_hops_ = table_->values().next_hop_count();
    return Publish(/*compiled=*/true);
  }

  absl::StatusOr<std::unique_ptr<const Fib>> Update(
      const RouteSet& routes, absl::Span<const Prefix> changed) {
    ABSL_RAW_CHECK(called_, "Compile comes first");
    if (!std::exchange(published_, false)) {
      ++counters_.full;
      return Compile(routes);
    }
    if (BadlyPacked() || TooLargeToUpdate(routes.size())) {
      ++counters_.compacted;
      return Compile(routes);
    }
    changed_.assign(changed.begin(), changed.end());
    if (changed_.size() > 1) {
      std::sort(changed_.begin(), changed_.end());
      changed_.erase(std::unique(changed_.begin(), changed_.end()),
                     changed_.end());
    }
    const bool wide = std::any_of(
        changed_.begin(), changed_.end(),
        [](const Prefix& prefix) { return prefix.length() < kRootBits; });
    if (wide || changed_.size() > 64 + routes.size() / kRoutesPerChange) {
      ++counters_.full;
      return Compile(routes);
    }
    Reclaim();
    updater_->Update(routes, changed_);
    if (table_->failed()) {
      // Values must become wider, or blocks be packed.
      ++counters_.full;
      return Compile(routes);
    }
    ++counters_.incremental;
    return Publish(/*compiled=*/false);
  }

  const Counters& counters() const { return counters_; }

 private:
  // What a generation left unused, and no younger one will read.
  struct Retired {
    uint64_t generation;
    TableUpdater::Garbage garbage;
  };

  std::unique_ptr<const Fib> Publish(bool compiled) {
    ++generation_;
    LinePool& lines = table_->lines();
    DescriptorPool& descriptors = table_->descriptors();
    if (compiled || lines.at_home() || descriptors.at_home()) {
      if (!compiled) ++counters_.moved;
      auto arena = std::make_shared<FibArena>(WithRoom(lines.used(), 1024),
                                              WithRoom(descriptors.used(), 64));
      lines.MoveTo(arena->lines(), arena->line_capacity());
      descriptors.MoveTo(arena->descriptors(), arena->descriptor_capacity());
      // Not before both have moved: it may be the last to hold the old one.
      arena_ = std::move(arena);
      // In the new memory nothing is reached by older generations.
      for (Retired& retired : retired_) Free(retired.garbage);
      retired_.clear();
      Free(updater_->garbage());
    } else {
      retired_.push_back({generation_, std::move(updater_->garbage())});
    }
    updater_->garbage() = {};
    std::unique_ptr<const Fib> fib =
        FibBuilder::Make(*table_, arena_, generation_);
    published_ = true;
    return fib;
  }

  // What fib_bound.h takes for granted of the memory that an Update begins
  // with. Free lines count in the end, too: they are of use only to blocks of
  // their size.
  bool BadlyPacked() const {
    constexpr size_t kAside = 4 * kMaxBlockLines;
    const LinePool& lines = table_->lines();
    return lines.live() > 2 * compact_lines_ + kAside ||
           lines.used() > 3 * compact_lines_ + 2 * kAside ||
           table_->descriptors().live() > 2 * compact_descriptors_ + kAside ||
           table_->values().next_hop_count() > 2 * compact_next_hops_ + kAside;
  }

  // True if lines without a name might be needed: an update takes 2 lines a
  // route and 140,000 at most, and as many for tables as there are.
  bool TooLargeToUpdate(size_t routes) const {
    return table_->lines().used() > kMaxPayload / 4 || routes > kMaxPayload / 5;
  }

  void Reclaim() {
    const uint64_t oldest = arena_->Oldest(/*none=*/generation_ + 1);
    while (!retired_.empty() && retired_.front().generation <= oldest) {
      Free(retired_.front().garbage);
      retired_.pop_front();
    }
  }

  void Free(const TableUpdater::Garbage& garbage) {
    for (uint32_t first : garbage.lines) table_->lines().Free(first);
    for (uint32_t first : garbage.descriptors) {
      table_->descriptors().Free(first);
    }
  }

  const Family family_;
  const FibLimits limits_;
  bool called_ = false;  // Compile
  // The table is that of the last call's routes: nothing failed since.
  bool published_ = false;
  std::unique_ptr<TableCompiler> table_;
  std::unique_ptr<TableUpdater> updater_;
  std::shared_ptr<FibArena> arena_;
  uint64_t generation_ = 0;
  std::deque<Retired> retired_;  // oldest first
  // What a full compilation takes.
  size_t compact_lines_ = 0;
  size_t compact_descriptors_ = 0;
  size_t compact_next_hops_ = 0;
  std::vector<Prefix> changed_;
  Counters counters_;
};

FibCompiler::FibCompiler(Family family) : FibCompiler(family, FibLimits()) {}

FibCompiler::FibCompiler(Family family, const FibLimits& limits)
    : impl_(std::make_unique<Impl>(family, limits)) {}

FibCompiler::~FibCompiler() = default;

absl::StatusOr<std::unique_ptr<const Fib>> FibCompiler::Compile(
    const RouteSet& routes) {
  return impl_->Compile(routes);
}

absl::StatusOr<std::unique_ptr<const Fib>> FibCompiler::Update(
    const RouteSet& routes, absl::Span<const Prefix> changed) {
  return impl_->Update(routes, changed);
}

const FibCompiler::Counters& FibCompiler::counters() const {
  return impl_->counters();
}

}  // namespace planb
