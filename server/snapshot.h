// One generation of one table, compiled: all that a lookup may want to know.

#ifndef PLANB_SERVER_SNAPSHOT_H_
#define PLANB_SERVER_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"
#include "server/group_table.h"
#include "server/rib.h"

namespace planb::server {

// Thread-safe: const after Compile.
class Snapshot {
 public:
  // O(routes). REQUIRES: routes strictly ascending by prefix.
  static std::unique_ptr<const Snapshot> Compile(
      uint64_t generation, std::vector<Route> routes,
      std::shared_ptr<const NextHopMap> next_hops,
      std::shared_ptr<const GroupTable> groups =
          std::make_shared<const GroupTable>());

  uint64_t generation() const { return generation_; }

  const Fib& fib(Family family) const {
    return family == Family::kIpv6 ? *fib_v6_ : *fib_v4_;
  }

  // The routes this was compiled from, IPv4 first. May be held for as long as
  // a dump takes; it does not keep the search structures alive.
  std::shared_ptr<const std::vector<Route>> routes() const { return routes_; }
  absl::Span<const Route> routes(Family family) const;

  // The route that decides about `address`: the longest prefix that holds it.
  // O(lengths in use * log routes): microseconds, for diagnosis.
  std::optional<Route> Match(const Address& address) const;

  std::shared_ptr<const NextHopMap> next_hops() const { return next_hops_; }

  // The object behind `id`, or nullptr.
  const NextHop* FindNextHop(NextHopId id) const;

  // The next-hop groups, and who takes which flow.
  const GroupTable& groups() const { return *groups_; }

  // Elementary intervals of the search structure, neighbours merged. The first
  // call counts them, in about the time it takes to compile them.
  size_t intervals(Family family) const;

  // Octets of the search structures.
  size_t fib_bytes() const { return fib_v4_->bytes() + fib_v6_->bytes(); }

 private:
  Snapshot() = default;

  uint64_t generation_ = 0;
  std::shared_ptr<const std::vector<Route>> routes_;
  size_t routes_v4_ = 0;  // the first so many
  // Lengths that occur, longest first, by family (v4, v6).
  std::array<std::vector<int>, 2> lengths_;
  std::shared_ptr<const NextHopMap> next_hops_;
  std::shared_ptr<const GroupTable> groups_;
  std::unique_ptr<const Fib> fib_v4_;
  std::unique_ptr<const Fib> fib_v6_;
  // Counted when asked for: a rebuild need not wait for it.
  mutable std::once_flag counted_;
  mutable std::array<size_t, 2> intervals_ = {};  // v4, v6
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SNAPSHOT_H_
