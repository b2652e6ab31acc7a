// SPDX-License-Identifier: Apache-2.0

// A table that changes: the routes of both families with their digest, and the
// FIBs that follow them.
//
//   TableRoutes routes;
//   TableFibsCompiler compiler;
//   routes.Exchange(route.prefix, route.next_hop);
//   absl::StatusOr<bool> everything = compiler.Update(routes, {{{route}}});
//   compiler.fibs().of(Family::kIpv6)->Lookup(address);

#ifndef PLANB_LPM_TABLE_TABLE_H_
#define PLANB_LPM_TABLE_TABLE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "lpm/routes/table_digest.h"

namespace planb {

// One of each family.
template <typename T>
struct PerFamily {
  T v4, v6;

  T& of(Family family) { return family == Family::kIpv6 ? v6 : v4; }
  const T& of(Family family) const { return family == Family::kIpv6 ? v6 : v4; }
};

// Thread-compatible in the way of RouteSet.
class TableRoutes {
 public:
  TableRoutes() = default;
  // Ascending. O(routes).
  explicit TableRoutes(absl::Span<const Route> routes);

  // The same routes, as RouteSet::Share. O(1).
  TableRoutes Share() const;

  // As RouteSet::Exchange.
  NextHopId Exchange(const Prefix& prefix, NextHopId next_hop);

  // Before Exchange of the `i`-th of `count` prefixes in turn, which `prefix`
  // has: loads what those of the next ones read, every kPrefetched times.
  // Changes of a large table otherwise wait for memory one after the other.
  void Prefetch(size_t i, size_t count,
                absl::FunctionRef<const Prefix&(size_t)> prefix) const {
    if (i % kPrefetched == 0) PrefetchFrom(i, count, prefix);
  }

  const RouteSet& of(Family family) const { return sets_.of(family); }
  // How many there are of each length.
  const RoutesByLength& lengths(Family family) const {
    return lengths_.of(family);
  }
  const TableDigest& digest() const { return digest_; }
  size_t size() const { return sets_.v4.size() + sets_.v6.size(); }
  size_t bytes() const { return sets_.v4.bytes() + sets_.v6.bytes(); }

 private:
  static constexpr size_t kPrefetched = 32;
  void PrefetchFrom(size_t i, size_t count,
                    absl::FunctionRef<const Prefix&(size_t)> prefix) const;

  uint64_t& length(const Prefix& prefix) {
    return lengths_.of(prefix.family())[static_cast<size_t>(prefix.length())];
  }

  PerFamily<RouteSet> sets_ = {RouteSet(Family::kIpv4),
                               RouteSet(Family::kIpv6)};
  PerFamily<RoutesByLength> lengths_ = {};
  TableDigest digest_;
};

// The FIBs of one generation.
using TableFibs = PerFamily<std::shared_ptr<const Fib>>;

// Makes the FIBs of one generation after the other. Thread-compatible.
class TableFibsCompiler {
 public:
  explicit TableFibsCompiler(const FibOptions& options = {})
      : compilers_{std::make_unique<FibCompiler>(Family::kIpv4, options),
                   std::make_unique<FibCompiler>(Family::kIpv6, options)} {}

  // Makes the FIBs those of `routes`, which differ from those of the last
  // successful call at most at `changed`; the first call compiles everything.
  // FibCompiler decides whether to compile a family anew; true if it did so
  // with one. Errors, and exceptions: those of FibCompiler::Update. Then the
  // FIBs are of no generation, and the next call repeats the changes.
  absl::StatusOr<bool> Update(
      const TableRoutes& routes,
      absl::Span<const absl::Span<const Route>> changed);

  // The next call of Update compiles everything.
  void Restart() { fibs_ = {}; }

  const TableFibs& fibs() const { return fibs_; }

 private:
  PerFamily<std::unique_ptr<FibCompiler>> compilers_;
  TableFibs fibs_;
};

}  // namespace planb

#endif  // PLANB_LPM_TABLE_TABLE_H_
