// SPDX-License-Identifier: Apache-2.0

// Makes a snapshot of a table that is given as a list.

#ifndef PLANB_SERVER_TESTING_MAKE_SNAPSHOT_H_
#define PLANB_SERVER_TESTING_MAKE_SNAPSHOT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lpm/prefix.h"
#include "server/table/rib.h"
#include "server/table/snapshot.h"

namespace planb::server {

inline std::unique_ptr<const Snapshot> MakeSnapshot(
    uint64_t generation, std::vector<Route> routes,
    std::vector<NextHop> next_hops = {}, std::vector<NextHopGroup> groups = {},
    const FibOptions& options = {}) {
  std::sort(routes.begin(), routes.end());
  UpdateBatch batch;
  batch.replacement = std::move(routes);
  batch.next_hops = std::move(next_hops);
  batch.groups = std::move(groups);
  Rib rib(RibLimits{});
  EXPECT_TRUE(rib.Apply(batch).ok());
  return *SnapshotBuilder(nullptr, options).Build(generation, rib, {});
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MAKE_SNAPSHOT_H_
