// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_packer.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace planb {
namespace {

constexpr uint64_t kMainEnd = uint64_t{1} << kMainBits;

// To look at a route takes a quarter of what it takes to compile one, and a
// slot without routes as much as a few.
constexpr size_t kSurveyed = 4;
constexpr size_t kSlotWork = 8;
constexpr size_t kEntriesPerWork = 8;  // of a table

// What the tables of slots that no step can compile count for, as fib_bound.cc
// has it.
constexpr size_t kCutsPerTableLine = 32;

// So many portions of routes are compiled at once, where they were so few
// intervals as to need no table.
constexpr size_t kMergedPortions = 4;

// Of a table of a slot that has none in the table in use, and the least.
constexpr int kTableBits = 8;
constexpr int kLeastTableBits = 4;

// The entry of a slot in `table`, or one of a value if it has none of its own.
uint32_t EntryOf(TableCompiler& table, const MainSlot& slot) {
  const uint64_t root = slot.low >> kBelowRoot;
  MainSlot at = {root << kBelowRoot, kBelowRoot};
  uint32_t entry = table.root().entries[root];
  while (TypeOf(entry) == kTableEntry && at.width > slot.width) {
    const MainTable down = MainTableAt(entry, at);
    const uint32_t index = down.IndexOf(slot.low);
    at = down.SlotAt(index);
    entry = table.EntryAt({.index = down.first + index});
  }
  return at.width == slot.width ? entry : MakeEntry(kValueEntry, kNoRoute);
}

}  // namespace

TablePacker::TablePacker(TableCompiler& in_use, const FibLimits& limits,
                         size_t portion)
    : limits_(limits),
      portion_(portion),
      most_lines_(std::min(in_use.lines().live() + kUpdateAside, limits.lines)),
      most_descriptors_(std::min(in_use.descriptors().live() + kUpdateAside,
                                 limits.descriptors)) {}

bool TablePacker::Step(TableCompiler& in_use, const RouteSet& routes,
                       absl::Span<const Prefix> changed, size_t most) {
  if (arena_ == nullptr) {
    if (Survey(routes, kSurveyed * most)) {
      arena_ = std::make_shared<FibArena>(
          std::min(limits_.lines, MostUpdatedLines(most_lines_)),
          std::min(limits_.descriptors,
                   MostUpdatedDescriptors(most_descriptors_)),
          in_use.lines().live(), FibArena::Memory::kLater);
    }
    return false;
  }
  if (table_ == nullptr) {
    if (arena_->TakeHugePage()) return false;
    Begin(in_use);
  }
  size_t count = 0;
  while (count < changed.size() && MainBits(changed[count].first()) < next_) {
    ++count;
  }
  updater_->Update(routes, changed.first(count), /*generation=*/0,
                   /*oldest=*/0, /*end=*/next_);
  updater_->roots().clear();
  cuts_ = 0;
  for (size_t work = 0; work < most && next_ < kMainEnd && !failed();) {
    work += CompileSome(in_use, routes);
  }
  if (failed()) return true;
  const size_t tables = std::min(begun_lines_, cuts_ / kCutsPerTableLine);
  compiled_lines_ += tables;
  begun_lines_ -= tables;
  return next_ == kMainEnd;
}

TablePacker::Packed TablePacker::Take() && {
  return {.table = std::move(table_),
          .updater = std::move(updater_),
          .arena = std::move(arena_),
          .compiled_lines = compiled_lines_,
          // Without those of routes that may count twice.
          .compiled_descriptors =
              compiled_descriptors_ - compiled_descriptors_ / 32};
}

size_t TablePacker::bytes() const {
  const size_t taken = arena_ == nullptr ? 0 : arena_->taken_bytes();
  return table_ == nullptr
             ? taken
             : std::max(table_->lines().used() * sizeof(Line), taken) +
                   table_->descriptors().used() * sizeof(Descriptor);
}

// Looks at `most` routes more. True if that was all of them.
bool TablePacker::Survey(const RouteSet& routes, size_t most) {
  auto it = routes.begin();
  if (surveyed_.has_value()) {
    it = routes.LowerBound(*surveyed_);
    if (it != routes.end() && it->prefix == *surveyed_) ++it;
  }
  for (; it != routes.end() && most > 0; ++it, --most) {
    const Route route = *it;
    summary_.largest_id = std::max(summary_.largest_id, route.next_hop);
    if (route.prefix.length() > kMainBits) ++summary_.long_routes;
    surveyed_ = route.prefix;
  }
  return it == routes.end();
}

void TablePacker::Begin(TableCompiler& in_use) {
  table_ = std::make_unique<TableCompiler>(
      in_use.family(),
      in_use.values().Anew(summary_, in_use.descriptors().live()),
      /*expected_routes=*/0,
      FibLimits{.lines = arena_->line_capacity(),
                .descriptors = arena_->descriptor_capacity(),
                .next_hops = limits_.next_hops});
  LinePool& lines = table_->lines();
  DescriptorPool& descriptors = table_->descriptors();
  lines.MoveTo(arena_->lines(), arena_->line_capacity());
  descriptors.MoveTo(arena_->descriptors(), arena_->descriptor_capacity());
  lines.SetLimit(most_lines_);
  descriptors.SetLimit(most_descriptors_);
  updater_ = std::make_unique<TableUpdater>(*table_);
}

// Compiles the next slots, as long as they have few routes, or a part of one.
// Returns to how many routes' work that came.
size_t TablePacker::CompileSome(TableCompiler& in_use, const RouteSet& routes) {
  const uint64_t root = next_ >> kBelowRoot;
  MainSlot slot = {root << kBelowRoot, kBelowRoot};
  Position position = {.apart = &table_->root().entries[root]};
  if (next_ == slot.low) {
    const Portion portion = NextPortion(in_use, routes, slot, slot.last());
    if (portion.slots > 0) {
      const uint32_t before = *position.apart;
      Count([&] { table_->CompileSlot(routes, slot, position); });
      if (!failed()) Drop(before, slot);
      next_ = slot.last() + 1;
      cuts_ += portion.cuts;
      return kSlotWork + portion.routes;
    }
    BeginTable(in_use, slot, position);
  }
  while (!failed()) {
    const uint32_t entry = table_->EntryAt(position);
    if (TypeOf(entry) != kTableEntry) {
      // A change of what covers it had all of it compiled.
      next_ = slot.last() + 1;
      return kSlotWork;
    }
    const MainTable table = MainTableAt(entry, slot);
    const uint32_t begin = table.IndexOf(next_);
    const MainSlot child = table.SlotAt(begin);
    position = {.index = table.first + begin};
    if (next_ == child.low) {
      const Portion portion = NextPortion(in_use, routes, child, slot.last());
      if (portion.slots > 0) {
        CompileSlots(routes, table, begin, begin + portion.slots);
        cuts_ += portion.cuts;
        return kSlotWork + portion.slots / kEntriesPerWork + portion.routes;
      }
      BeginTable(in_use, child, position);
    }
    slot = child;
  }
  return 0;
}

// Counts all that `compile` takes, also for slots that an update of a prefix
// that reaches past next_ has compiled: what that took is dropped afterwards.
template <typename Compile>
void TablePacker::Count(Compile compile) {
  const size_t lines = table_->lines().live();
  const size_t descriptors = table_->descriptors().live();
  compile();
  compiled_lines_ += table_->lines().live() - lines;
  compiled_descriptors_ += table_->descriptors().live() - descriptors;
}

// How many slots, from `first` on and up to address `last`, one step compiles.
TablePacker::Portion TablePacker::NextPortion(TableCompiler& in_use,
                                              const RouteSet& routes,
                                              const MainSlot& first,
                                              uint64_t last) const {
  Portion portion;
  // Routes that have much in common are a partition, however many.
  const size_t most = TypeOf(EntryOf(in_use, first)) == kTableEntry
                          ? portion_
                          : kMergedPortions * portion_;
  uint64_t last_long = ~uint64_t{0};
  for (auto it = routes.LowerBound(table_->PrefixOf(first)); it != routes.end();
       ++it) {
    const Prefix prefix = (*it).prefix;
    const uint64_t at = MainBits(prefix.first());
    if (at > last) break;
    ++portion.routes;
    // What is longer than a /48 does not divide it.
    if (prefix.length() <= kMainBits || at != std::exchange(last_long, at)) {
      ++portion.cuts;
    }
    if (portion.routes <= portion_) continue;
    portion.slots = static_cast<uint32_t>((at - first.low) >> first.width);
    if (portion.slots > 0) return portion;
    if (portion.cuts > most && OpenBits(first) >= kLeastTableBits) {
      return portion;
    }
  }
  portion.slots = static_cast<uint32_t>((last - first.low) >> first.width) + 1;
  return portion;
}

// Those of `width` that addresses have.
int TablePacker::OpenBits(const MainSlot& slot) const {
  return std::min(kMainBits, AddressBits(table_->family())) - slot.length();
}

// Makes `slot` a table, of slots that are not compiled yet.
void TablePacker::BeginTable(TableCompiler& in_use, const MainSlot& slot,
                             Position position) {
  const uint32_t model = EntryOf(in_use, slot);
  const int bits = TypeOf(model) == kTableEntry
                       ? slot.width - MainTableAt(model, slot).below
                       : std::min(kTableBits, OpenBits(slot));
  const uint32_t before = table_->EntryAt(position);
  const uint32_t size = (uint32_t{1} << bits) / kLineWords;
  const uint32_t first = table_->lines().Allocate(size);
  if (failed()) return;
  begun_lines_ += size;
  for (uint32_t i = first; i < first + size; ++i) {
    std::fill_n(table_->lines().at(i)->words, kLineWords,
                MakeEntry(kValueEntry, kNoRoute));
  }
  table_->WriteEntry(position, MainTable{.slot = slot,
                                         .below = slot.width - bits,
                                         .first = first * kLineWords}
                                   .Entry());
  Drop(before, slot);
}

// Compiles slots of a table, in place of what an update may have put there.
void TablePacker::CompileSlots(const RouteSet& routes, const MainTable& table,
                               uint32_t begin, uint32_t end) {
  std::vector<uint32_t> before;
  for (uint32_t i = begin; i < end; ++i) {
    before.push_back(table_->EntryAt({.index = table.first + i}));
  }
  Count([&] { table_->CompileSlots(routes, table, begin, end); });
  if (failed()) return;
  for (uint32_t i = begin; i < end; ++i) {
    Drop(before[i - begin], table.SlotAt(i));
  }
  next_ = table.SlotAt(end - 1).last() + 1;
}

void TablePacker::Drop(uint32_t entry, const MainSlot& slot) {
  GarbageVisitor visitor(*table_, no_spares_, garbage_);
  visitor.WalkSlot(entry, slot);
}

}  // namespace planb
