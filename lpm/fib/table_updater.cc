// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_updater.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib/fib_walk.h"
#include "lpm/kernels/layout.h"

namespace planb {
namespace {

// The changes at the beginning of the list that lie in `slot`.
size_t CountIn(absl::Span<const Prefix> changed, const MainSlot& slot) {
  size_t count = 0;
  while (count < changed.size() &&
         MainBits(changed[count].first()) <= slot.last()) {
    ++count;
  }
  return count;
}

// How many slots of `length` bits the changes lie in or cover, about.
uint64_t SlotsTouched(absl::Span<const Prefix> changed, int length) {
  uint64_t slots = 0, last = ~uint64_t{0};
  for (const Prefix& prefix : changed) {
    const uint64_t slot = MainBits(prefix.first()) >> (kMainBits - length);
    if (slot == std::exchange(last, slot) && prefix.length() >= length)
      continue;
    slots += uint64_t{1} << std::max(length - prefix.length(), 0);
  }
  return slots;
}

bool IsLong(const Prefix& prefix) { return prefix.length() > kMainBits; }

uint32_t RootIndex(const Prefix& prefix) {
  return static_cast<uint32_t>(MainBits(prefix.first()) >> kBelowRoot);
}

MainSlot RootSlot(uint32_t index) {
  return {uint64_t{index} << kBelowRoot, kBelowRoot};
}

// So many changes that cover slots of a table are edited if each is in the one
// before. The edit of one takes about a third of compiling what it covers.
constexpr size_t kMostNested = 4;

// Whether `visit` is true for all values, none with a flag, that addresses have
// in a slot: `entry` leads to it, and `slot` is its place in the key space of a
// descriptor of `length` bits. Ends at the first that is not.
template <typename Visit>
bool AllValues(TableCompiler& table, uint32_t entry, const MainSlot& slot,
               int length, const Visit& visit) {
  const LeafShape& shape = table.shape();
  const Line* const lines = table.lines().at(0);
  const auto all_of_value = [&](uint32_t value) {
    if ((value & shape.flag) == 0) return visit(value);
    const Descriptor& below = *table.descriptors().at(value & (shape.flag - 1));
    const auto bits = static_cast<int>(below.length);
    return (bits == SlotLengthBelow(length) || visit(below.fallback)) &&
           AllValues(table, below.entry, {0, 32}, bits, visit);
  };
  const auto low = static_cast<uint32_t>(slot.low);
  const auto last = static_cast<uint32_t>(slot.last());
  switch (TypeOf(entry)) {
    case kValueEntry:
      return all_of_value(PayloadOf(entry));
    case kTableEntry: {
      const int width = ShiftOf(entry);
      for (uint64_t key = low; key <= last; key += uint64_t{1} << width) {
        const uint32_t at = TableIndex(entry, static_cast<uint32_t>(key));
        if (!AllValues(table, lines[at / kLineWords].words[at % kLineWords],
                       {key, width}, length, visit)) {
          return false;
        }
      }
      return true;
    }
    default:
      break;
  }
  const bool narrow = TypeOf(entry) == kNarrowEntry;
  const auto in_partition = [&](uint32_t key) {
    return narrow ? key >> ShiftOf(entry) & 0xffff : key;
  };
  bool all = true;
  uint32_t at_low = 0;
  ForEachInterval(lines, entry, shape, [&](uint32_t start, uint32_t value) {
    if (start <= in_partition(low)) {
      at_low = value;
    } else if (start <= in_partition(last)) {
      all = all && all_of_value(value);
    }
  });
  return all && all_of_value(at_low);
}

}  // namespace

void TableUpdater::Update(const RouteSet& routes, Changes changed,
                          uint64_t generation, uint64_t oldest, uint64_t end) {
  copier_.Begin(generation, oldest);
  end_ = end;
  written_.clear();
  wide_.clear();
  for (const Prefix& prefix : changed) {
    if (prefix.length() <= kRootBits) wide_.push_back(prefix);
  }
  if (changed.size() > 1) Prefetch(changed);
  if (!wide_.empty()) UpdateWide(routes, changed);
  while (!changed.empty() && !table_.failed()) {
    const uint32_t root = RootIndex(changed[0]);
    const size_t count = CountIn(changed, RootSlot(root));
    if (wide_.empty() || !done_[root]) {
      UpdateRootSlot(routes, nullptr, changed.first(count), root);
    }
    changed.remove_prefix(count);
  }
}

// Begins to load the tables and partitions on the way of the first changes.
// Otherwise these would wait for memory one after the other.
void TableUpdater::Prefetch(Changes changed) {
  constexpr size_t kMost = 256;  // what a cache has room for
  // Of a partition: those that follow come by themselves.
  constexpr uint32_t kPartitionLines = 4;
  constexpr int kTables = 3;
  changed = changed.first(std::min(changed.size(), kMost));
  LinePool& lines = table_.lines();
  ahead_.clear();
  const auto ask = [&](Ahead& ahead) {
    const EntryType type = TypeOf(ahead.entry);
    const uint32_t payload = PayloadOf(ahead.entry);
    ahead.in_table = type == kTableEntry;
    if (ahead.in_table) {
      const MainTable table = MainTableAt(ahead.entry, ahead.slot);
      const uint32_t index = table.IndexOf(ahead.low);
      ahead.slot = table.SlotAt(index);
      ahead.word = table.first + index;
      __builtin_prefetch(lines.at(ahead.word / kLineWords), /*rw=*/0);
    } else if (type != kValueEntry) {
      for (uint32_t i = 0; i < kPartitionLines; ++i) {
        __builtin_prefetch(lines.at(payload + i), /*rw=*/0);
      }
    }
  };
  for (const Prefix& prefix : changed) {
    const uint64_t low = MainBits(prefix.first());
    const uint64_t root = low >> kBelowRoot;
    ahead_.push_back({.low = low,
                      .slot = {root << kBelowRoot, kBelowRoot},
                      .entry = table_.root().entries[root]});
    ask(ahead_.back());
  }
  for (int i = 0; i < kTables; ++i) {
    for (Ahead& ahead : ahead_) {
      if (!ahead.in_table) continue;
      ahead.entry = table_.EntryAt({.index = ahead.word});
      ask(ahead);
    }
  }
}

// Updates the slots of the root that changes hold, but for those in which these
// decide nothing. In each of them the longest decides alone.
void TableUpdater::UpdateWide(const RouteSet& routes, Changes changed) {
  done_.reset();
  std::sort(wide_.begin(), wide_.end(), [](const Prefix& a, const Prefix& b) {
    return a.length() > b.length();
  });
  const auto last_root = static_cast<uint32_t>((end_ - 1) >> kBelowRoot);
  for (const Prefix& prefix : wide_) {
    const uint32_t first = RootIndex(prefix);
    const uint32_t end = std::min(
        first + (uint32_t{1} << (kRootBits - prefix.length())), last_root + 1);
    for (uint32_t i = first; i < end && !table_.failed(); ++i) {
      i = CoverRoot(routes, prefix, i, end);
      if (i == end || done_[i]) continue;
      done_[i] = true;
      const MainSlot slot = RootSlot(i);
      const auto begin = std::partition_point(
          changed.begin(), changed.end(), [&slot](const Prefix& change) {
            return MainBits(change.first()) < slot.low;
          });
      const Changes from =
          changed.subspan(static_cast<size_t>(begin - changed.begin()));
      UpdateRootSlot(routes, &prefix, from.first(CountIn(from, slot)), i);
    }
  }
}

// Gives slots of the root from `i` on their value, as long as they have but one
// and `prefix`, which covers them, decides it alone or not at all. Returns the
// first other one, or `end`.
uint32_t TableUpdater::CoverRoot(const RouteSet& routes, const Prefix& prefix,
                                 uint32_t i, uint32_t end) {
  const auto is_value = [&](uint32_t slot) {
    return TypeOf(table_.root().entries[slot]) == kValueEntry;
  };
  if (!is_value(i)) return i;
  const uint32_t value = table_.ValueOf(routes, prefix);
  while (i < end && is_value(i)) {
    const Prefix slot = table_.PrefixOf(RootSlot(i));
    const RouteSet::const_iterator next = routes.LowerBound(slot);
    uint32_t free_end = end;  // no route begins in the slots before
    if (next != routes.end()) {
      free_end = std::min(end, RootIndex((*next).prefix));
    }
    if (free_end == i) return i;
    const std::optional<Route> cover = routes.Cover(slot, next);
    if (cover.has_value() && cover->prefix.length() > prefix.length()) {
      ++i;
      continue;
    }
    for (; i < free_end && is_value(i); ++i) {
      table_.root().entries[i] = MakeEntry(kValueEntry, value);
      roots_.push_back(i);
      done_[i] = true;
    }
  }
  return i;
}

// Updates a slot of the root where `changed`, which begin in it, changed, and
// `wide`, if any, which is the longest change that holds the slot.
void TableUpdater::UpdateRootSlot(const RouteSet& routes, const Prefix* wide,
                                  Changes changed, uint32_t root) {
  while (!changed.empty() && changed[0].length() <= kRootBits) {
    changed.remove_prefix(1);
  }
  if (wide == nullptr && changed.empty()) return;
  roots_.push_back(root);
  const Place place = {.slot = RootSlot(root),
                       .position = {.apart = &table_.root().entries[root]}};
  const uint32_t entry = *place.position.apart;
  if (TypeOf(entry) != kTableEntry) return CompileAnew(routes, place);
  ListCovers(changed, place.slot, entry);
  if (wide != nullptr || !covers_.empty()) {
    cover_editor_.ClearLeft();
    std::sort(covers_.begin(), covers_.end(), [&](uint32_t a, uint32_t b) {
      return changed[a].length() > changed[b].length();
    });
    std::erase_if(covers_, [&](uint32_t i) {
      return table_.failed() ||
             !EditCover(routes, changed[i], changed.subspan(i + 1), place.slot,
                        place.position);
    });
    if (table_.failed()) return;
    if (wide != nullptr &&
        !EditCover(routes, *wide, changed, place.slot, place.position)) {
      return CompileAnew(routes, place);
    }
    others_.clear();
    std::sort(covers_.begin(), covers_.end());
    for (uint32_t i = 0, next = 0; i < changed.size(); ++i) {
      if (next < covers_.size() && covers_[next] == i) {
        ++next;
      } else {
        others_.push_back(changed[i]);
      }
    }
    for (const Prefix& left : cover_editor_.left()) {
      if (table_.failed()) return;
      UpdateSlot(routes, {&left, 1}, place);
    }
    changed = others_;
  }
  if (!changed.empty() && !table_.failed()) {
    UpdateSlot(routes, changed, place);
  }
}

// Lists the changes that cover slots of a table in `slot`, whose entry is
// `entry`.
void TableUpdater::ListCovers(Changes changed, const MainSlot& slot,
                              uint32_t entry) {
  covers_.clear();
  const auto covers = [&](const Prefix& prefix) {
    MainSlot at = slot;
    uint32_t below = entry;
    while (TypeOf(below) == kTableEntry) {
      const MainTable table = MainTableAt(below, at);
      if (prefix.length() < kMainBits - table.below) return true;
      const uint32_t index = table.IndexOf(MainBits(prefix.first()));
      at = table.SlotAt(index);
      below = table_.EntryAt({.index = table.first + index});
    }
    return false;
  };
  std::vector<uint32_t> around;
  for (uint32_t i = 0; i < changed.size(); ++i) {
    if (changed[i].length() >= kMainBits || !covers(changed[i])) continue;
    while (!around.empty() && !changed[around.back()].Covers(changed[i])) {
      around.pop_back();
    }
    if (around.size() == kMostNested) continue;
    around.push_back(i);
    covers_.push_back(i);
  }
}

// Changes the slots of a table that `prefix` covers; `changed` are the other
// changes in it. False if that is left to be done.
bool TableUpdater::EditCover(const RouteSet& routes, const Prefix& prefix,
                             Changes changed, const MainSlot& slot,
                             Position position) {
  const uint32_t entry = table_.EntryAt(position);
  MainTable table = MainTableAt(entry, slot);
  const size_t written_before = written_.size();
  table.first = copier_.Copy(entry, KeyOf(slot), position, /*keeps=*/true);
  if (table_.failed()) return false;
  bool edited = false;
  if (prefix.length() < kMainBits - table.below) {
    edited = cover_editor_.Edit(routes, prefix, table, changed, end_);
  } else {
    const uint32_t index = table.IndexOf(MainBits(prefix.first()));
    edited = EditCover(routes, prefix, changed, table.SlotAt(index),
                       {.index = table.first + index});
  }
  spares_.Written(table.first / kLineWords, table.entries() / kLineWords,
                  absl::MakeConstSpan(written_).subspan(written_before));
  return edited;
}

// So many changes in a slot are made one by one. Where some are long it is all
// of them: there may be any number of other routes in their /48s.
constexpr size_t kMostEdits = 8;

// Goes down where the changes touch few slots of the table there; otherwise
// edits the slot or compiles it anew.
void TableUpdater::UpdateSlot(const RouteSet& routes, Changes changed,
                              const Place& place) {
  const MainSlot& slot = place.slot;
  const uint32_t entry = table_.EntryAt(place.position);
  const bool all = std::any_of(
      changed.begin(), changed.end(),
      [&](const Prefix& prefix) { return prefix.length() < slot.length(); });
  if (TypeOf(entry) != kTableEntry) {
    const bool many = changed.size() > kMostEdits &&
                      std::none_of(changed.begin(), changed.end(), IsLong);
    if (all || slot.width == kBelowRoot || many) {
      return CompileAnew(routes, place);
    }
    if (changed.size() == 1) return EditSlot(routes, changed[0], place);
    // The first ones may turn the slot into a table.
    for (size_t i = 0; i < changed.size() && !table_.failed(); ++i) {
      UpdateSlot(routes, changed.subspan(i, 1), place);
    }
    return;
  }
  const MainTable before = MainTableAt(entry, slot);
  const int length = kMainBits - before.below;
  const uint32_t entries = before.entries();
  if (all || SlotsTouched(changed, length) > entries / 4) {
    return CompileAnew(routes, place);
  }
  const uint32_t table =
      copier_.Copy(entry, KeyOf(slot), place.position, /*keeps=*/true);
  const size_t written_before = written_.size();
  while (!changed.empty() && !table_.failed()) {
    // The slots of the first change, and all changes in them.
    const uint64_t first = before.IndexOf(MainBits(changed[0].first()));
    const uint64_t slots = SlotsTouched(changed.first(1), length);
    const bool covers = changed[0].length() < length;
    for (uint64_t index = first; index < first + slots && !table_.failed();
         ++index) {
      const MainSlot child = before.SlotAt(static_cast<uint32_t>(index));
      const size_t count = CountIn(changed, child);
      // The one that covers the slot stays until the last.
      UpdateSlot(routes, covers ? changed.first(1) : changed.first(count),
                 {.slot = child,
                  .position = {.index = table + static_cast<uint32_t>(index)},
                  .table = table,
                  .entries = entries});
      if (!covers || index + 1 == first + slots) changed.remove_prefix(count);
    }
  }
  spares_.Written(table / kLineWords, entries / kLineWords,
                  absl::MakeConstSpan(written_).subspan(written_before));
}

void TableUpdater::CompileAnew(const RouteSet& routes, const Place& place) {
  const uint32_t entry = table_.EntryAt(place.position);
  table_.CompileSlot(routes, place.slot, place.position);
  if (table_.failed()) return;  // nothing to walk is left
  GarbageVisitor visitor(table_, spares_, garbage_);
  visitor.WalkSlot(entry, place.slot);
}

// Changes a slot that is no table's where one prefix in it changed: what the
// prefix covers. Other routes of the slot are not looked at: the rest of its
// intervals is as it was.
void TableUpdater::EditSlot(const RouteSet& routes, const Prefix& prefix,
                            const Place& place) {
  const uint32_t entry = table_.EntryAt(place.position);
  if (!FindSharers(entry, place)) return CompileAnew(routes, place);
  const int width = std::max(kMainBits - prefix.length(), 0);
  const MainSlot range = {MainBits(prefix.first()) >> width << width, width};
  const auto low = static_cast<uint32_t>(range.low);
  by_.Clear();
  moved_ = 0;
  if (IsLong(prefix)) {
    const uint32_t value =
        ValueAt(table_.lines().at(0), table_.shape(), entry, low);
    by_.Add(low, EditLong(routes, prefix, value, kMainBits));
    FindSharers(entry, place);  // there were others further down
  } else {
    const IntervalList<uint64_t>& intervals = table_.IntervalsOf(routes, range);
    for (uint64_t start : intervals.starts) {
      by_.starts.push_back(static_cast<uint32_t>(start));
    }
    by_.values = intervals.values;
  }
  if (table_.failed()) return;
  EditIntervals(
      place,
      {.low = low, .last = static_cast<uint32_t>(range.last()), .by = by_});
}

// Changes a slot that is no table's, given its sharers_. What has the value
// `moved_` there goes on elsewhere, but for its descriptor.
void TableUpdater::EditIntervals(const Place& place,
                                 const IntervalChange& change) {
  const uint32_t entry = table_.EntryAt(place.position);
  dropped_.clear();
  if (!EditPartition(entry, place, change)) Repartition(entry, place, change);
  if (table_.failed()) return;
  GarbageVisitor visitor(table_, spares_, garbage_);
  for (uint32_t value : dropped_) {
    if (value == moved_) {
      Discard(table_.descriptors(), value & (table_.shape().flag - 1),
              garbage_.descriptors);
    } else {
      visitor.Value(value);
    }
  }
}

// The value of the slot of `length` bits that `prefix`, a longer one, changed
// in. It was `value`; moved_ is that if what is below it became a part of the
// new one, and 0 otherwise.
//
// Only what the prefix covers is another now, so only the routes in it are
// read. A descriptor keeps its length, also where a greater one would now do.
// So what is below it stays in its place.
uint32_t TableUpdater::EditLong(const RouteSet& routes, const Prefix& prefix,
                                uint32_t value, int length) {
  DescriptorCompiler& compiler = table_.long_slots();
  const uint32_t flag = table_.shape().flag;
  const absl::uint128 first = prefix.first(), last = prefix.last();
  moved_ = 0;
  // As if the slot had the value `around`, but for the prefix and, perhaps, for
  // what begins like `base` for `bits` bits.
  const auto compile = [&](uint32_t around, std::optional<uint32_t> apart = {},
                           absl::uint128 base = 0, int bits = 0) {
    IntervalList<absl::uint128> intervals;
    const auto end = [&](absl::uint128 at_last) {
      if (at_last == (first | ~Mask(length))) return;
      intervals.Add(at_last + 1, around);
    };
    const auto add_apart = [&] {
      intervals.Add(base, *apart);
      end(base | ~Mask(bits));
    };
    intervals.Add(first & Mask(length), around);
    if (apart.has_value() && base < first) add_apart();
    const auto& changed = table_.LongIntervalsOf(routes, prefix);
    for (size_t i = 0; i < changed.size(); ++i) {
      intervals.Add(changed.starts[i], changed.values[i]);
    }
    end(last);
    if (apart.has_value() && base > first) add_apart();
    return compiler.CompileSlot(intervals, length);
  };
  if ((value & flag) == 0) return compile(value);
  Descriptor descriptor = *table_.descriptors().at(value & (flag - 1));
  auto bits = static_cast<int>(descriptor.length);
  const absl::uint128 base = absl::MakeUint128(descriptor.high, descriptor.low);
  const int common = std::min({CommonBits(first, base), prefix.length(), bits});
  if (common < bits && common == prefix.length()) {
    return compile(descriptor.fallback);
  }
  if (common < bits) {  // what it holds and the prefix are apart
    const uint32_t held = PayloadOf(descriptor.entry);
    if (TypeOf(descriptor.entry) == kValueEntry && (held & flag) == 0) {
      return compile(descriptor.fallback, held, base, bits);
    }
    // One above it holds both, of as few bits as can be: so that the next
    // prefix is rather in it than beside it. They must part above its slots,
    // and each of these must hold all of what is there. Otherwise all is
    // compiled with so few bits, and seldom again.
    const int above = common < kUpperBits
                          ? length
                          : std::max({length, kUpperBits, common - 31});
    const int below = SlotLengthBelow(above);
    if (below > bits || below <= common) {
      return compiler.CompileSlot(
          table_.LongIntervalsOf(routes,
                                 Prefix::Truncate(prefix.address(), length)),
          length, above);
    }
    IntervalList<uint32_t> list;
    list.Add(0, descriptor.fallback);
    const uint32_t key = KeyAt(base & Mask(below), above);
    list.Add(key, compiler.Add(descriptor));
    const uint32_t next = key + (uint32_t{1} << (32 - (below - above)));
    if (next != 0) list.Add(next, descriptor.fallback);
    compiler.slots().Compile(list, {0, 32}, {.apart = &descriptor.entry});
    compiler.slots().Flush();
    if (table_.failed()) return 0;
    bits = above;
    descriptor.high = absl::Uint128High64(base & Mask(bits));
    descriptor.low = absl::Uint128Low64(base & Mask(bits));
    descriptor.length = static_cast<uint32_t>(bits);
  }

  // The slots of the descriptor that change, or the one in which it happens.
  const int below = SlotLengthBelow(bits);
  const int change_bits = std::min(prefix.length(), below) - bits;
  const MainSlot range = {KeyAt(first & Mask(bits + change_bits), bits),
                          32 - change_bits};
  const auto low = static_cast<uint32_t>(range.low);
  IntervalList<uint32_t> by;
  if (prefix.length() > below) {
    const uint32_t at_low =
        ValueAt(table_.lines().at(0), table_.shape(), descriptor.entry, low);
    by.Add(low, EditLong(routes, prefix, at_low, below));
  } else {
    by =
        compiler.Cut(table_.LongIntervalsOf(routes, prefix), first, last, bits);
  }
  if (table_.failed()) return 0;
  EditBelow(
      {.slot = {0, 32},
       .position = {.apart = &descriptor.entry},
       .below_descriptor = true},
      {.low = low, .last = static_cast<uint32_t>(range.last()), .by = by});
  if (table_.failed()) return 0;
  moved_ = value;

  const auto all = [&](const auto& same) {
    return AllValues(table_, descriptor.entry, {0, 32}, bits, same);
  };
  std::optional<uint32_t> one;
  const auto is_one = [&one](uint32_t seen) {
    if (!one.has_value()) one = seen;
    return seen == *one;
  };
  if ((bits == length || is_one(descriptor.fallback)) && all(is_one)) {
    GarbageVisitor visitor(table_, spares_, garbage_);
    WalkEntry(table_.lines().at(0), descriptor.entry, 0, 32, visitor);
    return *one;
  }
  descriptor.upper_entry = descriptor.entry;
  if (bits >= kUpperBits) {
    // As DescriptorCompiler::UpperEntry has it.
    one.reset();
    const auto is_one_hop = [&](uint32_t seen) {
      if (!one.has_value()) one = seen;
      return table_.values().NextHopOf(seen) == table_.values().NextHopOf(*one);
    };
    descriptor.upper_entry =
        (bits == kUpperBits || is_one_hop(descriptor.fallback)) &&
                all(is_one_hop)
            ? MakeEntry(kValueEntry, *one)
            : kUndecidedEntry;
  }
  return compiler.Add(descriptor);
}

// Changes what is at a place below a descriptor, where slots of one partition
// are in one table.
void TableUpdater::EditBelow(const Place& place, const IntervalChange& change) {
  const uint32_t entry = table_.EntryAt(place.position);
  if (TypeOf(entry) != kTableEntry) {
    ABSL_RAW_CHECK(FindSharers(entry, place), "slots of several tables");
    return EditIntervals(place, change);
  }
  const MainSlot& slot = place.slot;
  if (change.low == slot.low && change.last == slot.last()) {
    SlotCompiler& slots = table_.long_slots().slots();
    slots.Compile(change.by, {change.low, slot.width}, place.position);
    slots.Flush();
    if (table_.failed()) return;
    GarbageVisitor visitor(table_, spares_, garbage_);
    return WalkEntry(table_.lines().at(0), entry, change.low, slot.width,
                     visitor);
  }
  const int below = ShiftOf(entry);
  const uint32_t entries = 1u << (slot.width - below);
  const uint32_t table =
      copier_.Copy(entry, KeyOf(slot), place.position, /*keeps=*/true);
  const size_t written_before = written_.size();
  const auto index_of = [&](uint32_t key) {
    return static_cast<uint32_t>((key - slot.low) >> below);
  };
  size_t next = 0;  // of change.by
  for (uint32_t index = index_of(change.low);
       index <= index_of(change.last) && !table_.failed(); ++index) {
    const MainSlot child = {slot.low + (uint64_t{index} << below), below};
    const auto low = std::max(change.low, static_cast<uint32_t>(child.low));
    const auto last =
        std::min(change.last, static_cast<uint32_t>(child.last()));
    IntervalList<uint32_t> part;
    if (next == change.by.size() || change.by.starts[next] != low) {
      part.Add(low, change.by.values[next - 1]);
    }
    for (; next < change.by.size() && change.by.starts[next] <= last; ++next) {
      part.Add(change.by.starts[next], change.by.values[next]);
    }
    EditBelow({.slot = child,
               .position = {.index = table + index},
               .table = table,
               .entries = entries,
               .below_descriptor = true},
              {.low = low, .last = last, .by = part});
  }
  spares_.Written(table / kLineWords, entries / kLineWords,
                  absl::MakeConstSpan(written_).subspan(written_before));
}

// Finds the entries that name the partition of `entry`. False if one is in
// another table.
bool TableUpdater::FindSharers(uint32_t entry, const Place& place) {
  sharers_.clear();
  const uint32_t at = place.position.index;
  if (TypeOf(entry) == kValueEntry || place.position.apart != nullptr) {
    sharers_.push_back(at);
    return true;
  }
  const uint32_t count = table_.lines().slots(PayloadOf(entry));
  const Line* const lines = table_.lines().at(0);
  const auto in_line = [&](uint32_t line) {
    uint32_t sum = 0;
    for (uint32_t word : lines[line].words) sum += word == entry ? 1 : 0;
    return sum;
  };
  // They are near: lines on both sides in turn, until all are found.
  const uint32_t first = place.table / kLineWords;
  const uint32_t last = first + place.entries / kLineWords;
  uint32_t begin = at / kLineWords, end = begin + 1;
  for (uint32_t found = in_line(begin); found < count;) {
    if (begin == first && end == last) return false;
    if (begin > first) found += in_line(--begin);
    if (end < last) found += in_line(end++);
  }
  for (uint32_t line = begin; line < end; ++line) {
    for (uint32_t i = 0; i < kLineWords; ++i) {
      if (lines[line].words[i] == entry) {
        sharers_.push_back(line * kLineWords + i);
      }
    }
  }
  return true;
}

// The partition of `entry` in a copy, for all slots that share it. False if the
// change does not fit into it.
bool TableUpdater::EditPartition(uint32_t entry, const Place& place,
                                 const IntervalChange& change) {
  const EntryType type = TypeOf(entry);
  if (type == kValueEntry) return false;
  LinePool& lines = table_.lines();
  const uint32_t first = PayloadOf(entry);
  const uint32_t low = KeyOf(place.slot);
  PartitionEditor::Slot slot = {
      .low = low,
      .last =
          static_cast<uint32_t>(low + (uint64_t{1} << place.slot.width) - 1),
      .only = sharers_.size() == 1};
  std::optional<PartitionEditor::Result> copy;
  if (type == kWideEntry) {
    copy = editor_.Copy(first, /*narrow=*/false, change, slot, dropped_);
  } else {
    const int shift = ShiftOf(entry);
    const auto narrow = [shift](uint32_t key) {
      return (key >> shift) & 0xffff;
    };
    uint32_t finer = change.last + 1;
    part_.Clear();
    part_.values = change.by.values;
    for (uint32_t start : change.by.starts) {
      finer |= start;
      part_.starts.push_back(narrow(start));
    }
    if ((finer & ((1u << shift) - 1)) != 0) return false;
    slot.low = narrow(slot.low);
    slot.last = narrow(slot.last);
    copy = editor_.Copy(
        first, /*narrow=*/true,
        {.low = narrow(change.low), .last = narrow(change.last), .by = part_},
        slot, dropped_);
  }
  if (!copy.has_value()) return false;
  if (table_.failed()) return true;
  const uint32_t flag = table_.shape().flag;
  bool marked = lines.marked(first);
  for (uint32_t value : change.by.values) marked |= (value & flag) != 0;
  const uint32_t copied = MakeEntry(type, copy->first, ShiftOf(entry));
  if (copy->one_value) {
    std::erase(sharers_, place.position.index);
    table_.WriteEntry(place.position, MakeEntry(kValueEntry, copy->value));
  }
  if (place.position.apart == nullptr) {
    table_.slots().WriteEntries(sharers_, copied);
  } else if (!copy->one_value) {
    table_.WriteEntry(place.position, copied);
  }
  if (!sharers_.empty()) {
    lines.AddSlots(copy->first, static_cast<uint32_t>(sharers_.size()));
    if (marked) lines.Mark(copy->first);
  }
  Discard(lines, first, garbage_.lines);
  return true;
}

// Compiles all slots that share a partition anew, or a slot of one value, from
// the intervals that there are.
void TableUpdater::Repartition(uint32_t entry, const Place& place,
                               const IntervalChange& change) {
  const LeafShape& shape = table_.shape();
  const EntryType type = TypeOf(entry);
  const bool narrow = type == kNarrowEntry;
  const int width = place.slot.width;
  const uint32_t key = KeyOf(place.slot);
  old_.Clear();
  if (type == kValueEntry) {
    old_.starts.push_back(key);
    old_.values.push_back(PayloadOf(entry));
  } else {
    const int shift = narrow ? ShiftOf(entry) : 0;
    // Above what a narrow key says.
    const uint32_t window =
        narrow && shift < 16 ? key >> (shift + 16) << (shift + 16) : 0;
    ForEachInterval(table_.lines().at(0), entry, shape,
                    [&](uint32_t start, uint32_t value) {
                      old_.starts.push_back(window | start << shift);
                      old_.values.push_back(value);
                    });
  }
  const auto low_of = [&](uint32_t index) {
    return key + static_cast<uint32_t>((int64_t{index} - place.position.index) *
                                       (int64_t{1} << width));
  };
  // A partition does not say where its first interval begins: with the first
  // slot, if the interval is in force there.
  if (old_.size() == 1 || old_.starts[1] > low_of(sharers_[0])) {
    old_.starts[0] = low_of(sharers_[0]);
  }
  Splice(old_, ~uint32_t{0}, change, shape.flag, new_, dropped_);
  SlotCompiler& slots =
      place.below_descriptor ? table_.long_slots().slots() : table_.slots();

  // Each slot gets a run of its own. Where it is tight, two partitions get one
  // half each.
  const size_t most = narrow ? shape.shared_narrow() : shape.shared_wide();
  const size_t half = new_.size() > most ? new_.size() / 2 : new_.size();
  bool cut = false;
  size_t next = 0;
  for (uint32_t index : sharers_) {
    const uint32_t low = low_of(index);
    const auto last = static_cast<uint32_t>(low + (uint64_t{1} << width) - 1);
    while (next < new_.size() && new_.starts[next] < low) {
      // Of a slot that has left the partition.
      if ((new_.values[next] & shape.flag) != 0) {
        dropped_.push_back(new_.values[next]);
      }
      ++next;
    }
    part_.Clear();
    if (next == new_.size() || new_.starts[next] != low) {
      part_.Add(low, new_.values[next - 1]);
    }
    for (; next < new_.size() && new_.starts[next] <= last; ++next) {
      part_.Add(new_.starts[next], new_.values[next]);
    }
    slots.Compile(part_, {low, width}, {place.position.apart, index}, narrow);
    if (!cut && next > half) {
      slots.Flush();
      cut = true;
    }
  }
  for (; next < new_.size(); ++next) {
    if ((new_.values[next] & shape.flag) != 0) {
      dropped_.push_back(new_.values[next]);
    }
  }
  slots.Flush();
  if (type != kValueEntry) {
    Discard(table_.lines(), PayloadOf(entry), garbage_.lines);
  }
}

}  // namespace planb
