// SPDX-License-Identifier: Apache-2.0

// The RIB of one table: every route as given, in the order of prefixes that FIB
// compilation needs, and the next-hop objects and groups. A version of it can
// be kept, to list it or to roll back to it; that costs only the memory of
// later changes.

#ifndef PLANB_SERVER_TABLE_RIB_H_
#define PLANB_SERVER_TABLE_RIB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/prefix.h"
#include "lpm/routes/next_hop_map.h"
#include "lpm/routes/persistent_map.h"
#include "lpm/routes/route_set.h"
#include "lpm/routes/table_digest.h"
#include "lpm/table/table.h"
#include "server/base/error.h"
#include "server/table/update.h"

namespace planb::server {

// How often an id is named.
struct NextHopUses {
  NextHopId id = kNoRoute;
  uint64_t routes = 0;
  uint64_t groups = 0;
};

using NextHopUsesMap = PersistentMap<ById<NextHopUses>, 64, 64>;

// The next-hop objects and groups that the ids of a table's routes refer to.
// A copy takes O(1) and shares what neither changes. Thread-compatible.
// Invariants: an id belongs to a next hop or to a group, never to both; groups
// do not contain groups.
class NextHopSet {
 public:
  NextHopSet() = default;
  NextHopSet(const NextHopSet& other)
      : next_hops_(other.next_hops_.Share()),
        groups_(other.groups_.Share()),
        uses_(other.uses_.Share()),
        digest_(other.digest_),
        text_bytes_(other.text_bytes_),
        attributed_(other.attributed_) {}
  NextHopSet(NextHopSet&&) noexcept = default;
  NextHopSet& operator=(const NextHopSet& other) {
    return *this = NextHopSet(other);
  }
  NextHopSet& operator=(NextHopSet&&) noexcept = default;

  // Applies the next hops and groups of a batch, counts them, and adds the
  // effective changes to `delta`. Adds errors to `violations`; then this set is
  // partially changed and must be discarded. O(batch * log entries). Errors:
  // INVALID_ARGUMENT (NEXT_HOP_REPEATED, GROUP_NESTED, GROUP_INVALID,
  // NEXT_HOP_IS_GROUP),
  // NOT_FOUND (NEXT_HOP_NOT_FOUND, GROUP_NOT_FOUND).
  void Apply(const UpdateBatch& batch, Violations& violations,
             ChangeCounts& counts, Delta& delta);
  // Applies those of a delta. What it both deletes and adds is added. Errors:
  // INVALID_ARGUMENT (GROUP_NESTED, GROUP_INVALID, NEXT_HOP_IS_GROUP).
  void Apply(const Delta& delta, Violations& violations, ChangeCounts& counts);

  // `change` more routes name the id; fewer, if it is negative.
  void CountRoutes(NextHopId id, int64_t change) { Count(id, change, 0); }

  // Null if there is none.
  const NextHop* Find(NextHopId id) const { return next_hops_.Find(id); }
  const NextHopGroup* FindGroup(NextHopId id) const { return groups_.Find(id); }
  bool Has(NextHopId id) const {
    return Find(id) != nullptr || FindGroup(id) != nullptr;
  }

  // How many routes and groups name the id.
  NextHopUses Uses(NextHopId id) const;

  const NextHopMap& next_hops() const { return next_hops_; }
  const NextHopGroupMap& groups() const { return groups_; }

  // Entries of both kinds.
  size_t size() const { return next_hops_.size() + groups_.size(); }

  // True if a next hop has attributes.
  bool has_attributes() const { return attributed_ > 0; }

  // Of the entries of both kinds.
  const TableDigest& digest() const { return digest_; }

  // Bytes held, approximately. O(1).
  size_t bytes() const;

 private:
  // Deletes entries of one kind and sets others. Returns them as they were.
  template <typename Map, typename Entry>
  std::vector<Entry> ApplyKind(const std::vector<Entry>& changed,
                               absl::Span<const NextHopId> deleted,
                               ChangeCounts& counts, Map& map);
  void ApplyGroups(const Delta& delta, ChangeCounts& counts);
  void Count(NextHopId id, int64_t routes, int64_t groups);
  void CountMembers(absl::Span<const NextHopGroup> groups, int64_t change);
  // Gives members without a weight that of their next hop, 1 without an object.
  void TakeWeights(absl::string_view field, Violations& violations,
                   std::vector<NextHopGroup>& groups) const;
  void CheckKinds(const UpdateFields& fields,
                  absl::Span<const NextHop> next_hops,
                  absl::Span<const NextHopGroup> groups,
                  Violations& violations) const;

  NextHopMap next_hops_;
  NextHopGroupMap groups_;
  NextHopUsesMap uses_;  // of ids that are named
  TableDigest digest_;
  size_t text_bytes_ = 0;  // of names, labels, attributes and members
  size_t attributed_ = 0;  // next hops with attributes
};

struct RibLimits {
  uint64_t max_routes = 4'000'000;
  uint64_t max_next_hops = 1'000'000;  // and groups
};
// For what was accepted under other limits.
inline constexpr RibLimits kNoRibLimits = {
    .max_routes = std::numeric_limits<uint64_t>::max(),
    .max_next_hops = std::numeric_limits<uint64_t>::max()};

// Thread-compatible. A Rib that Share() returned is independent of its source.
// Invariants: each prefix at most once; no reserved next-hop id; digest() is
// that of the routes, next hops and groups.
class Rib {
 public:
  explicit Rib(const RibLimits& limits) : limits_(limits) {}

  // A table that has more keeps what it has, and takes no more.
  void SetLimits(const RibLimits& limits) { limits_ = limits; }

  // A copy. The copy and this may be read, changed and destroyed on different
  // threads. O(1).
  Rib Share() const;

  // The effect of a batch.
  struct Change {
    ChangeCounts counts;
    OperationCounts operations;
    // Without its generation. Routes ascend by prefix.
    Delta delta;
    // For each next hop, how many more routes name it. (Not one of abseil's
    // tables: they free what they do not have if an allocation fails.)
    std::unordered_map<NextHopId, int64_t> uses;
  };

  // Applies a batch. After an error the RIB is partially changed and must be
  // discarded: apply to a copy from Share(), and keep the copy on success.
  // O(batch * log routes); O(routes) for a replacement.
  //
  // Errors, with paths into the request's lists: INVALID_ARGUMENT
  // (PREFIX_REPEATED and those of NextHopSet), ALREADY_EXISTS (ROUTE_EXISTS),
  // NOT_FOUND (ROUTE_NOT_FOUND, NEXT_HOP_NOT_FOUND, GROUP_NOT_FOUND),
  // FAILED_PRECONDITION (NEXT_HOP_IN_USE), RESOURCE_EXHAUSTED (TABLE_FULL,
  // NEXT_HOPS_FULL).
  absl::StatusOr<Change> Apply(const UpdateBatch& batch);

  // Applies what another server has accepted: no limit holds, and objects may
  // be deleted that are in use. After an error the RIB must be discarded.
  // O(delta * log routes). Errors: INVALID_ARGUMENT if no server can accept it.
  absl::StatusOr<ChangeCounts> Apply(const Delta& delta);

  // True if the batch can be applied to one version and rebased to another: its
  // changes of routes do not depend on the version, except for their counts,
  // and it changes nothing else.
  static bool CanRebase(const UpdateBatch& batch);

  // `change` is the effect of `batch` on `base`, and this is the result. Makes
  // them the effect on `head` and its result. `head` is `base` after changes of
  // no other prefixes than `touched`. After an error this and `change` must be
  // discarded. O(differences of `change` + touched * log routes).
  // Errors: RESOURCE_EXHAUSTED (TABLE_FULL).
  // REQUIRES: CanRebase(batch); `touched` ascends.
  absl::Status Rebase(const UpdateBatch& batch, const Rib& base,
                      const Rib& head, absl::Span<const Prefix> touched,
                      Change& change);

  const TableRoutes& routes() const { return routes_; }
  const RouteSet& routes(Family family) const { return routes_.of(family); }

  const NextHopSet& next_hops() const { return next_hops_; }

  uint64_t size() const { return routes_.size(); }

  // Number of routes of each length.
  const RoutesByLength& lengths(Family family) const {
    return routes_.lengths(family);
  }

  // Table.digest. O(1).
  std::string digest() const {
    TableDigest all = routes_.digest();
    all.Add(next_hops_.digest());
    return all.ToString();
  }

  // Table.complete_since_unix_nanos. Apply() of a delta sets it, that of a
  // batch does not.
  uint64_t complete_since() const { return complete_since_; }
  void SetCompleteSince(uint64_t nanos) { complete_since_ = nanos; }

  // Bytes held, including those shared with other versions. O(1).
  size_t bytes() const;

 private:
  // `order` is the ascending order of the changes, unless they ascend.
  void ApplyChanges(const UpdateBatch& batch, absl::Span<const uint32_t> order,
                    Violations& violations, Change& change);
  // Calls use(prefix, next hop before, next hop after) for each prefix that is
  // held or wanted, ascending, also for those that do not differ.
  template <typename Use>
  void ForEachDifference(const std::vector<Route>& wanted, Use use) const;
  void Replace(const UpdateBatch& batch, Violations& violations,
               Change& change);
  // Sets routes, or withdraws those without a next hop, and counts them.
  void SetRoutes(absl::Span<const Route> routes, Change& change);
  // The part of Rebase that concerns routes.
  void RebaseRoutes(const UpdateBatch& batch, const Rib& base, const Rib& head,
                    absl::Span<const Prefix> touched, Change& change);
  // Ends Apply() and Rebase().
  void Finish(const UpdateBatch& batch, Change& change) const;
  void CheckUnused(const UpdateBatch& batch, const Delta& delta,
                   Violations& violations) const;
  absl::Status CheckLimits(uint64_t routes_before,
                           size_t next_hops_before) const;

  RibLimits limits_;
  TableRoutes routes_;
  NextHopSet next_hops_;
  uint64_t complete_since_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_RIB_H_
