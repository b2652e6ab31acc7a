// SPDX-License-Identifier: Apache-2.0

// What the batches of one commit come to: only the last state of each prefix,
// next hop and group has to be written.

#ifndef PLANB_SERVER_STORE_STORE_CHANGES_H_
#define PLANB_SERVER_STORE_STORE_CHANGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// Points into the batches it was made of. A plain value.
struct StoreChanges {
  // Ascending, each prefix once; kNoRoute: withdrawn.
  std::vector<const Route*> routes;
  // nullptr: deleted.
  std::map<NextHopId, const NextHop*> next_hops;
  std::map<NextHopId, const NextHopGroup*> groups;
  // In the order of the batches.
  std::vector<const AnsweredRequest*> requests;
  // The last one: it says where the table is afterwards. nullptr if nothing
  // changed.
  const Delta* last = nullptr;
  uint64_t writer_epoch = 0;
};

// O(n log n) for n routes, O(n) for one batch that is in order already.
// REQUIRES: `batches` is not empty. Where a delta both deletes and has a next
// hop, it has it.
StoreChanges MergeBatches(absl::Span<const AcceptedBatch> batches);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_CHANGES_H_
