// SPDX-License-Identifier: Apache-2.0

// Compiles one generation after the other, each from what changed since the
// last or, where that is too much, from everything.

#ifndef PLANB_SERVER_TABLE_SNAPSHOT_BUILDER_H_
#define PLANB_SERVER_TABLE_SNAPSHOT_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/fib_compiler.h"
#include "server/table/rib.h"
#include "server/table/snapshot.h"
#include "server/table/update.h"

namespace planb::server {

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

#endif  // PLANB_SERVER_TABLE_SNAPSHOT_BUILDER_H_
