// SPDX-License-Identifier: Apache-2.0

// One generation of one table as lookups read it, and how it is compiled from a
// RIB.

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
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "server/table/group_table.h"
#include "server/table/rib.h"
#include "server/table/update.h"

namespace planb::server {

// The FIBs, routes, next hops and groups of one generation. Immutable and thus
// thread-safe. Shares memory with the generations before and after it.
class Snapshot {
 public:
  // REQUIRES: each FIB was compiled from the routes of its family.
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

  // Table.digest.
  const std::string& digest() const { return digest_; }

  const Fib& fib(Family family) const {
    return family == Family::kIpv6 ? *fib_v6_ : *fib_v4_;
  }

  // The routes this was compiled from. A caller that lists routes may keep
  // them; they do not keep the FIBs alive.
  const std::shared_ptr<const RouteSet>& routes(Family family) const {
    return family == Family::kIpv6 ? routes_v6_ : routes_v4_;
  }

  // What the FIBs were compiled for.
  FibOptions fib_options() const {
    return {.prefix_lengths = fib_v6_->keeps_prefix_lengths()};
  }

  // The route of the longest prefix that contains `address`. Takes
  // microseconds: for diagnosis, not for the lookup path.
  std::optional<Route> Match(const Address& address) const {
    return routes(address.family())->Match(address);
  }

  // Cheap to copy; a copy may outlive the snapshot.
  const NextHopSet& next_hops() const { return next_hops_; }

  // The next-hop object with this id, or nullptr.
  const NextHop* FindNextHop(NextHopId id) const { return next_hops_.Find(id); }

  // Chooses the member of a group for a flow.
  const GroupTable& groups() const { return *groups_; }

  // Elementary intervals of the FIB, with equal neighbours merged. The first
  // call counts them; it takes about as long as compiling the FIB.
  size_t intervals(Family family) const;

  // Bytes of the FIBs.
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
  // Counted on demand, so that a rebuild does not wait for it.
  mutable std::once_flag counted_;
  mutable std::array<size_t, 2> intervals_ = {};  // v4, v6
};

// What is read of a generation as a whole. Keeps its routes, not its FIBs.
struct Pinned {
  explicit Pinned(const Snapshot& snapshot)
      : generation(snapshot.generation()),
        digest(snapshot.digest()),
        routes{snapshot.routes(Family::kIpv4), snapshot.routes(Family::kIpv6)},
        next_hops(snapshot.next_hops()) {}

  uint64_t generation;
  std::string digest;
  std::array<std::shared_ptr<const RouteSet>, 2> routes;  // v4, v6
  NextHopSet next_hops;
};

// Writes a table file of `table`. Errors: those of the output; INVALID_ARGUMENT
// if an item does not fit in a block.
absl::Status WriteTableFile(const std::string& table, const Pinned& pinned,
                            TableFileWriter::Output output);

// Called before each build, which fails with its error. For tests: a real build
// fails only if memory is exhausted or if a FIB cannot hold the table.
using BuildFault = std::function<absl::Status(uint64_t generation)>;

// The reason of the error of a build for want of memory.
inline constexpr char kNoBuildMemory[] = "BUILD_MEMORY";

// Compiles one generation after the other: from the changes since the previous
// one, or from all routes if there are too many changes. Thread-compatible.
class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(BuildFault fault = nullptr,
                           const FibOptions& options = {})
      : fault_(std::move(fault)), options_(options) {}

  // The snapshot of `rib`. Errors: RESOURCE_EXHAUSTED if memory is exhausted or
  // if a FIB cannot hold the routes; then the next call must repeat these
  // deltas. REQUIRES: `rib` is the RIB of the last snapshot that was built,
  // with `deltas` applied.
  absl::StatusOr<std::unique_ptr<const Snapshot>> Build(
      uint64_t generation, const Rib& rib,
      absl::Span<const std::shared_ptr<const Delta>> deltas);

  // Builds so far: from changes, and from all routes.
  uint64_t incremental_builds() const { return incremental_; }
  uint64_t full_builds() const { return full_; }

 private:
  // One family: the routes and the FIB of the last build. Without a compiler,
  // the next build starts from all routes.
  struct Half {
    explicit Half(Family f) : family(f) {}
    const Family family;
    std::unique_ptr<FibCompiler> compiler;
    std::shared_ptr<const RouteSet> routes;
    std::shared_ptr<const Fib> fib;
  };
  using Deltas = absl::Span<const std::shared_ptr<const Delta>>;
  // True if it compiled all routes.
  absl::StatusOr<bool> Compile(Half& half, const Rib& rib, Deltas deltas) const;

  void MakeGroups(const NextHopGroupMap& map);

  const BuildFault fault_;
  const FibOptions options_;
  Half v4_{Family::kIpv4};
  Half v6_{Family::kIpv6};
  NextHopGroupMap made_of_;
  std::shared_ptr<const GroupTable> groups_ =
      std::make_shared<const GroupTable>();
  uint64_t incremental_ = 0;
  uint64_t full_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SNAPSHOT_H_
