// SPDX-License-Identifier: Apache-2.0

// Conversions between messages of the contract and the values of lpm/. Those
// from a message trust nothing: what they return keeps the contract's bounds.

#ifndef PLANB_FOLLOW_CONVERT_H_
#define PLANB_FOLLOW_CONVERT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"
#include "planb/v1/types.pb.h"
#include "proto/wire/packed_changes.h"

namespace planb {

// Why an id is no next hop, to follow the name of its field.
std::string NotANextHop(NextHopId id);

// Errors: INVALID_ARGUMENT without a field path, which the caller adds. Weights
// of 0 become 1.
absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix);
absl::StatusOr<Route> FromProto(const v1::Route& route);
// Errors begin with the part at fault, such as "attributes.as_path[2]: ".
absl::StatusOr<Attributes> FromProto(const v1::Attributes& attributes);
absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop);
absl::StatusOr<NextHopGroup> FromProto(const v1::NextHopGroup& group);

// Prefixes are in the packed form. A message that exists is filled: an entry of
// a list that was cleared keeps its memory.
void ToProto(const Prefix& prefix, v1::Prefix& out);
void ToProto(const Route& route, v1::Route& out);
// The change that makes this the route of its prefix; with kNoRoute, the change
// that withdraws the prefix.
void ToProto(const Route& route, v1::RouteUpdate& out);
v1::Prefix ToProto(const Prefix& prefix);
v1::Route ToProto(const Route& route);
v1::RouteUpdate ToUpdate(const Route& route);
v1::Attributes ToProto(const Attributes& attributes);
v1::NextHop ToProto(const NextHop& next_hop);
v1::NextHopGroup ToProto(const NextHopGroup& group);

// Appends the same change in packed form, which the server reads faster, to
// `batch`, an UpdateRoutesRequest or StreamUpdatesRequest. A server of version
// 0.8 or older ignores packed changes.
template <typename Batch>
void AddPacked(const Route& route, Batch& batch) {
  wire::AddPackedChange(
      {.address = route.prefix.address().ToPacked(),
       .length = static_cast<uint8_t>(route.prefix.length()),
       .op = static_cast<uint8_t>(route.next_hop == kNoRoute
                                      ? v1::RouteUpdate::OP_DELETE
                                      : v1::RouteUpdate::OP_UPSERT),
       .next_hop = route.next_hop},
      batch);
}

}  // namespace planb

#endif  // PLANB_FOLLOW_CONVERT_H_
