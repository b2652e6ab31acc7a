// SPDX-License-Identifier: Apache-2.0

#include "client/testing/fake_table.h"

#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client::testing {

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

grpc::Status RetryLater(absl::Duration delay) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(delay % absl::Seconds(1))));
  google::rpc::Status rich;
  rich.add_details()->PackFrom(retry);
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy",
                      rich.SerializeAsString());
}

namespace {

using v1::RouteUpdate;

grpc::Status Refuse(const std::string& reason, const std::string& message,
                    const std::string& field) {
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, reason, message, field);
}

// Applies the updates of `request` and counts in `response`.
grpc::Status ApplyUpdates(const v1::UpdateRoutesRequest& request,
                          std::map<Prefix, NextHopId>& routes,
                          v1::UpdateRoutesResponse& response) {
  uint64_t added = 0, changed = 0, removed = 0, unchanged = 0;
  std::set<Prefix> seen;
  for (int i = 0; i < request.updates_size(); ++i) {
    const RouteUpdate& update = request.updates(i);
    const std::string field = absl::StrCat("updates[", i, "].prefix");
    const auto prefix = FromProto(update.prefix());
    if (!prefix.ok()) {
      return Refuse("BAD_PREFIX", std::string(prefix.status().message()),
                    field);
    }
    if (!seen.insert(*prefix).second) {
      return Refuse("DUPLICATE_PREFIX", "the prefix comes twice", field);
    }
    const NextHopId next_hop = update.next_hop_id();
    const bool withdraws = update.op() == RouteUpdate::OP_DELETE;
    if (withdraws != (next_hop == kNoRoute) ||
        (!withdraws && update.op() != RouteUpdate::OP_UPSERT)) {
      return Refuse("BAD_UPDATE", "op and next hop do not agree", field);
    }
    const auto found = routes.find(*prefix);
    const bool exists = found != routes.end();
    if (withdraws) {
      ++(exists ? removed : unchanged);
      routes.erase(*prefix);
    } else {
      ++(!exists ? added : found->second == next_hop ? unchanged : changed);
      routes[*prefix] = next_hop;
    }
  }
  response.set_added(added);
  response.set_changed(changed);
  response.set_removed(removed);
  response.set_unchanged(unchanged);
  return grpc::Status::OK;
}

// Adds next hops or groups to a map.
template <typename Objects, typename Map>
grpc::Status SetObjects(const Objects& objects, const std::string& field,
                        Map& map) {
  std::set<uint32_t> ids;
  for (const auto& object : objects) {
    if (object.id() == 0 || !ids.insert(object.id()).second) {
      return Refuse("BAD_NEXT_HOP", "an id twice, or 0", field);
    }
    map[object.id()] = object;
  }
  return grpc::Status::OK;
}

// Appends the objects of `after` that are not in `before`.
template <typename Map, typename Objects>
void AddChanged(const Map& before, const Map& after, Objects* objects) {
  for (const auto& [id, object] : after) {
    const auto old = before.find(id);
    if (old == before.end() ||
        !google::protobuf::util::MessageDifferencer::Equals(old->second,
                                                            object)) {
      *objects->Add() = object;
    }
  }
}

// The changes from `before` to `after`, without generation and digest.
v1::WatchRoutesResponse ChangesBetween(const FakeTable::State& before,
                                       const FakeTable::State& after) {
  v1::WatchRoutesResponse changes;
  for (const auto& [prefix, next_hop] : after.routes) {
    const auto old = before.routes.find(prefix);
    if (old != before.routes.end() && old->second == next_hop) continue;
    *changes.add_updates() = ToUpdate({prefix, next_hop});
  }
  for (const auto& [prefix, next_hop] : before.routes) {
    if (after.routes.contains(prefix)) continue;
    *changes.add_updates() = ToUpdate({prefix, kNoRoute});
  }
  AddChanged(before.next_hops, after.next_hops, changes.mutable_next_hops());
  AddChanged(before.groups, after.groups, changes.mutable_groups());
  return changes;
}

}  // namespace

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

// Applies every batch to a copy first, so that a batch is atomic.
grpc::Status FakeTable::Update(const v1::UpdateRoutesRequest& request,
                               v1::UpdateRoutesResponse& response) {
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
  State next = now_;
  grpc::Status status =
      SetObjects(request.next_hops(), "next_hops", next.next_hops);
  if (status.ok()) status = SetObjects(request.groups(), "groups", next.groups);
  if (status.ok()) status = ApplyUpdates(request, next.routes, response);
  if (!status.ok()) return status;
  v1::WatchRoutesResponse changes = ChangesBetween(now_, next);
  if (!request.validate_only() && changes.ByteSizeLong() > 0) {
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
  response.set_digest(digest());
  return grpc::Status::OK;
}

std::string FakeTable::digest() const {
  uint64_t sum = 0;
  for (const auto& route : now_.routes) sum ^= absl::HashOf(route);
  for (const auto& [id, next_hop] : now_.next_hops) {
    sum ^= absl::HashOf(1, next_hop.SerializeAsString());
  }
  for (const auto& [id, group] : now_.groups) {
    sum ^= absl::HashOf(2, group.SerializeAsString());
  }
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
  for (const auto& [prefix, next_hop] : now_.routes) {
    if (prefix.family() == Family::kIpv6) {
      table.set_routes_v6(table.routes_v6() + 1);
    } else {
      table.set_routes_v4(table.routes_v4() + 1);
    }
  }
  table.set_digest(digest());
  table.set_store(durable_ ? "sqlite" : "none");
  return table;
}

}  // namespace planb::client::testing
