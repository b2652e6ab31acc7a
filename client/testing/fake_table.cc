// Every change is tried on copies first: all of a batch or nothing.

#include "client/testing/fake_table.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client::testing {
namespace {

using v1::RouteUpdate;

absl::StatusOr<Prefix> ReadPrefix(const v1::Prefix& prefix) {
  if (!prefix.text().empty()) return Prefix::Parse(prefix.text());
  const auto address = Address::FromPacked(prefix.address());
  if (!address.ok()) return address.status();
  return Prefix::Create(*address, static_cast<int>(prefix.length()));
}

}  // namespace

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

FakeTable::FakeTable(const std::vector<Route>& routes) {
  for (const Route& route : routes) routes_[route.prefix] = route.next_hop;
  generation_ = routes.empty() ? 0 : 1;
}

std::optional<Route> FakeTable::Lookup(const Address& address) const {
  for (int length = AddressBits(address.family()); length >= 0; --length) {
    const auto found = routes_.find(Prefix::Truncate(address, length));
    if (found != routes_.end()) return Route{found->first, found->second};
  }
  return std::nullopt;
}

grpc::Status FakeTable::Update(const v1::UpdateRoutesRequest& request,
                               size_t max_updates,
                               v1::UpdateRoutesResponse& response) {
  const auto count = static_cast<size_t>(request.updates_size());
  if (count > max_updates) {
    return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE",
                     absl::StrCat(count, " updates, at most ", max_updates));
  }
  if (request.has_expected_generation() &&
      request.expected_generation() != generation_) {
    return MakeError(grpc::StatusCode::ABORTED, "GENERATION_MISMATCH",
                     absl::StrCat("the generation is ", generation_));
  }
  std::map<Prefix, NextHopId> routes = routes_;
  std::map<uint32_t, v1::NextHop> next_hops = next_hops_;
  std::set<uint32_t> ids;
  for (const v1::NextHop& next_hop : request.next_hops()) {
    if (next_hop.id() == 0 || !ids.insert(next_hop.id()).second) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "BAD_NEXT_HOP",
                       "a next hop twice, or 0", "next_hops");
    }
    next_hops[next_hop.id()] = next_hop;
  }
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
      if (exists) {
        routes.erase(found);
        response.set_removed(response.removed() + 1);
      } else {
        response.set_unchanged(response.unchanged() + 1);
      }
    } else if (!exists) {
      routes.emplace(*prefix, update.next_hop_id());
      response.set_added(response.added() + 1);
    } else if (found->second == update.next_hop_id()) {
      response.set_unchanged(response.unchanged() + 1);
    } else {
      found->second = update.next_hop_id();
      response.set_changed(response.changed() + 1);
    }
  }
  if (!request.validate_only()) {
    if (routes != routes_) ++generation_;
    routes_ = std::move(routes);
    next_hops_ = std::move(next_hops);
  }
  response.set_generation(generation_);
  response.set_visible_generation(generation_);
  return grpc::Status::OK;
}

v1::Table FakeTable::Describe() const {
  v1::Table table;
  table.set_name("default");
  table.set_accepted_generation(generation_);
  table.set_visible_generation(generation_);
  std::map<std::pair<bool, uint32_t>, uint64_t> counts;
  for (const auto& [prefix, next_hop] : routes_) {
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
  table.set_next_hops(next_hops_.size());
  table.set_digest(std::string(16, '\x5a'));
  table.set_fib_bytes(4096);
  table.set_kernel("scalar");
  table.add_available_kernels("scalar");
  table.set_store("none");
  table.set_max_routes(1'000'000);
  return table;
}

}  // namespace planb::client::testing
