// SPDX-License-Identifier: Apache-2.0

#include "client/testing/fake_table.h"

#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

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

// Applies every batch to a copy first, so that a batch is atomic.

grpc::Status MakeError(grpc::StatusCode code, const std::string& reason,
                       const std::string& message, const std::string& field) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("planb");
  rich.add_details()->PackFrom(info);
  if (!field.empty()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    rich.add_details()->PackFrom(bad);
  }
  return grpc::Status(code, message, rich.SerializeAsString());
}

FakeTable::FakeTable(const std::vector<Route>& routes, bool durable)
    : durable_(durable) {
  for (const Route& route : routes) now_.routes[route.prefix] = route.next_hop;
  first_ = routes.empty() ? 0 : 1;
  first_digest_ = digest();
}

std::optional<Route> FakeTable::Lookup(const Address& address) const {
  for (int length = AddressBits(address.family()); length >= 0; --length) {
    const auto found = now_.routes.find(Prefix::Truncate(address, length));
    if (found != now_.routes.end()) return Route{found->first, found->second};
  }
  return std::nullopt;
}

template <typename Request>
grpc::Status FakeTable::Check(const Request& request) {
  if (request.has_expected_generation() &&
      request.expected_generation() != generation()) {
    return MakeError(grpc::StatusCode::ABORTED, "GENERATION_MISMATCH",
                     absl::StrCat("the generation is ", generation()));
  }
  if (request.ack() == v1::ACK_PERSISTED && !durable_) {
    return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "STORE_VOLATILE",
                     "the table is kept in memory only");
  }
  if (request.writer_epoch() < writer_epoch_) {
    return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "WRITER_FENCED",
                     absl::StrCat("the writer epoch is ", writer_epoch_));
  }
  writer_epoch_ = request.writer_epoch();
  return grpc::Status::OK;
}

template <typename Request, typename Response>
void FakeTable::Commit(const Request& request, State next, Response& response) {
  v1::WatchRoutesResponse changes = ChangesBetween(now_, next);
  if (!request.validate_only() && HasChanges(changes)) {
    now_ = std::move(next);
    changes.set_generation(generation() + 1);
    changes.set_generation_complete(true);
    changes.set_digest(digest());
    history_.push_back(
        std::make_shared<const v1::WatchRoutesResponse>(std::move(changes)));
  }
  response.set_generation(generation());
  response.set_visible_generation(generation());
  response.set_persisted_generation(persisted());
}

grpc::Status FakeTable::Update(const v1::UpdateRoutesRequest& request,
                               size_t max_updates,
                               v1::UpdateRoutesResponse& response) {
  const auto count = static_cast<size_t>(request.updates_size());
  if (count > max_updates) {
    return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE",
                     absl::StrCat(count, " updates, at most ", max_updates));
  }
  grpc::Status status = Check(request);
  if (!status.ok()) return status;
  State next = now_;
  status = SetObjects(request.next_hops(), "next_hops", next.next_hops);
  if (status.ok()) status = SetObjects(request.groups(), "groups", next.groups);
  if (status.ok()) status = ApplyUpdates(request, next.routes, response);
  if (!status.ok()) return status;
  Commit(request, std::move(next), response);
  response.set_digest(digest());
  return grpc::Status::OK;
}

grpc::Status FakeTable::UpdateNextHops(const v1::UpdateNextHopsRequest& request,
                                       v1::UpdateNextHopsResponse& response) {
  grpc::Status status = Check(request);
  if (!status.ok()) return status;
  State next = now_;
  for (uint32_t id : request.delete_ids()) {
    for (const auto& [prefix, next_hop] : next.routes) {
      if (next_hop == id) {
        return MakeError(grpc::StatusCode::FAILED_PRECONDITION,
                         "NEXT_HOP_IN_USE", "a route names it", "delete_ids");
      }
    }
    if (next.next_hops.erase(id) == 0) {
      return MakeError(grpc::StatusCode::NOT_FOUND, "NEXT_HOP_NOT_FOUND",
                       absl::StrCat("no next hop ", id), "delete_ids");
    }
  }
  for (uint32_t id : request.delete_group_ids()) {
    if (next.groups.erase(id) == 0) {
      return MakeError(grpc::StatusCode::NOT_FOUND, "GROUP_NOT_FOUND",
                       absl::StrCat("no group ", id), "delete_group_ids");
    }
  }
  status = SetObjects(request.upserts(), "upserts", next.next_hops);
  if (status.ok()) {
    status = SetObjects(request.group_upserts(), "group_upserts", next.groups);
  }
  if (!status.ok()) return status;
  CountObjects(now_.next_hops, next.next_hops, response);
  CountObjects(now_.groups, next.groups, response);
  Commit(request, std::move(next), response);
  return grpc::Status::OK;
}

grpc::Status FakeTable::Replace(const v1::ReplaceRoutesRequest& first,
                                const v1::ReplaceRoutesRequest& all,
                                v1::ReplaceRoutesResponse& response) {
  grpc::Status status = Check(first);
  if (!status.ok()) return status;
  // A replacement as updates: withdraws routes not sent, announces the others.
  v1::UpdateRoutesRequest updates;
  std::set<Prefix> sent;
  for (const v1::Route& route : all.routes()) {
    v1::RouteUpdate* update = updates.add_updates();
    update->set_op(v1::RouteUpdate::OP_UPSERT);
    *update->mutable_prefix() = route.prefix();
    update->set_next_hop_id(route.next_hop_id());
    const auto prefix = FromProto(route.prefix());
    if (prefix.ok()) sent.insert(*prefix);
  }
  for (const auto& [prefix, next_hop] : now_.routes) {
    if (sent.contains(prefix)) continue;
    v1::RouteUpdate* update = updates.add_updates();
    update->set_op(v1::RouteUpdate::OP_DELETE);
    *update->mutable_prefix() = ToProto(prefix);
  }
  State next = now_;
  status = SetObjects(all.next_hops(), "next_hops", next.next_hops);
  if (status.ok()) status = SetObjects(all.groups(), "groups", next.groups);
  if (status.ok()) status = ApplyUpdates(updates, next.routes, response);
  if (!status.ok()) return status;
  Commit(first, std::move(next), response);
  response.set_digest(digest());
  return grpc::Status::OK;
}

std::string FakeTable::digest() const {
  uint64_t sum = 0;
  for (const auto& route : now_.routes) sum ^= absl::HashOf(route);
  std::string bytes(16, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(sum & 0xff);
    sum >>= 8;
  }
  return bytes;
}

std::string FakeTable::DigestOf(uint64_t generation) const {
  return generation == first_ ? first_digest_
                              : history_[generation - first_ - 1]->digest();
}

void FakeTable::ForgetHistory() {
  first_ = generation();
  first_digest_ = digest();
  history_.clear();
}

v1::Table FakeTable::Describe() const {
  v1::Table table;
  table.set_name("default");
  table.set_accepted_generation(generation());
  table.set_visible_generation(generation());
  table.set_persisted_generation(persisted());
  table.set_oldest_watch_generation(oldest());
  std::map<std::pair<bool, uint32_t>, uint64_t> counts;
  for (const auto& [prefix, next_hop] : now_.routes) {
    const bool v6 = prefix.family() == Family::kIpv6;
    ++counts[{v6, static_cast<uint32_t>(prefix.length())}];
    if (v6) {
      table.set_routes_v6(table.routes_v6() + 1);
    } else {
      table.set_routes_v4(table.routes_v4() + 1);
    }
  }
  for (const auto& [key, routes] : counts) {
    v1::LengthCount* count = table.add_length_counts();
    count->set_v6(key.first);
    count->set_length(key.second);
    count->set_routes(routes);
  }
  table.set_next_hops(now_.next_hops.size());
  table.set_groups(now_.groups.size());
  table.set_writer_epoch(writer_epoch_);
  table.set_digest(digest());
  table.set_fib_bytes(4096);
  table.set_kernel("scalar");
  table.add_available_kernels("scalar");
  table.set_store(durable_ ? "sqlite" : "none");
  table.set_max_routes(1'000'000);
  return table;
}

}  // namespace planb::client::testing
