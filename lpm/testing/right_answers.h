// What is right, of whole addresses and of upper halves, for tests to compare
// with.

#ifndef PLANB_LPM_TESTING_RIGHT_ANSWERS_H_
#define PLANB_LPM_TESTING_RIGHT_ANSWERS_H_

#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
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

// For each address what all addresses that share its first 64 bits are
// answered, or kUndecided if they are not all answered alike. Answers change
// only where a route begins or has ended: it asks at every such place in the
// /64, and at both ends. REQUIRES: IPv6 addresses, distinct prefixes, any
// order.
std::vector<NextHopId> RightUpperAnswers(absl::Span<const Route> routes,
                                         absl::Span<const Address> addresses);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_RIGHT_ANSWERS_H_
