// SPDX-License-Identifier: Apache-2.0

// One generation of one table, compiled: all that a lookup may want to know.

#ifndef PLANB_SERVER_TABLE_SNAPSHOT_H_
#define PLANB_SERVER_TABLE_SNAPSHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "server/table/group_table.h"
#include "server/table/rib.h"
#include "server/table/update.h"

namespace planb::server {

// Thread-safe: const. It shares memory with the generations before and after
// it.
class Snapshot {
 public:
  // REQUIRES: each FIB is that of its routes.
  Snapshot(uint64_t generation, std::string digest,
           std::shared_ptr<const RouteSet> routes_v4,
           std::shared_ptr<const RouteSet> routes_v6, NextHopSet next_hops,
           std::shared_ptr<const GroupTable> groups,
           std::shared_ptr<const Fib> fib_v4, std::shared_ptr<const Fib> fib_v6)
      : generation_(generation),
        digest_(std::move(digest)),
        routes_v4_(std::move(routes_v4)),
        routes_v6_(std::move(routes_v6)),
        next_hops_(std::move(next_hops)),
        groups_(std::move(groups)),
        fib_v4_(std::move(fib_v4)),
        fib_v6_(std::move(fib_v6)) {}

  uint64_t generation() const { return generation_; }

  // Table.digest of the routes.
  const std::string& digest() const { return digest_; }

  const Fib& fib(Family family) const {
    return family == Family::kIpv6 ? *fib_v6_ : *fib_v4_;
  }

  // The routes this was compiled from. May be held for as long as a list takes;
  // that does not keep the search structures alive.
  const std::shared_ptr<const RouteSet>& routes(Family family) const {
    return family == Family::kIpv6 ? routes_v6_ : routes_v4_;
  }

  // The route that decides about `address`: the longest prefix that holds it.
  // Microseconds, for diagnosis.
  std::optional<Route> Match(const Address& address) const {
    return routes(address.family())->Match(address);
  }

  // Cheap to copy, to be held as long as need be.
  const NextHopSet& next_hops() const { return next_hops_; }

  // The object behind `id`, or nullptr.
  const NextHop* FindNextHop(NextHopId id) const { return next_hops_.Find(id); }

  // The next-hop groups, and who takes which flow.
  const GroupTable& groups() const { return *groups_; }

  // Elementary intervals of the search structure, neighbours merged. The first
  // call counts them, in about the time it takes to compile them.
  size_t intervals(Family family) const;

  // Bytes of the search structures.
  size_t fib_bytes() const { return fib_v4_->bytes() + fib_v6_->bytes(); }

 private:
  const uint64_t generation_;
  const std::string digest_;
  const std::shared_ptr<const RouteSet> routes_v4_;
  const std::shared_ptr<const RouteSet> routes_v6_;
  const NextHopSet next_hops_;
  const std::shared_ptr<const GroupTable> groups_;
  const std::shared_ptr<const Fib> fib_v4_;
  const std::shared_ptr<const Fib> fib_v6_;
  // Counted when asked for: a rebuild need not wait for it.
  mutable std::once_flag counted_;
  mutable std::array<size_t, 2> intervals_ = {};  // v4, v6
};

// Called before each build; an error fails it. For tests: what can go wrong in
// earnest is that there is no memory, or that a FIB cannot hold the table.
using BuildFault = std::function<absl::Status(uint64_t generation)>;

// Thread-compatible.
class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(BuildFault fault = nullptr)
      : fault_(std::move(fault)) {}

  // The snapshot of `rib`, which is that of the last snapshot built with
  // `deltas` applied. Errors: RESOURCE_EXHAUSTED if there is no memory for it,
  // or if a FIB cannot hold it; then the same changes are to be built again,
  // with those that came since.
  absl::StatusOr<std::unique_ptr<const Snapshot>> Build(
      uint64_t generation, const Rib& rib,
      absl::Span<const std::shared_ptr<const Delta>> deltas);

  // Builds so far: of what changed, and of everything.
  uint64_t incremental_builds() const { return incremental_; }
  uint64_t full_builds() const { return full_; }

 private:
  // One family; the last build's routes and FIB. Without a compiler, the next
  // build is one of everything.
  struct Half {
    explicit Half(Family f) : family(f) {}
    const Family family;
    std::unique_ptr<FibCompiler> compiler;
    std::shared_ptr<const RouteSet> routes;
    std::shared_ptr<const Fib> fib;
  };
  using Deltas = absl::Span<const std::shared_ptr<const Delta>>;
  // True if that took a compilation of everything.
  static absl::StatusOr<bool> Compile(Half& half, const Rib& rib,
                                      Deltas deltas);

  void MakeGroups(const std::shared_ptr<const NextHopGroupMap>& map);

  const BuildFault fault_;
  Half v4_{Family::kIpv4};
  Half v6_{Family::kIpv6};
  std::shared_ptr<const NextHopGroupMap> made_of_;
  std::shared_ptr<const GroupTable> groups_ =
      std::make_shared<const GroupTable>();
  uint64_t incremental_ = 0;
  uint64_t full_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SNAPSHOT_H_
