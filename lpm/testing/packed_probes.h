// Addresses packed once and looked up often, by every kernel.

#ifndef PLANB_LPM_TESTING_PACKED_PROBES_H_
#define PLANB_LPM_TESTING_PACKED_PROBES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"

namespace planb {

// What `routes` answer, in the order of `addresses`: straight from the
// definition, of the routes that contain the address the longest...
std::vector<NextHopId> AnswersByOracle(absl::Span<const Route> routes,
                                       absl::Span<const Address> addresses);
// ... or, where that would take too long, by the reference.
std::vector<NextHopId> RightAnswers(Family family,
                                    absl::Span<const Route> routes,
                                    absl::Span<const Address> addresses);

// Thread-safe: const after construction.
class PackedProbes {
 public:
  // The addresses are repeated, in turn, until there are `at_least`: batches
  // shorter than a kernel's width never see its widest part.
  PackedProbes(Family family, std::vector<Address> addresses,
               size_t at_least = 0);

  const std::vector<Address>& addresses() const { return addresses_; }

  // "" if every kernel finds `expected` (one for each of addresses()), else
  // which kernel finds what for which addresses.
  std::string Differences(const Fib& fib,
                          absl::Span<const NextHopId> expected) const;

 private:
  std::vector<Address> addresses_;
  size_t count_;
  // Exactly the octets that lookups may read.
  std::vector<char> packed_;
};

// Checks `fib`, said to be one of `routes`, at every boundary of every route,
// on both sides, and at the ends of the address space, against the reference.
// "" or what differs. O(routes * lengths in use).
std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_PACKED_PROBES_H_
