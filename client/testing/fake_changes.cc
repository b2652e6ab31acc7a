// SPDX-License-Identifier: Apache-2.0

// One look at a map for each change.

#include "client/testing/fake_changes.h"

#include "absl/strings/str_cat.h"
#include "client/convert.h"

namespace planb::client::testing {
namespace {

using v1::RouteUpdate;

absl::StatusOr<Prefix> ReadPrefix(const v1::Prefix& prefix) {
  if (!prefix.text().empty()) return Prefix::Parse(prefix.text());
  return FromProto(prefix);
}

}  // namespace

grpc::Status ApplyUpdates(const v1::UpdateRoutesRequest& request,
                          std::map<Prefix, NextHopId>& routes,
                          RouteCounts& counts) {
  std::set<Prefix> seen;
  for (int i = 0; i < request.updates_size(); ++i) {
    const RouteUpdate& update = request.updates(i);
    const std::string field = absl::StrCat("updates[", i, "].prefix");
    const auto prefix = ReadPrefix(update.prefix());
    if (!prefix.ok()) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "BAD_PREFIX",
                       std::string(prefix.status().message()), field);
    }
    if (!seen.insert(*prefix).second) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "DUPLICATE_PREFIX",
                       "the prefix comes twice", field);
    }
    const bool withdraws = update.op() == RouteUpdate::OP_DELETE ||
                           update.op() == RouteUpdate::OP_DELETE_STRICT;
    if (withdraws != (update.next_hop_id() == 0) ||
        update.op() == RouteUpdate::OP_UNSPECIFIED) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "BAD_UPDATE",
                       "op and next hop do not agree", field);
    }
    const auto found = routes.find(*prefix);
    const bool exists = found != routes.end();
    if (exists && update.op() == RouteUpdate::OP_INSERT) {
      return MakeError(grpc::StatusCode::ALREADY_EXISTS, "ROUTE_EXISTS",
                       absl::StrCat(prefix->ToString(), " exists"), field);
    }
    if (!exists && (update.op() == RouteUpdate::OP_REPLACE ||
                    update.op() == RouteUpdate::OP_DELETE_STRICT)) {
      return MakeError(grpc::StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND",
                       absl::StrCat(prefix->ToString(), " has no route"),
                       field);
    }
    if (withdraws) {
      ++(exists ? counts.removed : counts.unchanged);
      routes.erase(*prefix);
      continue;
    }
    if (!exists) {
      ++counts.added;
    } else {
      ++(found->second == update.next_hop_id() ? counts.unchanged
                                               : counts.changed);
    }
    routes[*prefix] = update.next_hop_id();
  }
  return grpc::Status::OK;
}

v1::WatchRoutesResponse ChangesBetween(const FakeTable::State& before,
                                       const FakeTable::State& after) {
  v1::WatchRoutesResponse changes;
  for (const auto& [prefix, next_hop] : after.routes) {
    const auto old = before.routes.find(prefix);
    if (old != before.routes.end() && old->second == next_hop) continue;
    RouteUpdate* update = changes.add_updates();
    update->set_op(RouteUpdate::OP_UPSERT);
    *update->mutable_prefix() = ToProto(prefix);
    update->set_next_hop_id(next_hop);
  }
  for (const auto& [prefix, next_hop] : before.routes) {
    if (after.routes.contains(prefix)) continue;
    RouteUpdate* update = changes.add_updates();
    update->set_op(RouteUpdate::OP_DELETE);
    *update->mutable_prefix() = ToProto(prefix);
  }
  const auto compare = [](const auto& from, const auto& to, auto* changed,
                          auto* deleted) {
    for (const auto& [id, object] : to) {
      const auto old = from.find(id);
      if (old == from.end() || !SameMessage(old->second, object)) {
        *changed->Add() = object;
      }
    }
    for (const auto& [id, object] : from) {
      if (!to.contains(id)) deleted->Add(id);
    }
  };
  compare(before.next_hops, after.next_hops, changes.mutable_next_hops(),
          changes.mutable_deleted_next_hop_ids());
  compare(before.groups, after.groups, changes.mutable_groups(),
          changes.mutable_deleted_group_ids());
  return changes;
}

bool HasChanges(const v1::WatchRoutesResponse& changes) {
  return changes.updates_size() + changes.next_hops_size() +
             changes.groups_size() + changes.deleted_next_hop_ids_size() +
             changes.deleted_group_ids_size() >
         0;
}

}  // namespace planb::client::testing
