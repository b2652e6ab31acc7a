// SPDX-License-Identifier: Apache-2.0

// Replies always use the packed form of a prefix, so only that is read here.

#include "client/convert.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb::client {

v1::Prefix ToProto(const Prefix& prefix) {
  v1::Prefix message;
  message.set_address(prefix.address().ToPacked());
  message.set_length(static_cast<uint32_t>(prefix.length()));
  return message;
}

v1::NextHop ToProto(const NextHop& next_hop) {
  v1::NextHop message;
  message.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    message.set_gateway(next_hop.gateway->ToPacked());
  }
  message.set_interface(next_hop.interface);
  message.set_weight(next_hop.weight);
  message.set_label(next_hop.label);
  return message;
}

v1::NextHopGroup ToProto(const NextHopGroup& group) {
  v1::NextHopGroup message;
  message.set_id(group.id);
  for (const NextHopGroup::Member& member : group.members) {
    v1::NextHopGroup::Member* to = message.add_members();
    to->set_next_hop_id(member.next_hop);
    to->set_weight(member.weight);
  }
  message.set_label(group.label);
  return message;
}

v1::Route ToProto(const Route& route) {
  v1::Route message;
  *message.mutable_prefix() = ToProto(route.prefix);
  message.set_next_hop_id(route.next_hop);
  return message;
}

absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix) {
  if (!prefix.text().empty()) {
    return absl::InvalidArgumentError("a prefix in text where packed is due");
  }
  const absl::StatusOr<Address> address = Address::FromPacked(prefix.address());
  if (!address.ok()) return address.status();
  if (prefix.length() > 128) {  // larger ones might not fit an int
    return absl::InvalidArgumentError("a prefix longer than 128 bits");
  }
  return Prefix::Create(*address, static_cast<int>(prefix.length()));
}

absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop) {
  NextHop value;
  value.id = next_hop.id();
  if (!next_hop.gateway().empty()) {
    const auto gateway = Address::FromPacked(next_hop.gateway());
    if (!gateway.ok()) return gateway.status();
    value.gateway = *gateway;
  }
  value.interface = next_hop.interface();
  value.weight = next_hop.weight() == 0 ? 1 : next_hop.weight();
  value.label = next_hop.label();
  return value;
}

NextHopGroup FromProto(const v1::NextHopGroup& group) {
  NextHopGroup value;
  value.id = group.id();
  for (const v1::NextHopGroup::Member& member : group.members()) {
    value.members.push_back(
        {.next_hop = member.next_hop_id(),
         .weight = member.weight() == 0 ? 1 : member.weight()});
  }
  value.label = group.label();
  return value;
}

absl::StatusOr<Route> FromProto(const v1::Route& route) {
  const absl::StatusOr<Prefix> prefix = FromProto(route.prefix());
  if (!prefix.ok()) return prefix.status();
  if (!IsNextHop(route.next_hop_id())) {
    return absl::InvalidArgumentError(
        absl::StrCat("next hop ", route.next_hop_id()));
  }
  return Route{.prefix = *prefix, .next_hop = route.next_hop_id()};
}

}  // namespace planb::client
