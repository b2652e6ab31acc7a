#include "server/snapshot_builder.h"

#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/error.h"

namespace planb::server {
namespace {

std::vector<Prefix> Changed(
    Family family, absl::Span<const std::shared_ptr<const Delta>> deltas) {
  std::vector<Prefix> changed;
  for (const auto& delta : deltas) {
    for (const Route& route : delta->routes) {
      if (route.prefix.family() == family) changed.push_back(route.prefix);
    }
  }
  return changed;
}

}  // namespace

bool SnapshotBuilder::Compile(Half& half, Rib& rib,
                              absl::Span<const Prefix> changed) {
  const bool first = half.compiler == nullptr;
  if (!first && changed.empty()) return false;
  auto routes = std::make_shared<const RouteSet>(rib.ShareRoutes(half.family));
  if (first) {
    auto compiler = std::make_unique<FibCompiler>(half.family);
    half.fib = compiler->Compile(*routes);
    half.compiler = std::move(compiler);
  } else {
    half.fib = half.compiler->Update(*routes, changed);
  }
  half.routes = std::move(routes);
  return first;
}

void SnapshotBuilder::MakeGroups(
    const std::shared_ptr<const NextHopGroupMap>& map) {
  if (map == made_of_) return;
  std::vector<NextHopGroup> groups;
  for (const auto& [id, group] : *map) groups.push_back(group);
  groups_ = GroupTable::Make(groups, groups_.get());
  made_of_ = map;
}

absl::StatusOr<std::unique_ptr<const Snapshot>> SnapshotBuilder::Build(
    uint64_t generation, Rib& rib,
    absl::Span<const std::shared_ptr<const Delta>> deltas) {
  const auto full_compilations = [this](const Half& half) {
    return half.compiler->counters().full + half.compiler->counters().compacted;
  };
  bool full = false;
  absl::Status fault;
  try {  // the standard library's only way to say that there is no memory
    if (fault_ != nullptr) fault = fault_(generation);
    if (fault.ok()) MakeGroups(rib.next_hops().groups());
    for (Half* const half : {&v4_, &v6_}) {
      if (!fault.ok()) break;
      const uint64_t before =
          half->compiler == nullptr ? 0 : full_compilations(*half);
      full |= Compile(*half, rib, Changed(half->family, deltas));
      full |= full_compilations(*half) != before;
    }
  } catch (const std::bad_alloc&) {
    fault = QuotaError("BUILD_MEMORY", "memory",
                       "there is no memory for the search structure");
  }
  if (!fault.ok()) {
    // Whatever was half done is not gone on with.
    v4_.compiler = nullptr;
    v6_.compiler = nullptr;
    return fault;
  }
  ++(full ? full_ : incremental_);
  return std::make_unique<const Snapshot>(generation, rib.digest(), v4_.routes,
                                          v6_.routes, rib.next_hops(), groups_,
                                          v4_.fib, v6_.fib);
}

}  // namespace planb::server
