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
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"
#include "lpm/table/group_table.h"
#include "lpm/table/table.h"
#include "server/table/rib.h"
#include "server/table/update.h"

namespace planb::server {

// The FIBs, routes, next hops and groups of one generation. Immutable and thus
// thread-safe. Shares memory with the generations before and after it.
class Snapshot {
 public:
  // REQUIRES: the FIBs were compiled from the routes of `rib`.
  Snapshot(uint64_t generation, const Rib& rib,
           std::shared_ptr<const GroupTable> groups, TableFibs fibs)
      : generation_(generation),
        digest_(rib.digest()),
        complete_since_(rib.complete_since()),
        routes_(rib.routes().Share()),
        next_hops_(rib.next_hops()),
        groups_(std::move(groups)),
        fibs_(std::move(fibs)) {}

  uint64_t generation() const { return generation_; }

  // Table.digest.
  const std::string& digest() const { return digest_; }

  // Table.complete_since_unix_nanos.
  uint64_t complete_since() const { return complete_since_; }

  const Fib& fib(Family family) const { return *fibs_.of(family); }

  // The routes this was compiled from. A caller that lists routes may share
  // them; they do not keep the FIBs alive.
  const TableRoutes& routes() const { return routes_; }

  // What the FIBs were compiled for.
  FibOptions fib_options() const {
    return {.prefix_lengths = fibs_.v6->keeps_prefix_lengths()};
  }

  // The route of the longest prefix that contains `address`. Takes
  // microseconds: for diagnosis, not for the lookup path.
  std::optional<Route> Match(const Address& address) const {
    return routes_.of(address.family()).Match(address);
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
  size_t fib_bytes() const { return fibs_.v4->bytes() + fibs_.v6->bytes(); }

 private:
  const uint64_t generation_;
  const std::string digest_;
  const uint64_t complete_since_;
  const TableRoutes routes_;
  const NextHopSet next_hops_;
  const std::shared_ptr<const GroupTable> groups_;
  const TableFibs fibs_;
  // Counted on demand, so that a rebuild does not wait for it.
  mutable std::once_flag counted_;
  mutable std::array<size_t, 2> intervals_ = {};  // v4, v6
};

// What is read of a generation as a whole. Keeps its routes, not its FIBs.
struct Pinned {
  explicit Pinned(const Snapshot& snapshot)
      : generation(snapshot.generation()),
        digest(snapshot.digest()),
        complete_since(snapshot.complete_since()),
        routes(snapshot.routes().Share()),
        next_hops(snapshot.next_hops()) {}

  uint64_t generation;
  std::string digest;
  uint64_t complete_since;
  TableRoutes routes;
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

// Makes one snapshot after the other. Thread-compatible.
class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(BuildFault fault = nullptr,
                           const FibOptions& options = {})
      : fault_(std::move(fault)), compiler_(options) {}

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
  void MakeGroups(const NextHopGroupMap& map);

  const BuildFault fault_;
  TableFibsCompiler compiler_;
  NextHopGroupMap made_of_;
  std::shared_ptr<const GroupTable> groups_ =
      std::make_shared<const GroupTable>();
  uint64_t incremental_ = 0;
  uint64_t full_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SNAPSHOT_H_
