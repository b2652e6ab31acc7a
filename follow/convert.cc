// SPDX-License-Identifier: Apache-2.0

#include "follow/convert.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

using absl::InvalidArgumentError;

constexpr size_t kMaxInterface = 64;
constexpr size_t kMaxLabel = 256;
constexpr int kMaxMembers = 256;

absl::Status CheckLabel(absl::string_view label) {
  if (label.size() <= kMaxLabel) return absl::OkStatus();
  return InvalidArgumentError(
      absl::StrCat("label has more than ", kMaxLabel, " bytes"));
}

absl::Status CheckId(NextHopId id, absl::string_view name) {
  if (IsNextHop(id)) return absl::OkStatus();
  return InvalidArgumentError(
      absl::StrCat(name, " must be 1..4294967294, not ", id));
}

}  // namespace

absl::StatusOr<Address> DecodeAddress(const v1::Address& address) {
  switch (address.form_case()) {
    case v1::Address::kPacked:
      return Address::FromPacked(address.packed());
    case v1::Address::kText:
      return Address::Parse(address.text());
    default:
      return InvalidArgumentError("needs `packed` or `text`");
  }
}

absl::StatusOr<Prefix> DecodePrefix(const v1::Prefix& prefix) {
  if (!prefix.text().empty()) {
    if (!prefix.address().empty() || prefix.length() != 0) {
      return InvalidArgumentError(
          "has both `text` and `address` or `length`; give one form");
    }
    return Prefix::Parse(prefix.text());
  }
  const auto address = Address::FromPacked(prefix.address());
  if (!address.ok()) return address.status();
  if (prefix.length() > 128) {
    return InvalidArgumentError(absl::StrCat("length ", prefix.length(),
                                             " is not in 0..",
                                             AddressBits(address->family())));
  }
  return Prefix::Create(*address, static_cast<int>(prefix.length()));
}

absl::StatusOr<NextHop> DecodeNextHop(const v1::NextHop& next_hop) {
  NextHop decoded = {.id = next_hop.id(),
                     .gateway = std::nullopt,
                     .interface = next_hop.interface(),
                     .weight = next_hop.weight() == 0 ? 1 : next_hop.weight(),
                     .label = next_hop.label()};
  absl::Status status = CheckId(decoded.id, "id");
  status.Update(CheckLabel(decoded.label));
  if (!status.ok()) return status;
  if (!next_hop.gateway().empty()) {
    const auto gateway = Address::FromPacked(next_hop.gateway());
    if (!gateway.ok()) return gateway.status();
    decoded.gateway = *gateway;
  }
  if (decoded.interface.size() > kMaxInterface) {
    return InvalidArgumentError(
        absl::StrCat("interface has more than ", kMaxInterface, " bytes"));
  }
  return decoded;
}

absl::StatusOr<NextHopGroup> DecodeGroup(const v1::NextHopGroup& group) {
  NextHopGroup decoded = {
      .id = group.id(), .members = {}, .label = group.label()};
  absl::Status status = CheckId(group.id(), "id");
  status.Update(CheckLabel(group.label()));
  if (group.members().empty() || group.members_size() > kMaxMembers) {
    status.Update(InvalidArgumentError(absl::StrCat(
        "has ", group.members_size(), " members, not 1..", kMaxMembers)));
  }
  uint64_t weights = 0;
  absl::flat_hash_set<NextHopId> seen;
  for (int i = 0; i < group.members_size() && status.ok(); ++i) {
    const v1::NextHopGroup::Member& member = group.members(i);
    const uint32_t weight = std::max(member.weight(), 1U);
    weights += weight;
    status.Update(CheckId(member.next_hop_id(),
                          absl::StrCat("members[", i, "].next_hop_id")));
    if (!seen.insert(member.next_hop_id()).second) {
      status.Update(InvalidArgumentError(
          absl::StrCat("members[", i, "].next_hop_id ", member.next_hop_id(),
                       " appears twice")));
    }
    decoded.members.push_back({member.next_hop_id(), weight});
  }
  if (weights > std::numeric_limits<uint32_t>::max()) {
    status.Update(
        InvalidArgumentError("weights add up to more than 4294967295"));
  }
  if (!status.ok()) return status;
  return decoded;
}

void Encode(const Prefix& prefix, v1::Prefix& out) {
  out.set_address(prefix.address().ToPacked());
  out.set_length(static_cast<uint32_t>(prefix.length()));
}

void Encode(const NextHop& next_hop, v1::NextHop& out) {
  out.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    out.set_gateway(next_hop.gateway->ToPacked());
  }
  out.set_interface(next_hop.interface);
  out.set_weight(next_hop.weight);
  out.set_label(next_hop.label);
}

void Encode(const Route& route, v1::Route& out) {
  Encode(route.prefix, *out.mutable_prefix());
  out.set_next_hop_id(route.next_hop);
}

void Encode(const NextHopGroup& group, v1::NextHopGroup& out) {
  out.set_id(group.id);
  out.set_label(group.label);
  for (const NextHopGroup::Member& member : group.members) {
    v1::NextHopGroup::Member& encoded = *out.add_members();
    encoded.set_next_hop_id(member.next_hop);
    encoded.set_weight(member.weight);
  }
}

}  // namespace planb
