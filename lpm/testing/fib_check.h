// Asks a FIB through every kernel of this machine and compares answers.

#ifndef PLANB_LPM_TESTING_FIB_CHECK_H_
#define PLANB_LPM_TESTING_FIB_CHECK_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"
#include "lpm/testing/forms.h"

namespace planb {

// What `fib` answers by `kernel`. The arrays it reads and writes are heap
// blocks of exactly the size promised, for AddressSanitizer to watch.
std::vector<NextHopId> LookupAll(Form form, const Fib& fib,
                                 absl::Span<const Address> addresses,
                                 const Kernel& kernel);

// Expects those answers from every kernel; tells the first few that differ.
void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected);

// Builds `routes` (any order, one family) and expects the oracle's answers
// from every kernel and from the single lookup: for the boundaries of every
// route, the ends of the address space, and `probes`. Upper halves too.
void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes = {});

}  // namespace planb

#endif  // PLANB_LPM_TESTING_FIB_CHECK_H_
