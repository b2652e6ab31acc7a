// SPDX-License-Identifier: Apache-2.0

#include "follow/convert.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "follow/attribute_limits.h"

namespace planb {
namespace {

using absl::InvalidArgumentError;

constexpr size_t kMaxLabel = 256;

constexpr int kMaxTags = 16;
constexpr size_t kMaxTagKey = 63;
constexpr size_t kMaxTagValue = 255;

absl::Status CheckLabel(absl::string_view label) {
  if (label.size() <= kMaxLabel) return absl::OkStatus();
  return InvalidArgumentError(
      absl::StrCat("label has more than ", kMaxLabel, " bytes"));
}

absl::Status CheckId(NextHopId id, absl::string_view name) {
  if (IsNextHop(id)) return absl::OkStatus();
  return InvalidArgumentError(absl::StrCat(name, " ", NotANextHop(id)));
}

template <typename... Why>
absl::Status Wrong(absl::string_view field, const Why&... why) {
  return InvalidArgumentError(absl::StrCat("attributes", field, ": ", why...));
}

absl::Status CheckCount(absl::string_view field, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return Wrong(field, "has ", count, " entries; the limit is ", most);
}

absl::Status CheckPath(const v1::Attributes& attributes) {
  absl::Status status =
      CheckCount(".as_path", attributes.as_path_size(), kMaxSegments);
  int numbers = 0;
  for (int i = 0; i < attributes.as_path_size() && status.ok(); ++i) {
    const int size = attributes.as_path(i).numbers_size();
    numbers += size;
    if (size == 0) return Wrong(absl::StrCat(".as_path[", i, "]"), "is empty");
    if (numbers > kMaxPath) {
      return Wrong(absl::StrCat(".as_path[", i, "]"), "is past the limit of ",
                   kMaxPath, " numbers");
    }
  }
  return status;
}

absl::Status CheckTagText(absl::string_view field, absl::string_view text,
                          size_t most) {
  if (text.size() > most) {
    return Wrong(field, "has more than ", most, " bytes");
  }
  const size_t at = FirstUnprintable(text);
  if (at == absl::string_view::npos) return absl::OkStatus();
  return Wrong(field, "has a control character at byte ", at);
}

absl::Status CheckTags(const v1::Attributes& attributes) {
  absl::Status status = CheckCount(".tags", attributes.tags_size(), kMaxTags);
  absl::flat_hash_set<absl::string_view> seen;
  for (int i = 0; i < attributes.tags_size() && status.ok(); ++i) {
    const v1::Attributes::Tag& tag = attributes.tags(i);
    const std::string field = absl::StrCat(".tags[", i, "]");
    status.Update(CheckTagText(field + ".key", tag.key(), kMaxTagKey));
    status.Update(CheckTagText(field + ".value", tag.value(), kMaxTagValue));
    if (tag.key().empty() || tag.key().find('=') != std::string::npos) {
      status.Update(Wrong(field + ".key", "is empty or has \"=\""));
    }
    if (!seen.insert(tag.key()).second) {
      status.Update(Wrong(field + ".key", "appears twice"));
    }
  }
  return status;
}

}  // namespace

std::string NotANextHop(NextHopId id) {
  return absl::StrCat("must be 1..4294967294, not ", id);
}

absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix) {
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

absl::StatusOr<Route> FromProto(const v1::Route& route) {
  const absl::StatusOr<Prefix> prefix = FromProto(route.prefix());
  if (!prefix.ok()) return prefix.status();
  absl::Status status = CheckId(route.next_hop_id(), "next_hop_id");
  if (!status.ok()) return status;
  return Route{*prefix, route.next_hop_id()};
}

absl::StatusOr<Attributes> FromProto(const v1::Attributes& attributes) {
  absl::Status status = CheckPath(attributes);
  status.Update(CheckCount(".communities", attributes.communities_size(),
                           kMaxCommunities));
  status.Update(CheckCount(".extended_communities",
                           attributes.extended_communities_size(),
                           kMaxCommunities));
  status.Update(CheckCount(".large_communities",
                           attributes.large_communities_size(),
                           kMaxCommunities));
  status.Update(CheckTags(attributes));
  if (!status.ok()) return status;
  const size_t size = attributes.ByteSizeLong();
  if (size > kMaxAttributes) {
    return Wrong("", "takes ", size, " bytes; the limit is ", kMaxAttributes);
  }
  // What a later version adds stays: the digest of its server covers it.
  return Attributes(attributes.SerializeAsString());
}

absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop) {
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
  if (decoded.interface.size() > NextHop::kMaxInterface) {
    return InvalidArgumentError(absl::StrCat("interface has more than ",
                                             NextHop::kMaxInterface, " bytes"));
  }
  if (next_hop.has_attributes()) {
    absl::StatusOr<Attributes> attributes = FromProto(next_hop.attributes());
    if (!attributes.ok()) return attributes.status();
    decoded.attributes = *std::move(attributes);
  }
  return decoded;
}

absl::StatusOr<NextHopGroup> FromProto(const v1::NextHopGroup& group) {
  NextHopGroup decoded = {
      .id = group.id(), .members = {}, .label = group.label()};
  absl::Status status = CheckId(group.id(), "id");
  status.Update(CheckLabel(group.label()));
  if (group.members().empty() ||
      group.members_size() > int{NextHopGroup::kMaxMembers}) {
    status.Update(InvalidArgumentError(
        absl::StrCat("has ", group.members_size(), " members, not 1..",
                     NextHopGroup::kMaxMembers)));
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

void ToProto(const Prefix& prefix, v1::Prefix& out) {
  out.set_address(prefix.address().ToPacked());
  out.set_length(static_cast<uint32_t>(prefix.length()));
}

void ToProto(const Route& route, v1::Route& out) {
  ToProto(route.prefix, *out.mutable_prefix());
  out.set_next_hop_id(route.next_hop);
}

void ToProto(const Route& route, v1::RouteUpdate& out) {
  out.set_op(route.next_hop == kNoRoute ? v1::RouteUpdate::OP_DELETE
                                        : v1::RouteUpdate::OP_UPSERT);
  ToProto(route.prefix, *out.mutable_prefix());
  out.set_next_hop_id(route.next_hop);
}

v1::Prefix ToProto(const Prefix& prefix) {
  v1::Prefix message;
  ToProto(prefix, message);
  return message;
}

v1::Route ToProto(const Route& route) {
  v1::Route message;
  ToProto(route, message);
  return message;
}

v1::RouteUpdate ToUpdate(const Route& route) {
  v1::RouteUpdate message;
  ToProto(route, message);
  return message;
}

v1::Attributes ToProto(const Attributes& attributes) {
  v1::Attributes message;
  const absl::string_view encoded = attributes.encoded();
  // Of what cannot be parsed, nothing is told.
  if (!message.ParseFromArray(encoded.data(),
                              static_cast<int>(encoded.size()))) {
    message.Clear();
  }
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
  if (!next_hop.attributes.empty()) {
    *message.mutable_attributes() = ToProto(next_hop.attributes);
  }
  return message;
}

v1::NextHopGroup ToProto(const NextHopGroup& group) {
  v1::NextHopGroup message;
  message.set_id(group.id);
  message.set_label(group.label);
  for (const NextHopGroup::Member& member : group.members) {
    v1::NextHopGroup::Member& to = *message.add_members();
    to.set_next_hop_id(member.next_hop);
    to.set_weight(member.weight);
  }
  return message;
}

}  // namespace planb
