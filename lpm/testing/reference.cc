#include "lpm/testing/reference.h"

#include "absl/base/internal/raw_logging.h"

namespace planb {

Reference::Reference(Family family, absl::Span<const Route> routes)
    : family_(family) {
  for (const Route& route : routes) {
    if (route.prefix.family() != family) continue;
    routes_[static_cast<size_t>(route.prefix.length())]
           [route.prefix.address().bits()] = route.next_hop;
  }
}

NextHopId Reference::Lookup(const Address& address) const {
  ABSL_RAW_CHECK(address.family() == family_, "an address of another family");
  absl::uint128 mask = absl::Uint128Max();
  for (size_t length = 128;; --length, mask <<= 1) {
    const auto& routes = routes_[length];
    if (!routes.empty()) {
      const auto it = routes.find(address.bits() & mask);
      if (it != routes.end()) return it->second;
    }
    if (length == 0) return kNoRoute;
  }
}

std::vector<NextHopId> Reference::Lookup(
    absl::Span<const Address> addresses) const {
  std::vector<NextHopId> next_hops;
  next_hops.reserve(addresses.size());
  for (const Address& address : addresses) {
    next_hops.push_back(Lookup(address));
  }
  return next_hops;
}

}  // namespace planb
