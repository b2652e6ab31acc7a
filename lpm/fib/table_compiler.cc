// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/table_compiler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib/elementary_intervals.h"
#include "lpm/routes/bits.h"

namespace planb {
namespace {

constexpr uint64_t kLastMain = (uint64_t{1} << kMainBits) - 1;
constexpr int kBelowRoot = kMainBits - kRootBits;

template <typename Routes>
RouteSummary SummaryOf(const Routes& routes) {
  RouteSummary summary;
  for (const Route& route : routes) {
    ++summary.routes;
    summary.largest_id = std::max(summary.largest_id, route.next_hop);
    summary.long_routes += route.prefix.length() > kMainBits ? 1 : 0;
  }
  if (ValueMap::NeedsCount(summary)) {
    absl::flat_hash_set<NextHopId> distinct;
    for (const Route& route : routes) distinct.insert(route.next_hop);
    summary.next_hops = distinct.size();
  }
  return summary;
}

}  // namespace

RouteSummary Summarize(absl::Span<const Route> routes) {
  return SummaryOf(routes);
}
RouteSummary Summarize(const RouteSet& routes) { return SummaryOf(routes); }

TableCompiler::TableCompiler(Family family, const ValueMap& values,
                             size_t expected_routes, const FibLimits& limits)
    : family_(family),
      values_(values),
      shape_(values.value_bytes()),
      lines_(expected_routes / 6 + 2 * kMaxBlockLines, kMaxBlockLines,
             limits.lines),
      descriptors_(16, 1, limits.descriptors),
      slots_(shape_, lines_, root_.entries.data()),
      descriptor_compiler_(shape_, lines_, descriptors_) {}

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
    return exhausted(values_.most(), "distinct next hops");
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
  ElementaryIntervals sweep(uint64_t{0}, kLastMain, kNoRoute,
                            [this](uint64_t start, uint32_t value) {
                              AddRootInterval(start, value);
                            });
  SweepMain(begin, end, kLastMain, sweep);
  slots_.CompileRootSlot(intervals_, root_slot_);
  const uint32_t value = intervals_.values.back();
  assert(root_slot_ + 1 == kRootEntries || (value & shape_.flag) == 0);
  for (size_t slot = root_slot_ + 1; slot < kRootEntries; ++slot) {
    root_.entries[slot] = MakeEntry(kValueEntry, value);
  }
}

void TableCompiler::CompileSlot(const RouteSet& routes, const MainSlot& slot,
                                Position position) {
  const Prefix prefix = Prefix::Truncate(
      Address::FromBits(family_, absl::MakeUint128(slot.low << 16, 0)),
      slot.length());
  const std::optional<Route> cover = routes.Cover(prefix);
  const uint32_t value =
      cover.has_value() ? values_.ToValue(cover->next_hop) : 0;
  intervals_.Clear();
  ElementaryIntervals sweep(
      slot.low, slot.last(), value,
      [this](uint64_t start, uint32_t v) { intervals_.Add(start, v); });
  SweepMain(routes.LowerBound(prefix), routes.end(), slot.last(), sweep);
  if (position.in_root) {
    slots_.CompileRootSlot(intervals_, position.index);
  } else {
    slots_.Compile(intervals_, {static_cast<uint32_t>(slot.low), slot.width},
                   position);
    slots_.Flush();
  }
}

// Sweeps routes up to `last` at the grain of a /48; what divides one becomes a
// descriptor.
template <typename It, typename MainSweep>
void TableCompiler::SweepMain(It it, It end, uint64_t last_main,
                              MainSweep& sweep) {
  while (it != end) {
    const Route& route = *it;  // a value, where the routes are packed
    const Prefix& prefix = route.prefix;
    const uint64_t first = MainBits(prefix.first());
    if (first > last_main) break;
    if (prefix.length() > kMainBits) {
      const uint32_t cover = sweep.ValueAt(first);
      sweep.Enter(first, first, LongRoutes(it, end, first, cover));
      continue;
    }
    const uint64_t last = first | (kLastMain >> prefix.length());
    sweep.Enter(first, last, values_.ToValue(route.next_hop));
    ++it;
  }
  sweep.Finish();
}

// The value of a /48 that the routes from `it` on divide; moves past them.
template <typename It>
uint32_t TableCompiler::LongRoutes(It& it, It end, uint64_t slot,
                                   uint32_t cover) {
  const absl::uint128 first = absl::MakeUint128(slot << 16, 0);
  const absl::uint128 rest = absl::Uint128Max() >> kMainBits;
  long_intervals_.Clear();
  ElementaryIntervals sweep(first, first | rest, cover,
                            [this](absl::uint128 start, uint32_t value) {
                              long_intervals_.Add(start, value);
                            });
  for (; it != end; ++it) {
    const Route& route = *it;
    if (MainBits(route.prefix.first()) != slot) break;
    sweep.Enter(route.prefix.first(), route.prefix.last(),
                values_.ToValue(route.next_hop));
  }
  sweep.Finish();
  if (long_intervals_.size() == 1) return long_intervals_.values[0];
  return descriptor_compiler_.Compile(long_intervals_, kMainBits);
}

void TableCompiler::AddRootInterval(uint64_t start, uint32_t value) {
  const auto slot = static_cast<uint32_t>(start >> kBelowRoot);
  if (slot != root_slot_) {
    const uint32_t before = intervals_.values.back();
    // As in FillTable.
    assert(start == uint64_t{root_slot_ + 1} << kBelowRoot ||
           (before & shape_.flag) == 0);
    slots_.CompileRootSlot(intervals_, root_slot_);
    for (uint32_t gap = root_slot_ + 1; gap < slot; ++gap) {
      root_.entries[gap] = MakeEntry(kValueEntry, before);
    }
    root_slot_ = slot;
    intervals_.Clear();
    intervals_.Add(uint64_t{slot} << kBelowRoot, before);
  }
  intervals_.Add(start, value);
}

}  // namespace planb
