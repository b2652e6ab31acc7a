// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/cover_editor.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/numeric/bits.h"
#include "lpm/fib/fib_walk.h"
#include "lpm/kernels/layout.h"

namespace planb {
namespace {

// So much may be left to be edited one by one: what takes about a third of
// compiling the slots of a crowded /12 anew; and by all calls together.
constexpr size_t kMostLeft = 96;
constexpr size_t kMostLeftByAll = 4 * kMostLeft;

}  // namespace

bool CoverEditor::Edit(const RouteSet& routes, const Prefix& prefix,
                       const MainTable& table, Changes changed, uint64_t end) {
  length_ = prefix.length();
  const size_t left = left_.size();
  most_left_ = std::min(left + kMostLeft, kMostLeftByAll);
  const auto drop_left = [&] {
    left_.erase(left_.begin() + static_cast<ptrdiff_t>(left), left_.end());
  };
  const int width = kMainBits - length_;
  const bool whole_slot = table.slot.width < width;
  const Prefix from = whole_slot ? table_.PrefixOf(table.slot) : prefix;
  if (whole_slot) {
    const std::optional<Route> cover = routes.Cover(from);
    if (cover.has_value() && cover->prefix.length() > length_) return true;
  }
  const uint64_t first = MainBits(from.first());
  const Range within = {
      first,
      std::min(first | ((uint64_t{1} << std::min(width, table.slot.width)) - 1),
               end - 1)};
  FindGaps(routes, from, changed, within, /*most=*/1);
  if (!gaps_.empty()) {
    drop_left();
    // What the first gap has, all have.
    value_ = table_.ValueOf(routes, prefix);
    old_value_ = ValueAt(gaps_[0].first);
    flag_ = old_value_ == 0 ? table_.shape().flag : 0;
    if (old_value_ == value_) return true;
    if (old_value_ != 0) {
      FindGaps(routes, from, changed, within, ~size_t{0});
    }
    open_.clear();
    Walk(routes, table, table.IndexOf(within.first),
         table.IndexOf(within.last) + 1);
    // Sharers elsewhere keep these as they are.
    for (const Open& partition : open_) {
      for (const Sharer& sharer : partition.sharers) {
        Leave({sharer.slot.low, sharer.slot.last()});
      }
    }
    gaps_ = {};  // fib_bound.cc has no room for them beside a compilation
  }
  if (left_.size() <= most_left_) return true;
  drop_left();
  return false;
}

// The gaps in a range of addresses, which begins as `from` does, or the first
// `most` of them: between longer routes and changes. What is left are the /48s
// of the longest of these in them.
void CoverEditor::FindGaps(const RouteSet& routes, const Prefix& from,
                           Changes changed, const Range& within, size_t most) {
  gaps_.clear();
  next_gap_ = 0;
  uint64_t next = within.first;  // what is below was looked at
  const auto add_gap = [&](uint64_t end) {
    if (end > next) gaps_.push_back({next, end - 1});
  };
  auto change = std::lower_bound(changed.begin(), changed.end(), from);
  const auto end = routes.end();
  for (auto it = routes.LowerBound(from); gaps_.size() < most;) {
    uint64_t at;  // of the next of both
    int length;
    if (change != changed.end() && (it == end || *change < it->prefix)) {
      at = MainBits(change->first());
      length = change->length();
      ++change;
    } else if (it != end) {
      at = MainBits(it.packed());
      length = it.packed().length;
      ++it;
    } else {
      break;
    }
    if (at > within.last) break;
    if (at < next || length <= length_) continue;
    add_gap(at);
    if (length > kMainBits) Leave({at, at});
    next = at + (uint64_t{1} << std::max(kMainBits - length, 0));
  }
  if (gaps_.size() < most) add_gap(within.last + 1);
}

CoverEditor::Share CoverEditor::ShareOfGaps(const Range& range) {
  if (old_value_ == 0) return Share::kAll;
  // Near the one before.
  while (next_gap_ > 0 && gaps_[next_gap_ - 1].last >= range.first) --next_gap_;
  while (next_gap_ < gaps_.size() && gaps_[next_gap_].last < range.first) {
    ++next_gap_;
  }
  if (next_gap_ == gaps_.size()) return Share::kNone;
  const Range& gap = gaps_[next_gap_];
  if (gap.first > range.last) return Share::kNone;
  return gap.first <= range.first && range.last <= gap.last ? Share::kAll
                                                            : Share::kSome;
}

uint32_t CoverEditor::ValueAt(uint64_t address) {
  uint32_t entry = table_.root().entries[address >> kBelowRoot];
  if (TypeOf(entry) == kTableEntry) {
    entry = table_.EntryAt(
        {.index = TableIndex(entry, static_cast<uint32_t>(address >> 16))});
  }
  return planb::ValueAt(lines_.at(0), table_.shape(), entry,
                        static_cast<uint32_t>(address));
}

// REQUIRES: within a slot that has no table.
void CoverEditor::Leave(const Range& range) {
  if (left_.size() > most_left_) return;
  const int width =
      std::max({static_cast<int>(absl::bit_width(range.first ^ range.last)),
                kMainBits - AddressBits(table_.family()), 0});
  left_.push_back(table_.PrefixOf({range.first >> width << width, width}));
}

// The same for the /48 of longer routes, if none of up to a /48 is between
// these and the prefix.
void CoverEditor::LeaveLongRoutes(const RouteSet& routes, uint64_t at) {
  const Prefix prefix = table_.PrefixOf({at, 0});
  if (routes.Find(prefix) != kNoRoute) return;
  const std::optional<Route> cover = routes.Cover(prefix);
  if (cover.has_value() && cover->prefix.length() > length_) return;
  Leave({at, at});
}

void CoverEditor::Walk(const RouteSet& routes, const MainTable& table,
                       uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t index = table.first + i;
    const uint32_t entry = table_.EntryAt({.index = index});
    if (TypeOf(entry) == kValueEntry && IsOther(PayloadOf(entry))) continue;
    if (table_.failed() || left_.size() > most_left_) return;
    const Sharer at = {index, table.SlotAt(i)};
    switch (TypeOf(entry)) {
      case kValueEntry:
        EditValue(routes, PayloadOf(entry), at);
        break;
      case kTableEntry: {
        MainTable below = MainTableAt(entry, at.slot);
        // Without a spare one: covers seldom change.
        below.first = copier_.Copy(entry, KeyOf(at.slot), {.index = index},
                                   /*keeps=*/false);
        if (table_.failed()) return;
        Walk(routes, below, 0, below.entries());
        break;
      }
      default:
        Meet(routes, entry, at);
    }
  }
}

// REQUIRES: not IsOther.
void CoverEditor::EditValue(const RouteSet& routes, uint32_t value,
                            const Sharer& at) {
  if (value != old_value_) return LeaveLongRoutes(routes, at.slot.low);
  const Range range = {at.slot.low, at.slot.last()};
  switch (ShareOfGaps(range)) {
    case Share::kNone:
      break;
    case Share::kSome:
      Leave(range);
      break;
    case Share::kAll:
      table_.WriteEntry({.index = at.index}, MakeEntry(kValueEntry, value_));
  }
}

// Edits the partition of `entry` when the last of its sharers is met.
void CoverEditor::Meet(const RouteSet& routes, uint32_t entry,
                       const Sharer& at) {
  auto open = std::find_if(
      open_.rbegin(), open_.rend(),
      [entry](const Open& partition) { return partition.entry == entry; });
  if (open == open_.rend()) {
    open_.push_back({.entry = entry});
    open = open_.rbegin();
  }
  open->sharers.push_back(at);
  if (open->sharers.size() < lines_.slots(PayloadOf(entry))) return;
  EditPartition(routes, *open);
  open_.erase(std::next(open).base());
}

void CoverEditor::EditPartition(const RouteSet& routes, const Open& partition) {
  const uint32_t entry = partition.entry;
  const uint32_t first = PayloadOf(entry);
  const bool narrow = TypeOf(entry) == kNarrowEntry;
  const int shift = narrow ? ShiftOf(entry) : 0;
  const std::vector<Sharer>& sharers = partition.sharers;
  const Range all = {sharers.front().slot.low, sharers.back().slot.last()};
  // What all addresses of the partition have above its keys.
  const uint64_t above = all.first >> (narrow ? shift + 16 : 32)
                                          << (narrow ? shift + 16 : 32);
  editor_.Find(first, narrow, old_value_, flag_, found_);
  changed_.clear();
  for (const PartitionEditor::Found& found : found_) {
    // Intervals also hold slots that are not, or no longer, the partition's.
    const Range range = {
        std::max(above | uint64_t{found.start} << shift, all.first),
        std::min(above | uint64_t{found.last} << shift |
                     ((uint64_t{1} << shift) - 1),
                 all.last)};
    if (range.first > range.last) continue;
    if (found.value != old_value_) {
      LeaveLongRoutes(routes, range.first);
      continue;
    }
    switch (ShareOfGaps(range)) {
      case Share::kNone:
        break;
      case Share::kSome:
        for (const Sharer& sharer : sharers) {
          const Range in = {std::max(range.first, sharer.slot.low),
                            std::min(range.last, sharer.slot.last())};
          if (in.first <= in.last) Leave(in);
        }
        break;
      case Share::kAll:
        changed_.push_back(found.index);
    }
  }
  if (changed_.empty()) return;
  const uint32_t copy = editor_.CopyWith(first, narrow, changed_, value_);
  if (table_.failed()) return;
  for (const Sharer& sharer : sharers) {
    table_.WriteEntry({.index = sharer.index},
                      MakeEntry(TypeOf(entry), copy, ShiftOf(entry)));
  }
  lines_.AddSlots(copy, static_cast<uint32_t>(sharers.size()));
  if (lines_.marked(first)) lines_.Mark(copy);
  Discard(lines_, first, garbage_.lines);
}

}  // namespace planb
