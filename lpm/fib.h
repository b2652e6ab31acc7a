// The FIB: an immutable search structure that answers longest-prefix-match
// lookups, many at a time.
//
// This is the PlanB structure (NSDI '26): prefixes become elementary intervals
// (section 3.1), their starts the keys of a pointer-free linearized B+-tree
// (3.3), searched by vector compares, in batches, without a branch (3.5).
//
//   std::vector<Route> routes = ...;               // sorted, one family
//   std::unique_ptr<const Fib> fib = Fib::Build(Family::kIpv6, routes);
//   fib->Lookup(packet_addresses, n, next_hops);

#ifndef PLANB_LPM_FIB_H_
#define PLANB_LPM_FIB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/kernel.h"
#include "lpm/prefix.h"
#include "lpm/tree.h"

namespace planb {

// Thread-safe: const after Build.
class Fib {
 public:
  // Compiles `routes`. O(routes).
  // REQUIRES: all of `family`, strictly ascending by prefix, no next hop 0.
  static std::unique_ptr<const Fib> Build(Family family,
                                          absl::Span<const Route> routes);

  // Looks up `count` packed addresses in network byte order (16 octets each
  // for IPv6, 4 for IPv4) and writes as many next-hop ids, each a little-endian
  // uint32; 0 is no route. Neither array need be aligned; they must not
  // overlap. O(count * log9(intervals)), no allocation, any `count`.
  void Lookup(const void* addresses, size_t count, void* next_hops,
              const Kernel& kernel) const;

  // One address; 0 is no route. REQUIRES: address.family() == family().
  NextHopId Lookup(const Address& address, const Kernel& kernel) const;
  // The same, by the best kernel.
  NextHopId Lookup(const Address& address) const {
    return Lookup(address, *AvailableKernels().front());
  }

  Family family() const { return family_; }

  // Number of elementary intervals, neighbours with one next hop merged.
  size_t intervals() const { return intervals_; }

  // Octets this structure holds.
  size_t bytes() const;

 private:
  Fib(Family family, Tree tree, size_t intervals)
      : family_(family), intervals_(intervals), tree_(std::move(tree)) {}

  Family family_;
  size_t intervals_;
  Tree tree_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_H_
