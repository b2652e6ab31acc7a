// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/table_objects.h"

#include <algorithm>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/call.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/session.h"

namespace planb::client {
namespace {

// A byte that no text has separates the parts.
std::string MeaningOf(const NextHop& hop) {
  const std::string gateway =
      hop.gateway.has_value() ? hop.gateway->ToString() : "";
  return absl::StrCat("next hop\xff", gateway, "\xff", hop.interface, "\xff",
                      NamesNeighbor(hop) ? "" : hop.label,
                      hop.attributes.empty() ? "" : "\xff",
                      hop.attributes.encoded());
}

std::string MeaningOf(NextHopGroup group) {
  std::sort(
      group.members.begin(), group.members.end(),
      [](const auto& a, const auto& b) { return a.next_hop < b.next_hop; });
  std::string meaning = "group\xff";
  for (const NextHopGroup::Member& member : group.members) {
    absl::StrAppend(&meaning, member.next_hop, "*", member.weight, " ");
  }
  return absl::StrCat(meaning, "\xff", group.label);
}

NextHopId HashedId(const std::string& meaning) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : meaning) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  }
  return kFirstMadeId + hash % (kEndOfMadeIds - kFirstMadeId);
}

}  // namespace

KnownObjects::KnownObjects(const NextHopList& list,
                           const std::set<NextHopId>& used)
    : taken_(used) {
  missing_.generation = list.generation;
  for (const NextHop& next_hop : list.next_hops) {
    Add(next_hop.id, MeaningOf(next_hop));
  }
  for (const NextHopGroup& group : list.groups) {
    Add(group.id, MeaningOf(group));
    for (const auto& member : group.members) taken_.insert(member.next_hop);
  }
}

void KnownObjects::Add(NextHopId id, const std::string& meaning) {
  taken_.insert(id);
  meanings_[id] = meaning;
  const auto [at, is_new] = ids_.try_emplace(meaning, id);
  at->second = std::min(at->second, id);
}

NextHopId KnownObjects::Find(NextHopId id, const std::string& meaning) const {
  const auto own = meanings_.find(id);
  if (own != meanings_.end() && own->second == meaning) return id;
  const auto found = ids_.find(meaning);
  return found == ids_.end() ? kNoRoute : found->second;
}

NextHopId KnownObjects::Find(const NextHop& wanted) const {
  return Find(wanted.id, MeaningOf(wanted));
}

NextHopId KnownObjects::Find(const NextHopGroup& wanted) const {
  return Find(wanted.id, MeaningOf(wanted));
}

template <typename Object>
NextHopId KnownObjects::FindOrAddTo(std::vector<Object>& missing, Object wanted,
                                    bool keep_id) {
  const std::string meaning = MeaningOf(wanted);
  const NextHopId found = Find(wanted.id, meaning);
  if (found != kNoRoute) return found;
  if (!keep_id || wanted.id == kNoRoute || taken_.contains(wanted.id)) {
    wanted.id = HashedId(meaning);
    while (taken_.contains(wanted.id)) {
      if (++wanted.id == kEndOfMadeIds) wanted.id = kFirstMadeId;
    }
  }
  Add(wanted.id, meaning);
  missing.push_back(wanted);
  return wanted.id;
}

NextHopId KnownObjects::FindOrAdd(NextHop wanted, bool keep_id) {
  return FindOrAddTo(missing_.next_hops, std::move(wanted), keep_id);
}

NextHopId KnownObjects::FindOrAdd(NextHopGroup wanted, bool keep_id) {
  return FindOrAddTo(missing_.groups, std::move(wanted), keep_id);
}

NextHopId KnownObjects::Canonical(NextHopId id) const {
  const auto meaning = meanings_.find(id);
  return meaning == meanings_.end() ? id : ids_.at(meaning->second);
}

absl::StatusOr<std::set<NextHopId>> NamedIds(
    const TableClient& client, const std::vector<NextHopGroup>& groups,
    uint64_t& generation) {
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  std::set<NextHopId> named;
  for (const NextHopGroup& group : groups) {
    for (const auto& member : group.members) named.insert(member.next_hop);
  }
  const auto listed = client.ListRoutes(
      request,
      [&](const Route& route) {
        named.insert(route.next_hop);
        return absl::OkStatus();
      },
      CallDeadline());
  if (!listed.ok()) return listed.status();
  generation = *listed;
  return named;
}

absl::Status RetryConflicts(absl::FunctionRef<absl::Status()> send) {
  // The list is of the visible generation, the condition of the accepted one:
  // a conflict may last as long as the making of a FIB.
  constexpr absl::Duration kLongest = absl::Milliseconds(100);
  const Deadline deadline = CallDeadline();
  for (absl::Duration delay = absl::Milliseconds(1);;
       delay = std::min(2 * delay, kLongest)) {
    absl::Status status = send();
    if (ErrorReason(status) != "GENERATION_MISMATCH" ||
        MonotonicNow() + delay > deadline.time()) {
      return status;
    }
    absl::SleepFor(delay);
  }
}

void FileObjects::Add(const NextHop& next_hop) {
  ++added_next_hops_;
  ids_.erase(next_hop.id);
  settled_next_hops_.erase(next_hop.id);
  next_hops_[next_hop.id] = next_hop;
}

void FileObjects::Add(const NextHopGroup& group) {
  ++added_groups_;
  ids_.erase(group.id);
  settled_groups_.erase(group.id);
  groups_[group.id] = group;
}

void FileObjects::Add(const NextHopList& objects) {
  for (const NextHop& next_hop : objects.next_hops) Add(next_hop);
  for (const NextHopGroup& group : objects.groups) Add(group);
}

void FileObjects::Plan(KnownObjects& known, bool keep_ids) {
  for (const auto& [id, next_hop] : next_hops_) {
    ids_[id] = known.FindOrAdd(next_hop, keep_ids);
  }
  for (const auto& [id, group] : groups_) {
    NextHopGroup wanted = group;
    for (NextHopGroup::Member& member : wanted.members) {
      member.next_hop = ToTable(member.next_hop);
    }
    ids_[id] = known.FindOrAdd(wanted, keep_ids);
  }
}

absl::Status FileObjects::Make() {
  if (pending() == 0) return absl::OkStatus();
  uint64_t generation = 0;
  absl::Status status = RetryConflicts([&]() -> absl::Status {
    v1::UpdateRoutesRequest request;
    absl::Status added = AddMissing(request);
    if (!added.ok()) return added;
    generation = known_->missing().generation;
    if (known_->complete()) return absl::OkStatus();
    request.set_table(absl::GetFlag(FLAGS_table));
    request.set_writer_epoch(absl::GetFlag(FLAGS_writer_epoch));
    const bool persisted = absl::GetFlag(FLAGS_ack).value == v1::ACK_PERSISTED;
    request.set_ack(persisted ? v1::ACK_PERSISTED : v1::ACK_VISIBLE);
    const auto response = client_->UpdateRoutes(request, CallDeadline());
    if (response.ok()) {
      generation = response->generation();
    } else {
      Relist();
    }
    return response.status();
  });
  if (status.ok()) Settle(generation, /*changed=*/true);
  return status;
}

absl::Status FileObjects::AddMissing(v1::UpdateRoutesRequest& request) {
  if (known_.has_value()) {
    Plan(*known_, /*keep_ids=*/false);
  } else {
    const auto list =
        client_->ListNextHops(absl::GetFlag(FLAGS_table), CallDeadline());
    if (!list.ok()) return list.status();
    Plan(known_.emplace(*list), /*keep_ids=*/false);
    // The file's ids are kept where they are free. An id that routes name
    // without an object is not. To know that takes a list of all routes: once.
    if (first_ && !known_->complete()) {
      uint64_t generation = 0;
      const auto named = NamedIds(*client_, list->groups, generation);
      if (!named.ok()) return named.status();
      if (generation == list->generation) {
        Plan(known_.emplace(*list, *named), /*keep_ids=*/true);
      }
    }
  }
  if (known_->complete()) return absl::OkStatus();
  request.set_expected_generation(known_->missing().generation);
  for (const NextHop& next_hop : known_->missing().next_hops) {
    *request.add_next_hops() = ToProto(next_hop);
  }
  for (const NextHopGroup& group : known_->missing().groups) {
    *request.add_groups() = ToProto(group);
  }
  return absl::OkStatus();
}

absl::Status FileObjects::Prepare(v1::UpdateRoutesRequest& request) {
  if (pending() > 0) {
    // A repeated request has the same contents and conditions: it cannot have
    // the objects that the table lacked the first time.
    absl::Status status =
        request.request_id().empty() ? AddMissing(request) : Make();
    if (!status.ok()) return status;
  }
  bool described = true;
  for (v1::RouteUpdate& update : *request.mutable_updates()) {
    const auto id = ids_.find(update.next_hop_id());
    described = described && id != ids_.end();
    if (id != ids_.end()) update.set_next_hop_id(id->second);
  }
  request.set_require_next_hops(described);
  return absl::OkStatus();
}

void FileObjects::Settle(uint64_t generation, bool changed) {
  if (known_.has_value()) {
    // Another client made the generation, or one before it, otherwise.
    const uint64_t before = known_->missing().generation;
    if (generation == before || (changed && generation == before + 1)) {
      known_->SetMade(generation);
    } else {
      Relist();
    }
  }
  first_ = first_ && pending() == 0;
  settled_next_hops_.merge(next_hops_);
  settled_groups_.merge(groups_);
  next_hops_.clear();
  groups_.clear();
}

void FileObjects::Unsettle() {
  Relist();
  next_hops_.merge(settled_next_hops_);
  groups_.merge(settled_groups_);
  settled_next_hops_.clear();
  settled_groups_.clear();
}

NextHopId FileObjects::ToTable(NextHopId id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? id : found->second;
}

absl::StatusOr<KnownObjects> UseTableIds(const TableClient& client,
                                         const NextHopList& objects,
                                         std::vector<Route>& routes) {
  if (objects.next_hops.empty() && objects.groups.empty()) {
    return KnownObjects({});
  }
  const auto list =
      client.ListNextHops(absl::GetFlag(FLAGS_table), CallDeadline());
  if (!list.ok()) return list.status();
  uint64_t generation = 0;
  const auto named = NamedIds(client, list->groups, generation);
  if (!named.ok()) return named.status();
  KnownObjects known(*list, *named);
  FileObjects file(nullptr);
  file.Add(objects);
  file.Plan(known, /*keep_ids=*/true);
  for (Route& route : routes) route.next_hop = file.ToTable(route.next_hop);
  return known;
}

}  // namespace planb::client
