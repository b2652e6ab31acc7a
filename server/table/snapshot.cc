// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {

size_t Snapshot::intervals(Family family) const {
  std::call_once(counted_, [this] {
    intervals_ = {fibs_.v4->Stats().intervals, fibs_.v6->Stats().intervals};
  });
  return intervals_[family == Family::kIpv6 ? 1 : 0];
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
  absl::StatusOr<bool> full;
  try {  // the standard library reports exhausted memory by an exception only
    if (fault_ != nullptr) {
      const absl::Status fault = fault_(generation);
      if (!fault.ok()) return fault;
    }
    MakeGroups(rib.next_hops().groups());
    std::vector<absl::Span<const Route>> changed;
    changed.reserve(deltas.size());
    for (const auto& delta : deltas) changed.push_back(delta->routes);
    full = compiler_.Update(rib.routes(), changed);
  } catch (const std::bad_alloc&) {
    full = QuotaError(kNoBuildMemory, "memory",
                      "not enough memory to compile the FIB");
  }
  if (!full.ok()) return full.status();
  ++(*full ? full_ : incremental_);
  return std::make_unique<const Snapshot>(generation, rib, groups_,
                                          compiler_.fibs());
}

absl::Status WriteTableFile(const std::string& table, const Pinned& pinned,
                            TableFileWriter::Output output) {
  TableFileWriter writer(std::move(output));
  absl::Status status =
      writer.Begin({.table = table,
                    .generation = pinned.generation,
                    .digest = pinned.digest,
                    .attributes = pinned.next_hops.has_attributes()});
  for (const NextHop& next_hop : pinned.next_hops.next_hops()) {
    if (status.ok()) status = writer.Add(next_hop);
  }
  for (const NextHopGroup& group : pinned.next_hops.groups()) {
    if (status.ok()) status = writer.Add(group);
  }
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& route : pinned.routes.of(family)) {
      if (!status.ok()) return status;
      status = writer.Add(route);
    }
  }
  if (status.ok()) status = writer.Finish();
  return status;
}

}  // namespace planb::server
