// The RIB: every route of one table exactly as given, in the order in which
// the interval sweep wants it, with the next-hop objects beside.

#ifndef PLANB_SERVER_RIB_H_
#define PLANB_SERVER_RIB_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::server {

// One change to one prefix; what each does is said in route_table.proto.
struct RouteChange {
  enum class Op { kUpsert, kInsert, kReplace, kDelete, kDeleteStrict };
  Op op = Op::kUpsert;
  Prefix prefix;
  NextHopId next_hop = kNoRoute;  // kNoRoute for deletes
};

// What a batch did, or would do.
struct ChangeCounts {
  uint64_t added = 0;
  uint64_t changed = 0;
  uint64_t removed = 0;
  uint64_t unchanged = 0;
  bool next_hops_changed = false;

  bool Any() const {
    return added + changed + removed > 0 || next_hops_changed;
  }
};

struct RibLimits {
  uint64_t max_routes = 4'000'000;
  uint64_t max_next_hops = 1'000'000;
};

using NextHopMap = std::map<NextHopId, NextHop>;

// Thread-compatible. Invariants: no prefix twice, no next hop 0; `digest` is
// that of the routes held.
class Rib {
 public:
  explicit Rib(const RibLimits& limits) : limits_(limits) {}

  // Tells what a batch would do. Changes nothing. O(batch * log routes).
  // Errors, with field paths into UpdateRoutesRequest: INVALID_ARGUMENT
  // (PREFIX_REPEATED, NEXT_HOP_REPEATED), ALREADY_EXISTS (ROUTE_EXISTS),
  // NOT_FOUND (ROUTE_NOT_FOUND, NEXT_HOP_NOT_FOUND), RESOURCE_EXHAUSTED
  // (TABLE_FULL, NEXT_HOPS_FULL).
  absl::StatusOr<ChangeCounts> Check(absl::Span<const RouteChange> changes,
                                     absl::Span<const NextHop> next_hops,
                                     bool require_next_hops) const;

  // Applies a batch. REQUIRES: Check() said OK to it since the last change.
  void Apply(absl::Span<const RouteChange> changes,
             absl::Span<const NextHop> next_hops);

  // All routes, ordered by prefix: IPv4 first. O(routes).
  std::vector<Route> Routes() const;

  // Immutable; a change of next hops makes a new one.
  std::shared_ptr<const NextHopMap> next_hops() const { return next_hops_; }

  uint64_t size() const { return routes_.size(); }
  uint64_t size(Family family) const;

  // Number of routes of each length, 0..128.
  const std::array<uint64_t, 129>& lengths(Family family) const;

  // Table.digest: 16 octets, independent of the order of changes.
  std::string digest() const;

  // Octets held, estimated from the number of entries.
  uint64_t bytes() const;

 private:
  void Count(const Route& route, bool add);

  const RibLimits limits_;
  absl::btree_map<Prefix, NextHopId> routes_;
  std::shared_ptr<const NextHopMap> next_hops_ =
      std::make_shared<const NextHopMap>();
  // The sum of the routes' 128-bit hashes, modulo 2^128.
  absl::uint128 digest_ = 0;
  std::array<std::array<uint64_t, 129>, 2> lengths_ = {};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_RIB_H_
