// Addresses packed once and looked up often, by every kernel.

#ifndef PLANB_LPM_TESTING_PACKED_PROBES_H_
#define PLANB_LPM_TESTING_PACKED_PROBES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"
#include "lpm/testing/forms.h"
#include "lpm/testing/right_answers.h"

namespace planb {

// Thread-safe: const after construction.
class PackedProbes {
 public:
  // The addresses are repeated, in turn, until there are `at_least`: batches
  // shorter than a kernel's width never see its widest part.
  PackedProbes(Form form, std::vector<Address> addresses, size_t at_least = 0);
  PackedProbes(Family family, std::vector<Address> addresses,
               size_t at_least = 0)
      : PackedProbes(WholeForm(family), std::move(addresses), at_least) {}

  const std::vector<Address>& addresses() const { return addresses_; }

  // "" if every kernel finds `expected` (one for each of addresses()), looking
  // up `batch` at a time, else which kernel finds what for which addresses.
  std::string Differences(const Fib& fib, absl::Span<const NextHopId> expected,
                          size_t batch = ~size_t{0}) const;

 private:
  const Form form_;
  std::vector<Address> addresses_;
  size_t count_;
  // Exactly the octets that lookups may read.
  std::vector<char> packed_;
};

// Checks what `fib`, said to be one of `routes`, answers to the upper halves of
// `addresses`, if it is IPv6. "" or what differs.
std::string UpperDifferences(const Fib& fib, absl::Span<const Route> routes,
                             absl::Span<const Address> addresses);

// Checks `fib`, said to be one of `routes`, at every boundary of every route,
// on both sides, and at the ends of the address space, against the reference:
// whole addresses and upper halves.
// "" or what differs. O(routes * lengths in use).
std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_PACKED_PROBES_H_
