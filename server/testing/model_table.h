// SPDX-License-Identifier: Apache-2.0

// A routing table as the contract (proto/planb/v1) promises it, with no thought
// of speed: maps, and one batch after the other. What the real server says is
// held against this.

#ifndef PLANB_SERVER_TESTING_MODEL_TABLE_H_
#define PLANB_SERVER_TESTING_MODEL_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// A plain value.
struct ModelTable {
  std::map<Prefix, NextHopId> routes;
  std::map<NextHopId, NextHop> next_hops;
  std::map<NextHopId, NextHopGroup> groups;

  friend bool operator==(const ModelTable&, const ModelTable&) = default;
};

// What becomes of a batch.
struct ModelResult {
  // Every reason there is to refuse it; empty: it is accepted.
  std::set<std::string> refusals;
  // If accepted (whatever `validate_only` says): the table then, and what that
  // changed.
  ModelTable after;
  ChangeCounts counts;
};

// Applies `batch` to `before`, which is of `generation`. Writer epochs and
// request ids are not looked at.
ModelResult ApplyToModel(const ModelTable& before, uint64_t generation,
                         const UpdateBatch& batch);

// What leads from one table to the other, ascending; without its generation.
Delta Difference(const ModelTable& before, const ModelTable& after);

// Puts the lists of a delta into the order of Difference.
void SortDelta(Delta& delta);

// What differs between two ascending deltas, for people; "" if nothing does.
std::string CompareDeltas(const Delta& actual, const Delta& expected);

// Table.digest.
std::string DigestOf(const ModelTable& table);

// Looks at every route.
NextHopId LongestMatch(const ModelTable& table, const Address& address);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_TABLE_H_
