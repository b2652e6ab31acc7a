// SPDX-License-Identifier: Apache-2.0

#include "lpm/table/table.h"

#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace planb {

TableRoutes::TableRoutes(absl::Span<const Route> routes) {
  const auto v6 = std::partition_point(
      routes.begin(), routes.end(), [](const Route& route) {
        return route.prefix.family() == Family::kIpv4;
      });
  const auto v4_size = static_cast<size_t>(v6 - routes.begin());
  sets_ = {RouteSet(Family::kIpv4, routes.first(v4_size)),
           RouteSet(Family::kIpv6, routes.subspan(v4_size))};
  for (const Route& route : routes) {
    digest_.Add(route);
    ++length(route.prefix);
  }
}

TableRoutes TableRoutes::Share() const {
  TableRoutes shared;
  shared.sets_ = {sets_.v4.Share(), sets_.v6.Share()};
  shared.lengths_ = lengths_;
  shared.digest_ = digest_;
  return shared;
}

NextHopId TableRoutes::Exchange(const Prefix& prefix, NextHopId next_hop) {
  const NextHopId before = sets_.of(prefix.family()).Exchange(prefix, next_hop);
  if (before == next_hop) return before;
  if (before != kNoRoute) {
    digest_.Remove(Route{prefix, before});
    --length(prefix);
  }
  if (next_hop != kNoRoute) {
    digest_.Add(Route{prefix, next_hop});
    ++length(prefix);
  }
  return before;
}

void TableRoutes::PrefetchFrom(
    size_t i, size_t count,
    absl::FunctionRef<const Prefix&(size_t)> prefix) const {
  if (count - i < 2) return;
  PerFamily<absl::InlinedVector<PackedPrefix, kPrefetched>> prefixes;
  for (const size_t end = std::min(count, i + kPrefetched); i < end; ++i) {
    prefixes.of(prefix(i).family()).emplace_back(prefix(i));
  }
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    sets_.of(family).Prefetch(prefixes.of(family));
  }
}

absl::StatusOr<bool> TableFibsCompiler::Update(
    const TableRoutes& routes,
    absl::Span<const absl::Span<const Route>> changed) {
  bool everything = false;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const RouteSet& set = routes.of(family);
    // No more than tells FibCompiler to compile everything.
    std::vector<Prefix> prefixes;
    for (const absl::Span<const Route> part : changed) {
      for (const Route& route : part) {
        if (prefixes.size() > FibCompiler::MostChanges(set.size())) break;
        if (route.prefix.family() == family) prefixes.push_back(route.prefix);
      }
    }
    std::shared_ptr<const Fib>& fib = fibs_.of(family);
    if (fib != nullptr && prefixes.empty()) continue;
    FibCompiler& compiler = *compilers_.of(family);
    const uint64_t before = compiler.counters().incremental;
    auto next =
        fib == nullptr ? compiler.Compile(set) : compiler.Update(set, prefixes);
    if (!next.ok()) return next.status();
    fib = *std::move(next);
    everything |= compiler.counters().incremental == before;
  }
  return everything;
}

}  // namespace planb
