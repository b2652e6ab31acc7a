// SPDX-License-Identifier: Apache-2.0

// The RIB: every route of one table exactly as given, in the order in which
// the interval sweep wants it, with the next hops beside. Each version can be
// kept, for as long as a list takes or to come back to, at the price of what
// changes after it.

#ifndef PLANB_SERVER_TABLE_RIB_H_
#define PLANB_SERVER_TABLE_RIB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "server/base/error.h"
#include "server/table/table_digest.h"
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

struct RibLimits {
  uint64_t max_routes = 4'000'000;
  uint64_t max_next_hops = 1'000'000;  // and groups
};

using LengthCounts = std::array<uint64_t, 129>;

// Thread-compatible; what Share() returned is independent. Invariants: no
// prefix twice, no reserved next hop; `digest` is that of the routes held.
class Rib {
 public:
  explicit Rib(const RibLimits& limits) : limits_(limits) {}

  // The same routes, from now on apart: each may be read, changed and destroyed
  // on a thread of its own. O(1).
  Rib Share() const;

  // What a batch did.
  struct Change {
    ChangeCounts counts;
    Delta delta;  // without its generation
  };

  // Applies a batch. On an error the RIB is left in between, of no more use:
  // apply to what Share() returned, and keep that if all went well.
  // O(batch * log routes); a replacement, and a deletion of next hops,
  // O(routes).
  //
  // Errors, with paths into the request's lists: INVALID_ARGUMENT
  // (PREFIX_REPEATED and those of NextHopSet), ALREADY_EXISTS (ROUTE_EXISTS),
  // NOT_FOUND (ROUTE_NOT_FOUND, NEXT_HOP_NOT_FOUND, GROUP_NOT_FOUND),
  // FAILED_PRECONDITION (NEXT_HOP_IN_USE), RESOURCE_EXHAUSTED (TABLE_FULL,
  // NEXT_HOPS_FULL).
  absl::StatusOr<Change> Apply(const UpdateBatch& batch);

  const RouteSet& routes(Family family) const {
    return family == Family::kIpv6 ? v6_ : v4_;
  }
  // Of one family, to be kept. O(1).
  RouteSet ShareRoutes(Family family) const { return routes(family).Share(); }

  const NextHopSet& next_hops() const { return next_hops_; }

  uint64_t size() const { return v4_.size() + v6_.size(); }

  // Number of routes of each length.
  const LengthCounts& lengths(Family family) const {
    return lengths_[family == Family::kIpv6 ? 1 : 0];
  }

  // Table.digest.
  std::string digest() const { return digest_.ToString(); }

  // Bytes held, those included that are shared with other versions. O(1).
  size_t bytes() const;

 private:
  RouteSet& mutable_routes(Family family) {
    return family == Family::kIpv6 ? v6_ : v4_;
  }
  void ApplyChanges(const UpdateBatch& batch, Violations& violations,
                    Change& change);
  // use(prefix, next hop before, next hop after) for each prefix that is held
  // or wanted, ascending; also where nothing differs.
  template <typename Use>
  void ForEachDifference(const std::vector<Route>& wanted, Use use) const;
  void Replace(const UpdateBatch& batch, Violations& violations,
               Change& change);
  // Sets a route, or with kNoRoute withdraws it, and keeps the books.
  // Returns the next hop before.
  NextHopId Set(const Prefix& prefix, NextHopId next_hop, Change& change);
  void Book(const Prefix& prefix, NextHopId before, NextHopId after,
            Change& change);
  void CheckUnused(const UpdateBatch& batch, const Delta& delta,
                   Violations& violations) const;
  absl::Status CheckLimits(uint64_t routes_before,
                           size_t next_hops_before) const;

  RibLimits limits_;
  RouteSet v4_{Family::kIpv4};
  RouteSet v6_{Family::kIpv6};
  NextHopSet next_hops_;
  TableDigest digest_;
  std::array<LengthCounts, 2> lengths_ = {};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_RIB_H_
