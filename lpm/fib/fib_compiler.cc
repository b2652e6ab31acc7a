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
#include "lpm/fib/fib_walk.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {
namespace {

// Blocks that an update leaves unused, by their first element.
struct Garbage {
  std::vector<uint32_t> lines;
  std::vector<uint32_t> descriptors;
};

// Lists all that hangs on an entry as garbage. A visitor of fib_walk.h.
class GarbageVisitor {
 public:
  GarbageVisitor(TableCompiler& table, Garbage& garbage)
      : table_(table), lines_(table.lines()), garbage_(garbage) {}

  void EnterTable(uint32_t) {}
  void LeaveTable(uint32_t first_line) { garbage_.lines.push_back(first_line); }

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
  Garbage& garbage_;
};

// Changes a compiled table in part: writes anew what changed and the tables on
// the way to it, and lists what that leaves unused. Thread-compatible.
class TableUpdater {
 public:
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
    GarbageVisitor visitor(table_, garbage_);
    const Line* const lines = table_.lines().at(0);
    if (first_table) {
      WalkRootEntry(lines, entry, position.index, visitor);
    } else {
      WalkEntry(lines, entry, KeyOf(slot), slot.width, visitor);
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
    compact_routes_ = routes.size();
    compact_lines_ = table_->lines().used();
    compact_descriptors_ = table_->descriptors().used();
    compact_next_hops_ = table_->values().next_hop_count();
    table_->lines().SetLimit(
        std::min(limits_.lines, MostUpdatedLines(compact_lines_)));
    table_->descriptors().SetLimit(std::min(
        limits_.descriptors, MostUpdatedDescriptors(compact_descriptors_)));
    return Publish(/*compiled=*/true);
  }

  absl::StatusOr<std::unique_ptr<const Fib>> Update(
      const RouteSet& routes, absl::Span<const Prefix> changed) {
    ABSL_RAW_CHECK(called_, "Compile comes first");
    if (!std::exchange(published_, false)) {
      ++counters_.full;
      return Compile(routes);
    }
    if (BadlyPacked() || TooLargeToUpdate(routes.size()) ||
        routes.size() < compact_routes_ / 2) {
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
    Garbage garbage;
  };

  std::unique_ptr<const Fib> Publish(bool compiled) {
    ++generation_;
    LinePool& lines = table_->lines();
    DescriptorPool& descriptors = table_->descriptors();
    if (compiled || lines.at_home() || descriptors.at_home()) {
      if (!compiled) ++counters_.moved;
      auto arena = std::make_shared<FibArena>(
          std::min(WithRoom(lines.used(), 1024), lines.limit()),
          std::min(WithRoom(descriptors.used(), 64), descriptors.limit()));
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
    constexpr size_t kAside = kUpdateAside;
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

  void Free(const Garbage& garbage) {
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
  // The last full compilation, and what it took.
  size_t compact_routes_ = 0;
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
