// SPDX-License-Identifier: Apache-2.0

#include "server/control/explain.h"

#include <optional>

#include "server/base/error.h"
#include "server/table/convert.h"

namespace planb::server {
namespace {

absl::StatusOr<Address> Decode(const v1::ExplainLookupRequest& request) {
  if (request.text().empty()) return Address::FromPacked(request.address());
  if (request.address().empty()) return Address::Parse(request.text());
  return absl::InvalidArgumentError("give `address` or `text`, not both");
}

}  // namespace

absl::Status Explain(const Snapshot& snapshot, const Kernel& kernel,
                     const v1::ExplainLookupRequest& request,
                     v1::ExplainLookupResponse& response) {
  const absl::StatusOr<Address> address = Decode(request);
  if (!address.ok()) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ADDRESS_INVALID",
                      request.text().empty() ? "address" : "text",
                      address.status().message());
  }
  response.set_generation(snapshot.generation());
  const RouteSet& routes = *snapshot.routes(address->family());
  for (std::optional<Route> match = routes.Match(*address); match.has_value();
       match = routes.Cover(match->prefix)) {
    Encode(*match, *response.add_matches());
  }
  // Not read off the list: if they ever differed, here it would show.
  const NextHopId id = snapshot.fib(address->family()).Lookup(*address, kernel);
  response.set_next_hop_id(id);
  const NextHopSet& next_hops = snapshot.next_hops();
  if (const NextHop* const next_hop = next_hops.Find(id)) {
    Encode(*next_hop, *response.mutable_next_hop());
  }
  const NextHopGroup* const group = next_hops.FindGroup(id);
  if (group == nullptr) return absl::OkStatus();
  Encode(*group, *response.mutable_group());
  if (!request.has_flow_hash()) return absl::OkStatus();
  const NextHopId member = snapshot.groups().Choose(id, request.flow_hash());
  response.set_member_id(member);
  if (const NextHop* const next_hop = next_hops.Find(member)) {
    Encode(*next_hop, *response.mutable_member());
  }
  return absl::OkStatus();
}

}  // namespace planb::server
