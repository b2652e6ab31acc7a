// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_compiler.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib/elementary_intervals.h"

namespace planb {

namespace {

// Values must be below. One byte has no descriptors to tell from.
constexpr uint32_t kLimit1 = 1u << 8;
constexpr uint32_t kLimit2 = kDescriptorFlag<uint16_t>;
constexpr uint32_t kLimit4 = kDescriptorFlag<uint32_t>;

uint32_t LimitOf(int bytes, uint32_t most) {
  const uint32_t limit = bytes == 1 ? kLimit1 : bytes == 2 ? kLimit2 : kLimit4;
  return std::min(limit, most + 1);  // kNoRoute
}

// The narrowest width with a limit above `largest`, or 0.
int WidthFor(uint64_t largest, int min_bytes, uint32_t most) {
  for (int bytes : {1, 2, 4}) {
    if (bytes >= min_bytes && largest < LimitOf(bytes, most)) return bytes;
  }
  return 0;
}

}  // namespace

bool ValueMap::NeedsCount(const RouteSummary& summary,
                          const FibOptions& options) {
  return options.prefix_lengths || summary.largest_id >= kLimit2;
}

ValueMap::ValueMap(const RouteSummary& summary, const FibOptions& options,
                   int min_bytes, uint32_t most)
    : options_(options), most_(most) {
  if (summary.long_routes > 0) min_bytes = std::max(min_bytes, 2);
  const int as_ids = WidthFor(summary.largest_id, min_bytes, most);
  const int counted = WidthFor(summary.next_hops, min_bytes, most);
  identity_ = as_ids != 0 && !options.prefix_lengths &&
              (!NeedsCount(summary, options) || as_ids <= counted);
  value_bytes_ = identity_ ? as_ids : counted != 0 ? counted : 4;
  limit_ = LimitOf(value_bytes_, most);
  if (identity_) return;
  Map(options.prefix_lengths ? uint64_t{kNoPrefixLength} << kLengthShift
                             : uint64_t{kNoRoute});
}

ValueMap ValueMap::Anew(const RouteSummary& routes, size_t descriptors) const {
  RouteSummary summary = routes;
  // Where values are ids and ids are wide, there were too many to count them.
  summary.next_hops = identity_ ? most_ : size_ - 1;
  const int min_bytes = descriptors > kDescriptorFlag<uint16_t> ? 4 : 1;
  ValueMap map(summary, options_, min_bytes, most_);
  if (map.identity_ || size_ == 0) return map;
  map.values_.reserve(options_.prefix_lengths ? 0 : size_);
  map.pairs_.reserve(options_.prefix_lengths ? size_ : 0);
  map.Grow(size_);
  return map;
}

uint32_t ValueMap::Map(uint64_t key) {
  return options_.prefix_lengths ? MapIn(pairs_, key) : MapIn(values_, key);
}

template <typename Values>
uint32_t ValueMap::MapIn(Values& values, uint64_t key) {
  const auto [it, fresh] =
      values.try_emplace(static_cast<typename Values::key_type>(key),
                         static_cast<uint32_t>(size_));
  if (fresh) {
    if (size_ == limit_) {
      overflow_ = true;
      values.erase(it);
      return 0;
    }
    if (size_ == capacity_) Grow(std::max<size_t>(64, 2 * capacity_));
    const auto value = static_cast<std::ptrdiff_t>(size_++);
    next_hops_[value] = static_cast<NextHopId>(key);
    if (options_.prefix_lengths) {
      prefix_lengths_[value] = static_cast<uint8_t>(key >> kLengthShift);
    }
  }
  last_key_ = key;
  return last_value_ = it->second;
}

void ValueMap::Grow(size_t capacity) {
  std::shared_ptr<NextHopId[]> next_hops(new NextHopId[capacity]);
  std::copy_n(next_hops_.get(), size_, next_hops.get());
  if (options_.prefix_lengths) {
    std::shared_ptr<uint8_t[]> lengths(new uint8_t[capacity]);
    std::copy_n(prefix_lengths_.get(), size_, lengths.get());
    prefix_lengths_ = std::move(lengths);
  }
  next_hops_ = std::move(next_hops);
  capacity_ = capacity;
}

uint32_t DescriptorCompiler::CompileSlot(
    const IntervalList<absl::uint128>& intervals, int length, int most) {
  return intervals.size() == 1 ? intervals.values[0]
                               : Compile(intervals, length, most);
}

uint32_t DescriptorCompiler::Compile(
    const IntervalList<absl::uint128>& intervals, int length, int most) {
  const std::vector<absl::uint128>& starts = intervals.starts;
  const std::vector<uint32_t>& values = intervals.values;
  // One value, before or after everything else or both, is the fallback: skip
  // the bits that all the rest shares.
  absl::uint128 base = starts.front();
  int skip = length;
  uint32_t fallback = values.front();
  const auto rest = [&](absl::uint128 first, absl::uint128 end,
                        uint32_t other) {
    const int common = CommonBits(first, end);
    if (common <= skip) return;
    skip = common;
    base = first & Mask(skip);
    fallback = other;
  };
  if (values.front() == values.back()) {
    rest(starts[1], starts.back() - 1, values.front());
  } else {
    rest(starts.front(), starts.back() - 1, values.back());
    rest(starts[1], starts.front() | ~Mask(length), values.front());
  }
  skip = std::min(skip, most);
  base &= Mask(skip);

  uint32_t entry = 0;
  slots_.Compile(Cut(intervals, base, base | ~Mask(skip), skip),
                 {.low = 0, .width = 32}, {.apart = &entry});
  slots_.Flush();
  return Add({.high = absl::Uint128High64(base),
              .low = absl::Uint128Low64(base),
              .entry = entry,
              .fallback = fallback,
              .length = static_cast<uint32_t>(skip),
              .upper_entry = UpperEntry(intervals, base, skip, entry)});
}

uint32_t DescriptorCompiler::Add(const Descriptor& descriptor) {
  const uint32_t index = descriptors_.Allocate(1);
  *descriptors_.at(index) = descriptor;
  if (index >= shape_.flag || descriptors_.overflow()) {
    overflow_ = true;
    return 0;
  }
  return shape_.flag | index;
}

// Cuts at the slots of the next 32 bits, or of those up to bit 64. A slot that
// is cut itself becomes a descriptor of its own.
IntervalList<uint32_t> DescriptorCompiler::Cut(
    const IntervalList<absl::uint128>& intervals, absl::uint128 first,
    absl::uint128 last, int length) {
  const std::vector<absl::uint128>& starts = intervals.starts;
  const std::vector<uint32_t>& values = intervals.values;
  const int below = SlotLengthBelow(length);
  const absl::uint128 slot_bits = below < 128 ? ~Mask(below) : absl::uint128{0};
  IntervalList<uint32_t> list;
  size_t i = 0;
  while (i + 1 < intervals.size() && starts[i + 1] <= first) ++i;
  uint32_t value = values[i++];
  list.Add(KeyAt(first, length), value);
  IntervalList<absl::uint128> part;
  while (i < intervals.size() && starts[i] <= last) {
    const absl::uint128 slot = starts[i] & ~slot_bits;
    part.Clear();
    part.Add(slot, value);
    for (; i < intervals.size() && starts[i] <= last &&
           (starts[i] & ~slot_bits) == slot;
         ++i) {
      part.Add(starts[i], values[i]);
    }
    value = part.values.back();
    list.Add(KeyAt(slot, length), CompileSlot(part, below));
    const absl::uint128 next = slot + slot_bits + 1;
    if (next != 0 && next <= last) list.Add(KeyAt(next, length), value);
  }
  return list;
}

// Why this answers for a /64 exactly, kUndecided if and only if its addresses
// have several next hops. Neighbouring intervals have different values: a /64
// has several if and only if an interval begins in it, past its first address.
// A /48 without a descriptor has one value, and the walk is that of any
// address. In a /48 that has one, look at the first.
//
// - Less than 64 bits long: what it holds and what is outside are whole /64s.
//   Outside, all take the fallback. Inside, the list changes values at the
//   first addresses of /64s alone; so one of them takes one value of the list:
//   a plain one if no interval begins in it past its first address, or that of
//   a descriptor compiled for it alone, of two intervals at least. That one
//   skips bits, if any, past 64: it is as below.
// - 64 bits long or longer: an upper half is compared with 64 bits of `base`.
//   Outside, other /64s take the fallback. Inside is one /64. The intervals are
//   those of a slot that holds all of it: slots within a /64 are below a
//   descriptor of 64 bits or more, where no upper half comes. So the intervals
//   that reach into the /64 are what its addresses have. Their values are plain
//   ones, and may differ in prefix lengths alone: the next hops decide.
uint32_t DescriptorCompiler::UpperEntry(
    const IntervalList<absl::uint128>& intervals, absl::uint128 base,
    int length, uint32_t entry) const {
  if (length < kUpperBits) return entry;
  const absl::uint128 first = base & Mask(kUpperBits);
  const absl::uint128 last = first | ~Mask(kUpperBits);
  size_t i = 0;
  while (i + 1 < intervals.size() && intervals.starts[i + 1] <= first) ++i;
  const uint32_t value = intervals.values[i];
  for (++i; i < intervals.size() && intervals.starts[i] <= last; ++i) {
    if (values_.NextHopOf(intervals.values[i]) != values_.NextHopOf(value)) {
      return kUndecidedEntry;
    }
  }
  return MakeEntry(kValueEntry, value);
}

namespace {

constexpr uint64_t kLastMain = (uint64_t{1} << kMainBits) - 1;

// Bits 0..47 of the last address, with what an IPv4 address lacks.
// REQUIRES: not longer.
uint64_t LastMain(const Prefix& prefix) {
  return MainBits(prefix.first()) | (kLastMain >> prefix.length());
}

}  // namespace

TableCompiler::TableCompiler(Family family, ValueMap values,
                             size_t expected_routes, const FibLimits& limits)
    : family_(family),
      values_(std::move(values)),
      shape_(values_.value_bytes()),
      lines_(expected_routes / 6 + 2 * kMaxBlockLines, kMaxBlockLines,
             limits.lines),
      descriptors_(16, 1, limits.descriptors),
      slots_(shape_, lines_, /*tables_apart=*/false),
      descriptor_compiler_(values_, shape_, lines_, descriptors_) {}

absl::Status TableCompiler::CheckLimits() const {
  const auto exhausted = [this](size_t most, const char* of) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the ", FamilyName(family_), " table needs more than ",
                     most, " ", of, ", the most that a FIB can hold"));
  };
  if (lines_.overflow()) return exhausted(lines_.limit(), "lines of 64 bytes");
  if (descriptors_.overflow()) {
    return exhausted(descriptors_.limit(),
                     "descriptors of prefixes longer than /48");
  }
  if (values_.overflow() && values_.value_bytes() == 4) {
    return exhausted(values_.most(),
                     values_.options().prefix_lengths
                         ? "distinct pairs of next hop and prefix length"
                         : "distinct next hops");
  }
  return absl::OkStatus();
}

void TableCompiler::CompileAll(absl::Span<const Route> routes) {
  CompileRange(routes.begin(), routes.end());
}

void TableCompiler::CompileAll(const RouteSet& routes) {
  CompileRange(routes.begin(), routes.end());
}

template <typename It>
void TableCompiler::CompileRange(It begin, It end) {
  root_slot_ = 0;
  intervals_.Clear();
  ElementaryIntervals elementary(uint64_t{0}, kLastMain, kNoRoute,
                                 [this](uint64_t start, uint32_t value) {
                                   AddRootInterval(start, value);
                                 });
  EnterRoutes(begin, end, kLastMain, elementary);
  slots_.CompileRootSlot(intervals_, root_slot_, root_.entries[root_slot_]);
  const uint32_t value = intervals_.values.back();
  assert(root_slot_ + 1 == kRootEntries || (value & shape_.flag) == 0);
  for (size_t slot = root_slot_ + 1; slot < kRootEntries; ++slot) {
    root_.entries[slot] = MakeEntry(kValueEntry, value);
  }
}

void TableCompiler::CompileSlot(const RouteSet& routes, const MainSlot& slot,
                                Position position) {
  const IntervalList<uint64_t>& intervals = IntervalsOf(routes, slot);
  if (slot.width == kBelowRoot) {
    const auto index = static_cast<uint32_t>(slot.low >> kBelowRoot);
    slots_.CompileRootSlot(intervals, index, root_.entries[index]);
  } else {
    slots_.Compile(intervals, {static_cast<uint32_t>(slot.low), slot.width},
                   position);
    slots_.Flush();
  }
}

void TableCompiler::CompileSlots(const RouteSet& routes, const MainTable& table,
                                 uint32_t begin, uint32_t end) {
  const IntervalList<uint64_t>& intervals = IntervalsBetween(
      routes, table.SlotAt(begin), table.SlotAt(end - 1).last());
  slots_.CompileSlots(intervals, table.slot.low, table.slot.width, table.below,
                      table.first / kLineWords, begin, end);
}

const IntervalList<uint64_t>& TableCompiler::IntervalsOf(const RouteSet& routes,
                                                         const MainSlot& slot) {
  const Prefix prefix = PrefixOf(slot);
  RouteSet::const_iterator it = routes.LowerBound(prefix);
  const uint32_t value = ValueOf(routes, prefix, it);
  intervals_.Clear();
  if (it == routes.end() || MainBits(it.packed()) > slot.last()) {
    intervals_.Add(slot.low, value);
    return intervals_;
  }
  ElementaryIntervals elementary(
      slot.low, slot.last(), value,
      [this](uint64_t start, uint32_t v) { intervals_.Add(start, v); });
  EnterRoutes(it, routes.end(), slot.last(), elementary);
  return intervals_;
}

// The same from the slot `first` on, up to `last`. Routes that cover the slot
// may end in between.
const IntervalList<uint64_t>& TableCompiler::IntervalsBetween(
    const RouteSet& routes, const MainSlot& first, uint64_t last) {
  const Prefix prefix = PrefixOf(first);
  std::vector<Route> ending;  // the longest first
  std::optional<Route> cover = routes.Cover(prefix);
  while (cover.has_value() && LastMain(cover->prefix) < last) {
    ending.push_back(*cover);
    cover = routes.Cover(cover->prefix);
  }
  intervals_.Clear();
  ElementaryIntervals elementary(
      first.low, last, cover.has_value() ? values_.ToValue(*cover) : 0,
      [this](uint64_t start, uint32_t v) { intervals_.Add(start, v); });
  for (; !ending.empty(); ending.pop_back()) {
    elementary.Enter(first.low, LastMain(ending.back().prefix),
                     values_.ToValue(ending.back()));
  }
  EnterRoutes(routes.LowerBound(prefix), routes.end(), last, elementary);
  return intervals_;
}

const IntervalList<absl::uint128>& TableCompiler::LongIntervalsOf(
    const RouteSet& routes, const Prefix& prefix) {
  RouteSet::const_iterator it = routes.LowerBound(prefix);
  const uint32_t value = ValueOf(routes, prefix, it);
  EnterLongRoutes(it, routes.end(), prefix.first(), prefix.last(), value);
  return long_intervals_;
}

uint32_t TableCompiler::ValueOf(const RouteSet& routes, const Prefix& prefix) {
  RouteSet::const_iterator it = routes.LowerBound(prefix);
  return ValueOf(routes, prefix, it);
}

// The same. `it` is at the first route not before `prefix`; moves past the
// prefix's own.
uint32_t TableCompiler::ValueOf(const RouteSet& routes, const Prefix& prefix,
                                RouteSet::const_iterator& it) {
  if (it != routes.end() && it->prefix == prefix) return values_.ToValue(*it++);
  const std::optional<Route> cover = routes.Cover(prefix, it);
  return cover.has_value() ? values_.ToValue(*cover) : 0;
}

Prefix TableCompiler::PrefixOf(const MainSlot& slot) const {
  return Prefix::Truncate(
      Address::FromBits(family_, absl::MakeUint128(slot.low << 16, 0)),
      slot.length());
}

// Enters routes up to `last_main` at the grain of a /48. Routes that divide a
// /48 become a descriptor.
template <typename It, typename Intervals>
void TableCompiler::EnterRoutes(It it, It end, uint64_t last_main,
                                Intervals& intervals) {
  while (it != end) {
    const Route& route = *it;  // a value, where the routes are packed
    const Prefix& prefix = route.prefix;
    const uint64_t first = MainBits(prefix.first());
    if (first > last_main) break;
    if (prefix.length() > kMainBits) {
      const uint32_t cover = intervals.ValueAt(first);
      const absl::uint128 slot = absl::MakeUint128(first << 16, 0);
      EnterLongRoutes(it, end, slot, slot | ~Mask(kMainBits), cover);
      intervals.Enter(
          first, first,
          descriptor_compiler_.CompileSlot(long_intervals_, kMainBits));
      continue;
    }
    intervals.Enter(first, LastMain(prefix), values_.ToValue(route));
    ++it;
  }
  intervals.Finish();
}

// The intervals, in long_intervals_, of what the routes from `it` on divide;
// moves past them.
template <typename It>
void TableCompiler::EnterLongRoutes(It& it, It end, absl::uint128 first,
                                    absl::uint128 last, uint32_t cover) {
  long_intervals_.Clear();
  ElementaryIntervals elementary(first, last, cover,
                                 [this](absl::uint128 start, uint32_t value) {
                                   long_intervals_.Add(start, value);
                                 });
  for (; it != end; ++it) {
    const Route& route = *it;
    if (route.prefix.first() > last) break;
    elementary.Enter(route.prefix.first(), route.prefix.last(),
                     values_.ToValue(route));
  }
  elementary.Finish();
}

void TableCompiler::AddRootInterval(uint64_t start, uint32_t value) {
  const auto slot = static_cast<uint32_t>(start >> kBelowRoot);
  if (slot != root_slot_) {
    const uint32_t before = intervals_.values.back();
    // As in FillTable.
    assert(start == uint64_t{root_slot_ + 1} << kBelowRoot ||
           (before & shape_.flag) == 0);
    slots_.CompileRootSlot(intervals_, root_slot_, root_.entries[root_slot_]);
    for (uint32_t gap = root_slot_ + 1; gap < slot; ++gap) {
      root_.entries[gap] = MakeEntry(kValueEntry, before);
    }
    root_slot_ = slot;
    intervals_.Clear();
    intervals_.Add(uint64_t{slot} << kBelowRoot, before);
  }
  intervals_.Add(start, value);
}

namespace {

// What a ValueMap must know. O(routes).
template <typename Routes>
RouteSummary Summarize(const Routes& routes, const FibOptions& options) {
  RouteSummary summary;
  for (const Route& route : routes) {
    ++summary.routes;
    summary.largest_id = std::max(summary.largest_id, route.next_hop);
    summary.long_routes += route.prefix.length() > kMainBits ? 1 : 0;
  }
  const auto count = [&](auto distinct) {
    for (const Route& route : routes) {
      distinct.insert(static_cast<typename decltype(distinct)::key_type>(
          ValueMap::KeyOf(route, options)));
    }
    summary.next_hops = distinct.size();
  };
  if (options.prefix_lengths) {
    count(absl::flat_hash_set<uint64_t>());
  } else if (ValueMap::NeedsCount(summary, options)) {
    count(absl::flat_hash_set<NextHopId>());
  }
  return summary;
}

template <typename Routes>
absl::StatusOr<std::unique_ptr<TableCompiler>> CompileAny(
    Family family, const Routes& routes, const FibOptions& options,
    const FibLimits& limits) {
  const RouteSummary summary = Summarize(routes, options);
  for (int min_bytes = 1;;) {
    const ValueMap values(summary, options, min_bytes, limits.next_hops);
    auto table =
        std::make_unique<TableCompiler>(family, values, summary.routes, limits);
    table->CompileAll(routes);
    if (!table->failed()) return table;
    if (absl::Status status = table->CheckLimits(); !status.ok()) return status;
    ABSL_RAW_CHECK(values.value_bytes() < 4, "within limits, values suffice");
    min_bytes = 2 * values.value_bytes();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableCompiler>> CompileTable(
    Family family, absl::Span<const Route> routes, const FibOptions& options,
    const FibLimits& limits) {
  return CompileAny(family, routes, options, limits);
}

absl::StatusOr<std::unique_ptr<TableCompiler>> CompileTable(
    Family family, const RouteSet& routes, const FibOptions& options,
    const FibLimits& limits) {
  return CompileAny(family, routes, options, limits);
}

}  // namespace planb
