#include "server/snapshot.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace planb::server {
namespace {

std::vector<int> LengthsInUse(absl::Span<const Route> routes) {
  std::bitset<129> used;
  for (const Route& route : routes) {
    used.set(static_cast<size_t>(route.prefix.length()));
  }
  std::vector<int> lengths;
  for (int length = 128; length >= 0; --length) {
    if (used.test(static_cast<size_t>(length))) lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

std::unique_ptr<const Snapshot> Snapshot::Compile(
    uint64_t generation, std::vector<Route> routes,
    std::shared_ptr<const NextHopMap> next_hops,
    std::shared_ptr<const GroupTable> groups) {
  auto snapshot = std::unique_ptr<Snapshot>(new Snapshot);
  snapshot->generation_ = generation;
  const auto first_v6 = std::partition_point(
      routes.begin(), routes.end(),
      [](const Route& r) { return r.prefix.family() == Family::kIpv4; });
  snapshot->routes_v4_ = static_cast<size_t>(first_v6 - routes.begin());
  snapshot->routes_ =
      std::make_shared<const std::vector<Route>>(std::move(routes));
  snapshot->next_hops_ = std::move(next_hops);
  snapshot->groups_ = std::move(groups);
  snapshot->lengths_ = {LengthsInUse(snapshot->routes(Family::kIpv4)),
                        LengthsInUse(snapshot->routes(Family::kIpv6))};
  snapshot->fib_v4_ =
      Fib::Build(Family::kIpv4, snapshot->routes(Family::kIpv4));
  snapshot->fib_v6_ =
      Fib::Build(Family::kIpv6, snapshot->routes(Family::kIpv6));
  return snapshot;
}

absl::Span<const Route> Snapshot::routes(Family family) const {
  const absl::Span<const Route> all = *routes_;
  return family == Family::kIpv4 ? all.first(routes_v4_)
                                 : all.subspan(routes_v4_);
}

size_t Snapshot::intervals(Family family) const {
  std::call_once(counted_, [this] {
    intervals_ = {fib_v4_->Stats().intervals, fib_v6_->Stats().intervals};
  });
  return intervals_[family == Family::kIpv6 ? 1 : 0];
}

const NextHop* Snapshot::FindNextHop(NextHopId id) const {
  const auto it = next_hops_->find(id);
  return it == next_hops_->end() ? nullptr : &it->second;
}

std::optional<Route> Snapshot::Match(const Address& address) const {
  const absl::Span<const Route> all = routes(address.family());
  for (int length : lengths_[address.family() == Family::kIpv6 ? 1 : 0]) {
    const Prefix wanted = Prefix::Truncate(address, length);
    const auto it = std::lower_bound(
        all.begin(), all.end(), wanted,
        [](const Route& r, const Prefix& prefix) { return r.prefix < prefix; });
    if (it != all.end() && it->prefix == wanted) return *it;
  }
  return std::nullopt;
}

}  // namespace planb::server
