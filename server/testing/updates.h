// SPDX-License-Identifier: Apache-2.0

// Short ways to write an update.

#ifndef PLANB_SERVER_TESTING_UPDATES_H_
#define PLANB_SERVER_TESTING_UPDATES_H_

#include "absl/strings/string_view.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

inline UpdateBatch Change(RouteChange::Op op, absl::string_view prefix,
                          NextHopId next_hop = kNoRoute) {
  UpdateBatch batch;
  batch.changes = {{op, Prefix::Parse(prefix).value(), next_hop}};
  return batch;
}

inline UpdateBatch Announce(absl::string_view prefix, NextHopId next_hop) {
  return Change(RouteChange::Op::kUpsert, prefix, next_hop);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_UPDATES_H_
