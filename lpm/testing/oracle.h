// The simplest correct longest-prefix match: look at every route, keep the
// longest that matches. Every other answer in this project is tested against
// it (or against something that was).

#ifndef PLANB_LPM_TESTING_ORACLE_H_
#define PLANB_LPM_TESTING_ORACLE_H_

#include <optional>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// Holds routes of both families. Each prefix appears once.
// Thread-safe: const after construction.
class Oracle {
 public:
  explicit Oracle(std::vector<Route> routes);

  // The route with the longest prefix that contains `address`, or none.
  // O(routes).
  std::optional<Route> Lookup(const Address& address) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_ORACLE_H_
