// A longest-prefix match for large tests: quick enough for millions of
// addresses, and built on nothing the engine is built on (no intervals, no
// order, no search): one hash table for each prefix length, asked from the
// longest to the shortest. Tested against the oracle.

#ifndef PLANB_LPM_TESTING_REFERENCE_H_
#define PLANB_LPM_TESTING_REFERENCE_H_

#include <array>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// Holds the routes of one family. Thread-safe: const after construction.
class Reference {
 public:
  // Routes of other families are left out. The last of equal prefixes counts.
  Reference(Family family, absl::Span<const Route> routes);

  // kNoRoute if none matches. O(lengths in use).
  // REQUIRES: address.family() is this family.
  NextHopId Lookup(const Address& address) const;
  std::vector<NextHopId> Lookup(absl::Span<const Address> addresses) const;

 private:
  Family family_;
  // By length, the first bits of each prefix. Left-aligned.
  std::array<absl::flat_hash_map<absl::uint128, NextHopId>, 129> routes_;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_REFERENCE_H_
