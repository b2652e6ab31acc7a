#include "lpm/io/route_sink.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace planb {
namespace {

// Sorts by `key`, keeping of equal keys the one given last.
template <typename T, typename Key>
std::vector<T> LastOfEach(std::vector<T> given, Key key) {
  std::stable_sort(given.begin(), given.end(),
                   [&](const T& a, const T& b) { return key(a) < key(b); });
  size_t kept = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    if (kept > 0 && key(given[kept - 1]) == key(given[i])) --kept;
    if (kept != i) given[kept] = std::move(given[i]);
    ++kept;
  }
  given.resize(kept);
  return given;
}

}  // namespace

absl::Status RouteCollector::OnNextHop(const NextHop& next_hop) {
  next_hops_.push_back(next_hop);
  return absl::OkStatus();
}

absl::Status RouteCollector::OnRoute(const Route& route) {
  routes_.push_back(route);
  return absl::OkStatus();
}

absl::Status RouteCollector::OnGroup(const NextHopGroup& group) {
  groups_.push_back(group);
  return absl::OkStatus();
}

std::vector<Route> RouteCollector::TakeRoutes() {
  return LastOfEach(std::exchange(routes_, {}),
                    [](const Route& route) { return route.prefix; });
}

std::vector<NextHop> RouteCollector::TakeNextHops() {
  return LastOfEach(std::exchange(next_hops_, {}),
                    [](const NextHop& next_hop) { return next_hop.id; });
}

std::vector<NextHopGroup> RouteCollector::TakeGroups() {
  return LastOfEach(std::exchange(groups_, {}),
                    [](const NextHopGroup& group) { return group.id; });
}

}  // namespace planb
