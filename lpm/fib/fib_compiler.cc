// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib_compiler.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
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

// The version of a table before the one in use, to become the one after it: by
// copying the few lines in which they differ, so that the others stay in the
// caches of readers. Thread-compatible.
class SpareTables {
 public:
  struct Spare {
    uint32_t first;       // line
    uint64_t generation;  // the first that does not read it
    std::bitset<kMaxBlockLines> differs;
  };

  // The spare of the table at line `first`, which then has none.
  std::optional<Spare> Take(uint32_t first) {
    const auto known = spares_.find(first);
    if (known == spares_.end()) return std::nullopt;
    const Spare spare = known->second;
    spares_.erase(known);
    return spare;
  }
  void Keep(uint32_t first, const Spare& spare) {
    spares_.insert_or_assign(first, spare);
  }
  // The table at `first`, of so many lines, was written to at `line`, if that
  // is one of them.
  void Written(uint32_t first, uint32_t lines, uint32_t line) {
    if (line - first >= lines) return;
    const auto known = spares_.find(first);
    if (known != spares_.end()) known->second.differs.set(line - first);
  }

 private:
  absl::flat_hash_map<uint32_t, Spare> spares_;  // by the line in use
};

// Lists all that hangs on an entry as garbage. A visitor of fib_walk.h.
class GarbageVisitor {
 public:
  GarbageVisitor(TableCompiler& table, SpareTables& spares, Garbage& garbage)
      : table_(table),
        lines_(table.lines()),
        spares_(spares),
        garbage_(garbage) {}

  void EnterTable(uint32_t) {}
  void LeaveTable(uint32_t first_line) {
    garbage_.lines.push_back(first_line);
    const auto spare = spares_.Take(first_line);
    if (spare.has_value()) garbage_.lines.push_back(spare->first);
  }

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
  SpareTables& spares_;
  Garbage& garbage_;
};

// Changes a compiled table in part: writes anew what changed and the tables on
// the way to it, and lists what that leaves unused. Thread-compatible.
class TableUpdater {
 public:
  explicit TableUpdater(TableCompiler& table)
      : table_(table), editor_(table.shape(), table.lines()) {
    table_.slots().LogTo(&written_);
  }
  TableUpdater(const TableUpdater&) = delete;
  TableUpdater& operator=(const TableUpdater&) = delete;
  ~TableUpdater() { table_.slots().LogTo(nullptr); }

  // Makes the table that of `routes`, which differ from what it was compiled
  // from at most at `changed`. Writes to the root, and to lines and descriptors
  // that were not in use, but to none that were. If the table failed(), it is
  // of no use. It becomes that of `generation`; `oldest` is the oldest one that
  // has readers. REQUIRES: `changed` ascends, no prefix is shorter than
  // kRootBits.
  void Update(const RouteSet& routes, absl::Span<const Prefix> changed,
              uint64_t generation, uint64_t oldest);

  // What Update left unused, and the entries of the root that it wrote, since
  // these were last emptied.
  Garbage& garbage() { return garbage_; }
  std::vector<uint32_t>& roots() { return roots_; }

 private:
  using Changes = absl::Span<const Prefix>;

  // A slot with its place: its entry is at `position`, in a table of `entries`
  // entries from `table` on, if not in the root.
  struct Place {
    MainSlot slot;
    Position position;
    uint32_t table = 0;
    uint32_t entries = 0;
  };

  uint32_t EntryAt(Position position);
  void UpdateSlot(const RouteSet& routes, Changes changed, const Place& place);
  void CompileAnew(const RouteSet& routes, const Place& place);
  void EditSlot(const RouteSet& routes, const Prefix& prefix,
                const Place& place);
  bool FindSharers(uint32_t entry, const Place& place);
  bool EditPartition(uint32_t entry, const Place& place,
                     const IntervalChange& change);
  void Repartition(uint32_t entry, const Place& place,
                   const IntervalChange& change);
  uint32_t CopyTable(uint32_t entry, uint32_t first_key, int bits,
                     Position position);

  TableCompiler& table_;
  PartitionEditor editor_;
  Garbage garbage_;
  std::vector<uint32_t> roots_;
  SpareTables spares_;
  std::vector<uint32_t> written_;  // lines of tables, in this update
  uint64_t generation_ = 0, oldest_ = 0;
  // Of the slot that is being edited: the entries that name its partition,
  // ascending; what changes in it; what it was and what it becomes.
  std::vector<uint32_t> sharers_;
  IntervalList<uint32_t> by_, old_, new_, part_;
  std::vector<uint32_t> dropped_;
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

void TableUpdater::Update(const RouteSet& routes, Changes changed,
                          uint64_t generation, uint64_t oldest) {
  generation_ = generation;
  oldest_ = oldest;
  written_.clear();
  while (!changed.empty() && !table_.failed()) {
    const auto index =
        static_cast<uint32_t>(MainBits(changed[0].first()) >> kBelowRoot);
    const MainSlot slot = {uint64_t{index} << kBelowRoot, kBelowRoot};
    const size_t count = CountIn(changed, slot);
    roots_.push_back(index);
    UpdateSlot(routes, changed.first(count),
               {.slot = slot, .position = {.in_root = true, .index = index}});
    changed.remove_prefix(count);
  }
}

uint32_t TableUpdater::EntryAt(Position position) {
  const uint32_t index = position.index;
  return position.in_root
             ? table_.root().entries[index]
             : table_.lines().at(index / kLineWords)->words[index % kLineWords];
}

// Tables of fewer lines are copied whole.
constexpr uint32_t kLeastSpare = 4;

// So many changes in a slot are made one by one.
constexpr size_t kMostEdits = 8;

// Goes down where the changes touch few slots of the table there; otherwise
// edits the slot or compiles it anew.
void TableUpdater::UpdateSlot(const RouteSet& routes, Changes changed,
                              const Place& place) {
  const MainSlot& slot = place.slot;
  const uint32_t entry = EntryAt(place.position);
  const bool first_table = slot.width == kBelowRoot;
  const int below = ShiftOf(entry) + (first_table ? 16 : 0);
  const int length = kMainBits - below;
  const bool all = std::any_of(
      changed.begin(), changed.end(),
      [&](const Prefix& prefix) { return prefix.length() < slot.length(); });
  if (TypeOf(entry) != kTableEntry) {
    if (all || first_table || changed.size() > kMostEdits) {
      return CompileAnew(routes, place);
    }
    if (changed.size() == 1) return EditSlot(routes, changed[0], place);
    // The first ones may turn the slot into a table.
    for (size_t i = 0; i < changed.size() && !table_.failed(); ++i) {
      UpdateSlot(routes, changed.subspan(i, 1), place);
    }
    return;
  }
  if (all || SlotsTouched(changed, length) > (1u << (slot.width - below)) / 4) {
    return CompileAnew(routes, place);
  }
  const uint32_t entries = 1u << (slot.width - below);
  const uint32_t table =
      CopyTable(entry, KeyOf(slot), slot.width - below, place.position);
  const size_t written_before = written_.size();
  while (!changed.empty() && !table_.failed()) {
    // The slots of the first change, and all changes in them.
    const uint64_t first = (MainBits(changed[0].first()) - slot.low) >> below;
    const uint64_t slots = SlotsTouched(changed.first(1), length);
    const bool covers = changed[0].length() < length;
    for (uint64_t index = first; index < first + slots && !table_.failed();
         ++index) {
      const MainSlot child = {slot.low + (index << below), below};
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
  for (size_t i = written_before; i < written_.size(); ++i) {
    spares_.Written(table / kLineWords, entries / kLineWords, written_[i]);
  }
}

void TableUpdater::CompileAnew(const RouteSet& routes, const Place& place) {
  const uint32_t entry = EntryAt(place.position);
  table_.CompileSlot(routes, place.slot, place.position);
  if (table_.failed()) return;  // nothing to walk is left
  GarbageVisitor visitor(table_, spares_, garbage_);
  const Line* const lines = table_.lines().at(0);
  if (place.position.in_root) {
    WalkRootEntry(lines, entry, place.position.index, visitor);
  } else {
    WalkEntry(lines, entry, KeyOf(place.slot), place.slot.width, visitor);
  }
}

// Changes a slot that is no table's where one prefix in it changed: what the
// prefix covers, or the /48 that it is in. Other routes of the slot are not
// looked at: the rest of its intervals is as it was.
void TableUpdater::EditSlot(const RouteSet& routes, const Prefix& prefix,
                            const Place& place) {
  const uint32_t entry = EntryAt(place.position);
  if (!FindSharers(entry, place)) return CompileAnew(routes, place);
  const int width = std::max(kMainBits - prefix.length(), 0);
  const MainSlot range = {MainBits(prefix.first()) >> width << width, width};
  const IntervalList<uint64_t>& intervals = table_.IntervalsOf(routes, range);
  if (table_.failed()) return;
  by_.Clear();
  for (uint64_t start : intervals.starts) {
    by_.starts.push_back(static_cast<uint32_t>(start));
  }
  by_.values = intervals.values;
  dropped_.clear();
  const IntervalChange change = {.low = static_cast<uint32_t>(range.low),
                                 .last = static_cast<uint32_t>(range.last()),
                                 .by = by_};
  if (!EditPartition(entry, place, change)) Repartition(entry, place, change);
  if (table_.failed()) return;
  GarbageVisitor visitor(table_, spares_, garbage_);
  for (uint32_t value : dropped_) visitor.Value(value);
}

// Finds the entries that name the partition of `entry`. False if one is in
// another table.
bool TableUpdater::FindSharers(uint32_t entry, const Place& place) {
  sharers_.clear();
  const uint32_t at = place.position.index;
  if (TypeOf(entry) == kValueEntry) {
    sharers_.push_back(at);
    return true;
  }
  const uint32_t count = table_.lines().slots(PayloadOf(entry));
  const uint32_t* const words = table_.lines().at(0)->words;
  for (uint32_t i = at; i > place.table && sharers_.size() + 1 < count;) {
    if (words[--i] == entry) sharers_.push_back(i);
  }
  std::reverse(sharers_.begin(), sharers_.end());
  for (uint32_t i = at;
       i < place.table + place.entries && sharers_.size() < count; ++i) {
    if (words[i] == entry) sharers_.push_back(i);
  }
  return sharers_.size() == count;
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
    copy = editor_.CopyWide(first, change, slot, dropped_);
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
    copy = editor_.CopyNarrow(
        first,
        {.low = narrow(change.low), .last = narrow(change.last), .by = part_},
        slot, dropped_);
  }
  if (!copy.has_value()) return false;
  if (table_.failed()) return true;
  const uint32_t flag = table_.shape().flag;
  bool marked = lines.marked(first);
  for (uint32_t value : change.by.values) marked |= (value & flag) != 0;
  const uint32_t copied = MakeEntry(type, copy->first, ShiftOf(entry));
  for (uint32_t index : sharers_) {
    if (index == place.position.index && copy->one_value) {
      table_.WriteEntry({.index = index}, MakeEntry(kValueEntry, copy->value));
      continue;
    }
    table_.WriteEntry({.index = index}, copied);
    lines.AddSlot(copy->first);
    if (marked) lines.Mark(copy->first);
  }
  garbage_.lines.push_back(first);
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
  Splice(old_, ~uint32_t{0}, change, shape.flag, new_, dropped_);

  // Each slot gets a run of its own. Where it is tight, two partitions get one
  // half each.
  const size_t most = narrow ? shape.shared_narrow() : shape.shared_wide();
  const size_t half = new_.size() > most ? new_.size() / 2 : new_.size();
  bool cut = false;
  size_t next = 0;
  for (uint32_t index : sharers_) {
    const uint32_t low =
        key + static_cast<uint32_t>((int64_t{index} - place.position.index) *
                                    (int64_t{1} << width));
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
    table_.slots().Compile(part_, {low, width}, {.index = index}, narrow);
    if (!cut && next > half) {
      table_.slots().Flush();
      cut = true;
    }
  }
  for (; next < new_.size(); ++next) {
    if ((new_.values[next] & shape.flag) != 0) {
      dropped_.push_back(new_.values[next]);
    }
  }
  table_.slots().Flush();
  if (type != kValueEntry) garbage_.lines.push_back(PayloadOf(entry));
}

// Copies a table of 2^bits entries for `position` to point to, and returns its
// first entry.
uint32_t TableUpdater::CopyTable(uint32_t entry, uint32_t first_key, int bits,
                                 Position position) {
  LinePool& lines = table_.lines();
  const uint32_t from = TableLine(entry, first_key);
  const uint32_t size = (1u << bits) / kLineWords;
  uint32_t to = 0;
  const std::optional<SpareTables::Spare> spare = spares_.Take(from);
  if (spare.has_value() && spare->generation <= oldest_) {
    to = spare->first;
    for (uint32_t i = 0; i < size; ++i) {
      if (spare->differs[i]) *lines.at(to + i) = *lines.at(from + i);
    }
  } else {
    if (spare.has_value()) garbage_.lines.push_back(spare->first);
    to = lines.Allocate(size);
    if (table_.failed()) return 0;
    std::memcpy(lines.at(to), lines.at(from), size * sizeof(Line));
  }
  table_.WriteEntry(
      position,
      MakeEntry(kTableEntry, PayloadOf(entry) + to - from, ShiftOf(entry)));
  if (size < kLeastSpare) {
    garbage_.lines.push_back(from);
  } else {
    spares_.Keep(to, {.first = from, .generation = generation_, .differs = {}});
  }
  return to * kLineWords;
}

// A change costs about as much as compiling this many routes anew.
constexpr size_t kRoutesPerChange = 48;

// Changes of the root that are remembered, to bring older roots up to date.
constexpr size_t kRootChanges = 256;

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
    updater_ = nullptr;  // before its table
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
    const uint64_t oldest = arena_->Oldest(/*none=*/generation_ + 1);
    Reclaim(oldest);
    updater_->Update(routes, changed_, generation_ + 1, oldest);
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
    if (compiled) {
      // The address space is all that updates may use: nothing moves.
      auto arena =
          std::make_shared<FibArena>(lines.limit(), descriptors.limit(),
                                     lines.used(), FibArena::Memory::kLater);
      lines.MoveTo(arena->lines(), arena->line_capacity());
      descriptors.MoveTo(arena->descriptors(), arena->descriptor_capacity());
      // Not before both have moved: it may be the last to hold the old one.
      arena_ = std::move(arena);
      root_changes_.clear();
      roots_since_ = generation_;
    } else {
      retired_.push_back({generation_, std::move(updater_->garbage())});
      for (const uint32_t index : updater_->roots()) {
        root_changes_.push_back({generation_, index});
      }
      for (; root_changes_.size() > kRootChanges; root_changes_.pop_front()) {
        roots_since_ = root_changes_.front().generation;
      }
    }
    updater_->garbage() = {};
    updater_->roots().clear();
    arena_->SetUsed(lines.used(), descriptors.used());
    std::unique_ptr<const Fib> fib =
        FibBuilder::Make(*table_, arena_, generation_, Root());
    published_ = true;
    return fib;
  }

  // The table's root. One of a generation that is gone needs no more than what
  // changed since: the rest of it, which readers may have in their caches, is
  // not written.
  std::unique_ptr<FibRoot> Root() {
    FibArena::SpareRoot spare = arena_->TakeRoot();
    if (spare.root == nullptr) return std::make_unique<FibRoot>(table_->root());
    if (spare.generation < roots_since_) {
      *spare.root = table_->root();
      return std::move(spare.root);
    }
    for (auto change = root_changes_.rbegin();
         change != root_changes_.rend() &&
         change->generation > spare.generation;
         ++change) {
      spare.root->entries[change->index] =
          table_->root().entries[change->index];
    }
    return std::move(spare.root);
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

  void Reclaim(uint64_t oldest) {
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
  // Entries of the root that changed, oldest first: all that did so after
  // generation roots_since_.
  struct RootChange {
    uint64_t generation;
    uint32_t index;
  };
  std::deque<RootChange> root_changes_;
  uint64_t roots_since_ = 0;
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
