// SPDX-License-Identifier: Apache-2.0

// The next-hop objects and groups of one table: what the ids of its routes
// mean.

#ifndef PLANB_SERVER_TABLE_NEXT_HOP_SET_H_
#define PLANB_SERVER_TABLE_NEXT_HOP_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "lpm/prefix.h"
#include "server/base/error.h"
#include "server/table/update.h"

namespace planb::server {

using NextHopMap = std::map<NextHopId, NextHop>;
using NextHopGroupMap = std::map<NextHopId, NextHopGroup>;

// A value that is cheap to copy: the maps are immutable, and one that changes
// is made anew, O(entries). Thread-compatible. Invariants: an id is a next
// hop's or a group's, never both; members of groups are no groups.
class NextHopSet {
 public:
  // Applies a batch's part, counts it, and writes down in `delta` what really
  // changed. What is wrong goes into `violations`; then this is left in
  // between, to be thrown away. Errors: INVALID_ARGUMENT (NEXT_HOP_REPEATED,
  // GROUP_NESTED, NEXT_HOP_IS_GROUP), NOT_FOUND (NEXT_HOP_NOT_FOUND,
  // GROUP_NOT_FOUND).
  void Apply(const UpdateBatch& batch, Violations& violations,
             ChangeCounts& counts, Delta& delta);

  // Null if there is none.
  const NextHop* Find(NextHopId id) const;
  const NextHopGroup* FindGroup(NextHopId id) const;
  bool Has(NextHopId id) const {
    return Find(id) != nullptr || FindGroup(id) != nullptr;
  }

  // How many groups name each of the members.
  absl::flat_hash_map<NextHopId, uint64_t> Members() const;

  const std::shared_ptr<const NextHopMap>& next_hops() const {
    return next_hops_;
  }
  const std::shared_ptr<const NextHopGroupMap>& groups() const {
    return groups_;
  }

  // Entries of both kinds.
  size_t size() const { return next_hops_->size() + groups_->size(); }

  // Bytes held, about. O(1).
  size_t bytes() const;

 private:
  void CheckKinds(const UpdateBatch& batch, Violations& violations) const;

  std::shared_ptr<const NextHopMap> next_hops_ =
      std::make_shared<const NextHopMap>();
  std::shared_ptr<const NextHopGroupMap> groups_ =
      std::make_shared<const NextHopGroupMap>();
  size_t text_bytes_ = 0;  // of names, labels and members
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_NEXT_HOP_SET_H_
