// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/update_trace.h"

#include <algorithm>
#include <utility>

namespace planb {

absl::Status UpdateTrace::OnUpdate(const UpdateEvent& event) {
  if (event.local) return absl::OkStatus();
  const uint32_t peer = IndexOf(event.peer);
  // The prefixes of the event and their next hops before it.
  std::vector<Route> before;
  before.reserve(event.update.withdraws.size() + event.update.announces.size());
  for (const NlriPrefix& nlri : event.update.withdraws) {
    before.push_back({nlri.prefix, Chosen(nlri.prefix)});
    Withdraw(nlri.prefix, {peer, nlri.path_id});
  }
  for (const auto& [nlri, gateway] : event.update.announces) {
    const absl::StatusOr<NextHopId> id = IdOf(gateway, event.peer);
    if (!id.ok()) return id.status();
    before.push_back({nlri.prefix, Chosen(nlri.prefix)});
    Announce(nlri.prefix, {peer, nlri.path_id, *id});
  }
  // Of a prefix named twice, the next hop before the first time.
  std::stable_sort(
      before.begin(), before.end(),
      [](const Route& a, const Route& b) { return a.prefix < b.prefix; });
  before.erase(std::unique(before.begin(), before.end(),
                           [](const Route& a, const Route& b) {
                             return a.prefix == b.prefix;
                           }),
               before.end());
  std::vector<TraceChange> changes;
  for (const Route& old : before) {
    const NextHopId chosen = Chosen(old.prefix);
    if (chosen == old.next_hop) continue;
    changes.push_back({event.at, {old.prefix, chosen}});
  }
  return changes.empty() ? absl::OkStatus() : sink_.OnChanges(changes);
}

NextHopId UpdateTrace::Chosen(const Prefix& prefix) const {
  const auto found = paths_.find(prefix);
  return found == paths_.end() ? kNoRoute : found->second.front().next_hop;
}

void UpdateTrace::Announce(const Prefix& prefix, const Path& path) {
  Paths& paths = paths_[prefix];
  const auto at = std::lower_bound(
      paths.begin(), paths.end(), path,
      [](const Path& a, const Path& b) { return a.Before(b); });
  if (at != paths.end() && !path.Before(*at)) {
    at->next_hop = path.next_hop;
  } else {
    paths.insert(at, path);
  }
}

void UpdateTrace::Withdraw(const Prefix& prefix, const Path& path) {
  const auto found = paths_.find(prefix);
  if (found == paths_.end()) return;
  Paths& paths = found->second;
  const auto at = std::find_if(paths.begin(), paths.end(), [&](const Path& p) {
    return !p.Before(path) && !path.Before(p);
  });
  if (at == paths.end()) return;
  paths.erase(at);
  if (paths.empty()) paths_.erase(found);
}

uint32_t UpdateTrace::IndexOf(const Peer& peer) {
  return peers_
      .try_emplace({peer.address, peer.as_number},
                   static_cast<uint32_t>(peers_.size()))
      .first->second;
}

absl::StatusOr<NextHopId> UpdateTrace::IdOf(const Address& gateway,
                                            const Peer& peer) {
  const absl::StatusOr<GatewayIds::Id> id = ids_.IdOf(gateway);
  if (!id.ok()) return id.status();
  if (id->is_new) {
    NextHop next_hop;
    next_hop.id = id->id;
    next_hop.gateway = gateway;
    next_hop.label = peer.Label();
    absl::Status status = sink_.OnNextHop(next_hop);
    if (!status.ok()) return status;
  }
  return id->id;
}

}  // namespace planb
