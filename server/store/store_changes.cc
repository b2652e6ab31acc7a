// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_changes.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"

namespace planb::server {
namespace {

// Leaves the last of those with the same prefix, in order of prefixes.
void KeepLast(std::vector<const Route*>& routes) {
  const auto before = [](const Route* a, const Route* b) {
    return a->prefix < b->prefix;
  };
  if (!std::is_sorted(routes.begin(), routes.end(), before)) {
    std::stable_sort(routes.begin(), routes.end(), before);
  }
  // std::unique keeps the first of each run, so walk backwards.
  const auto kept = std::unique(
      routes.rbegin(), routes.rend(),
      [](const Route* a, const Route* b) { return a->prefix == b->prefix; });
  routes.erase(routes.begin(), kept.base());
}

}  // namespace

StoreChanges MergeBatches(absl::Span<const AcceptedBatch> batches) {
  ABSL_RAW_CHECK(!batches.empty(), "there is something to commit");
  StoreChanges changes;
  size_t routes = 0;
  for (const AcceptedBatch& batch : batches) {
    if (batch.delta != nullptr) routes += batch.delta->routes.size();
  }
  changes.routes.reserve(routes);
  for (const AcceptedBatch& batch : batches) {
    changes.writer_epoch = batch.writer_epoch;
    if (batch.request.has_value()) changes.requests.push_back(&*batch.request);
    if (batch.delta == nullptr) continue;
    const Delta& delta = *batch.delta;
    changes.last = &delta;
    for (const Route& route : delta.routes) changes.routes.push_back(&route);
    for (NextHopId id : delta.deleted_next_hops) {
      changes.next_hops[id] = nullptr;
    }
    for (const NextHop& hop : delta.next_hops) changes.next_hops[hop.id] = &hop;
    for (NextHopId id : delta.deleted_groups) changes.groups[id] = nullptr;
    for (const NextHopGroup& group : delta.groups) {
      changes.groups[group.id] = &group;
    }
  }
  KeepLast(changes.routes);
  return changes;
}

}  // namespace planb::server
