// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

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
  // Assigned to half.compiler only after success: it may fail or throw.
  std::unique_ptr<FibCompiler> compiler = std::move(half.compiler);
  absl::StatusOr<std::unique_ptr<const Fib>> fib;
  bool everything = compiler == nullptr;
  if (everything) {
    compiler = std::make_unique<FibCompiler>(half.family, options_);
    fib = compiler->Compile(*routes);
  } else {
    std::vector<Prefix> changed;
    changed.reserve(changes);
    ForEachChanged(half.family, deltas,
                   [&](const Prefix& prefix) { changed.push_back(prefix); });
    const uint64_t before = compiler->counters().incremental;
    fib = compiler->Update(*routes, changed);
    everything = compiler->counters().incremental == before;
  }
  if (!fib.ok()) return fib.status();
  half.fib = *std::move(fib);
  half.compiler = std::move(compiler);
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
  bool full = false;
  absl::Status fault;
  try {  // the standard library reports exhausted memory by an exception only
    if (fault_ != nullptr) fault = fault_(generation);
    if (fault.ok()) MakeGroups(rib.next_hops().groups());
    for (Half* const half : {&v4_, &v6_}) {
      if (!fault.ok()) break;
      const absl::StatusOr<bool> everything = Compile(*half, rib, deltas);
      fault = everything.status();
      if (!fault.ok()) break;
      full |= *everything;
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
