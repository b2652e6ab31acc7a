// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// Applying one change costs about as much as compiling this many routes. With
// more changes, compiling all routes is cheaper.
constexpr size_t kRoutesPerChange = 120;

template <typename Use>
void ForEachChanged(Family family,
                    absl::Span<const std::shared_ptr<const Delta>> deltas,
                    Use use) {
  for (const auto& delta : deltas) {
    for (const Route& route : delta->routes) {
      if (route.prefix.family() == family) use(route.prefix);
    }
  }
}

}  // namespace

size_t Snapshot::intervals(Family family) const {
  std::call_once(counted_, [this] {
    intervals_ = {fib_v4_->Stats().intervals, fib_v6_->Stats().intervals};
  });
  return intervals_[family == Family::kIpv6 ? 1 : 0];
}

absl::StatusOr<bool> SnapshotBuilder::Compile(Half& half, const Rib& rib,
                                              Deltas deltas) const {
  size_t changes = 0;
  ForEachChanged(half.family, deltas, [&](const Prefix&) { ++changes; });
  if (half.compiler != nullptr && changes == 0) return false;
  auto routes = std::make_shared<const RouteSet>(rib.ShareRoutes(half.family));
  const bool everything = half.compiler == nullptr ||
                          changes > 64 + routes->size() / kRoutesPerChange;
  if (everything) {
    // Assigned to half.compiler only after success: Compile may fail or throw.
    auto compiler = half.compiler == nullptr
                        ? std::make_unique<FibCompiler>(half.family, options_)
                        : std::move(half.compiler);
    auto fib = compiler->Compile(*routes);
    if (!fib.ok()) return fib.status();
    half.fib = *std::move(fib);
    half.compiler = std::move(compiler);
  } else {
    std::vector<Prefix> changed;
    changed.reserve(changes);
    ForEachChanged(half.family, deltas,
                   [&](const Prefix& prefix) { changed.push_back(prefix); });
    auto fib = half.compiler->Update(*routes, changed);
    if (!fib.ok()) return fib.status();
    half.fib = *std::move(fib);
  }
  half.routes = std::move(routes);
  return everything;
}

void SnapshotBuilder::MakeGroups(const NextHopGroupMap& map) {
  if (map.SharesAllWith(made_of_)) return;
  groups_ = GroupTable::Make(std::vector<NextHopGroup>(map.begin(), map.end()),
                             groups_.get());
  made_of_ = map.Share();
}

absl::StatusOr<std::unique_ptr<const Snapshot>> SnapshotBuilder::Build(
    uint64_t generation, const Rib& rib,
    absl::Span<const std::shared_ptr<const Delta>> deltas) {
  const auto full_compilations = [this](const Half& half) {
    return half.compiler->counters().full + half.compiler->counters().compacted;
  };
  bool full = false;
  absl::Status fault;
  try {  // the standard library reports exhausted memory by an exception only
    if (fault_ != nullptr) fault = fault_(generation);
    if (fault.ok()) MakeGroups(rib.next_hops().groups());
    for (Half* const half : {&v4_, &v6_}) {
      if (!fault.ok()) break;
      const uint64_t before =
          half->compiler == nullptr ? 0 : full_compilations(*half);
      const absl::StatusOr<bool> everything = Compile(*half, rib, deltas);
      fault = everything.status();
      if (!fault.ok()) break;
      full |= *everything;
      full |= full_compilations(*half) != before;
    }
  } catch (const std::bad_alloc&) {
    fault = QuotaError(kNoBuildMemory, "memory",
                       "not enough memory to compile the FIB");
  }
  if (!fault.ok()) {
    // Discards partially updated compilers; the next build starts from scratch.
    v4_.compiler = nullptr;
    v6_.compiler = nullptr;
    return fault;
  }
  ++(full ? full_ : incremental_);
  return std::make_unique<const Snapshot>(generation, rib.digest(), v4_.routes,
                                          v6_.routes, rib.next_hops(), groups_,
                                          v4_.fib, v6_.fib);
}

absl::Status WriteTableFile(const std::string& table, const Pinned& pinned,
                            TableFileWriter::Output output) {
  TableFileWriter writer(std::move(output));
  absl::Status status = writer.Begin({.table = table,
                                      .generation = pinned.generation,
                                      .digest = pinned.digest});
  for (const NextHop& next_hop : pinned.next_hops.next_hops()) {
    if (status.ok()) status = writer.Add(next_hop);
  }
  for (const NextHopGroup& group : pinned.next_hops.groups()) {
    if (status.ok()) status = writer.Add(group);
  }
  for (const auto& routes : pinned.routes) {
    for (const Route& route : *routes) {
      if (!status.ok()) return status;
      status = writer.Add(route);
    }
  }
  if (status.ok()) status = writer.Finish();
  return status;
}

}  // namespace planb::server
