#include "lpm/testing/oracle.h"

#include <utility>

namespace planb {

Oracle::Oracle(std::vector<Route> routes) : routes_(std::move(routes)) {}

std::optional<Route> Oracle::Lookup(const Address& address) const {
  std::optional<Route> best;
  for (const Route& route : routes_) {
    if (route.prefix.Contains(address) &&
        (!best || route.prefix.length() > best->prefix.length())) {
      best = route;
    }
  }
  return best;
}

}  // namespace planb
