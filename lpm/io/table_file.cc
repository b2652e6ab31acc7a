// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/table_file.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb {

uint64_t Xxh3(absl::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  ABSL_RAW_CHECK(state_ != nullptr, "no memory");
  XXH3_64bits_reset(state_.get());
}

void Xxh3Stream::Add(absl::string_view bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t Xxh3Stream::Value() const { return XXH3_64bits_digest(state_.get()); }

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

namespace {

// Bytes that hold the bits of a prefix.
constexpr size_t PrefixBytes(int length) {
  return (static_cast<size_t>(length) + 7) / 8;
}

void AppendText(absl::string_view text, std::string& out) {
  AppendLittle(static_cast<uint16_t>(text.size()), out);
  out.append(text.data(), text.size());
}

bool ReadText(ByteCursor& cursor, std::string& text) {
  uint16_t size = 0;
  absl::string_view bytes;
  if (!cursor.ReadLittle(&size) || !cursor.Read(size, &bytes)) return false;
  text.assign(bytes.data(), bytes.size());
  return true;
}

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the ", what, " ", why));
}

absl::Status Cut(absl::string_view what) {
  return Malformed(what, "goes on past the end of its block");
}

absl::Status CheckId(NextHopId id, absl::string_view what) {
  if (IsNextHop(id)) return absl::OkStatus();
  return Malformed(what, absl::StrCat("has the reserved next hop ", id));
}

}  // namespace

void AppendItem(const TableFileHeader& header, std::string& out) {
  AppendLittle(header.generation, out);
  out += header.digest;
  AppendText(header.table, out);
}

void AppendItem(const NextHop& next_hop, std::string& out) {
  AppendLittle(next_hop.id, out);
  AppendLittle(next_hop.weight, out);
  const std::string gateway =
      next_hop.gateway ? next_hop.gateway->ToPacked() : "";
  AppendLittle(static_cast<uint8_t>(gateway.size()), out);
  out += gateway;
  AppendText(next_hop.interface, out);
  AppendText(next_hop.label, out);
}

void AppendItem(const NextHopGroup& group, std::string& out) {
  AppendLittle(group.id, out);
  AppendLittle(static_cast<uint16_t>(group.members.size()), out);
  for (const NextHopGroup::Member& member : group.members) {
    AppendLittle(member.next_hop, out);
    AppendLittle(member.weight, out);
  }
  AppendText(group.label, out);
}

void AppendItem(const Route& route, std::string& out) {
  AppendLittle(route.next_hop, out);
  AppendLittle(static_cast<uint8_t>(route.prefix.length()), out);
  out.append(route.prefix.address().ToPacked(), 0,
             PrefixBytes(route.prefix.length()));
}

void AppendItem(const TableFileEnd& end, std::string& out) {
  AppendLittle(end.counts.next_hops, out);
  AppendLittle(end.counts.groups, out);
  AppendLittle(end.counts.ipv4_routes, out);
  AppendLittle(end.counts.ipv6_routes, out);
  AppendLittle(end.checksum, out);
}

absl::Status ReadItem(ByteCursor& cursor, TableFileHeader& header) {
  absl::string_view digest;
  if (!cursor.ReadLittle(&header.generation) ||
      !cursor.Read(kTableFileDigestSize, &digest) ||
      !ReadText(cursor, header.table)) {
    return Cut("header");
  }
  header.digest.assign(digest.data(), digest.size());
  return absl::OkStatus();
}

absl::Status ReadItem(ByteCursor& cursor, NextHop& next_hop) {
  constexpr absl::string_view kName = "next hop";
  uint8_t size = 0;
  absl::string_view gateway;
  if (!cursor.ReadLittle(&next_hop.id) ||
      !cursor.ReadLittle(&next_hop.weight) || !cursor.ReadLittle(&size) ||
      !cursor.Read(size, &gateway) || !ReadText(cursor, next_hop.interface) ||
      !ReadText(cursor, next_hop.label)) {
    return Cut(kName);
  }
  next_hop.gateway.reset();
  if (size > 0) {
    const absl::StatusOr<Address> address = Address::FromPacked(gateway);
    if (!address.ok()) {
      return Malformed(kName, absl::StrCat("has a gateway of ", size,
                                           " bytes, not 4, 16 "
                                           "or none"));
    }
    next_hop.gateway = *address;
  }
  return CheckId(next_hop.id, kName);
}

absl::Status ReadItem(ByteCursor& cursor, NextHopGroup& group) {
  constexpr absl::string_view kName = "next-hop group";
  uint16_t members = 0;
  if (!cursor.ReadLittle(&group.id) || !cursor.ReadLittle(&members)) {
    return Cut(kName);
  }
  group.members.clear();
  for (size_t i = 0; i < members; ++i) {
    NextHopGroup::Member member;
    if (!cursor.ReadLittle(&member.next_hop) ||
        !cursor.ReadLittle(&member.weight)) {
      return Cut(kName);
    }
    absl::Status status = CheckId(member.next_hop, kName);
    if (!status.ok()) return status;
    group.members.push_back(member);
  }
  if (!ReadText(cursor, group.label)) return Cut(kName);
  return CheckId(group.id, kName);
}

absl::Status ReadItem(ByteCursor& cursor, Family family, Route& route) {
  constexpr absl::string_view kName = "route";
  uint8_t length = 0;
  if (!cursor.ReadLittle(&route.next_hop) || !cursor.ReadLittle(&length)) {
    return Cut(kName);
  }
  if (length > AddressBits(family)) {
    return Malformed(kName, absl::StrCat("is an ", FamilyName(family),
                                         " prefix of length ", length));
  }
  absl::string_view bytes;
  if (!cursor.Read(PrefixBytes(length), &bytes)) return Cut(kName);
  char packed[16] = {};
  std::copy(bytes.begin(), bytes.end(), packed);
  const absl::StatusOr<Prefix> prefix =
      Prefix::Create(*Address::FromPacked(absl::string_view(
                         packed, static_cast<size_t>(AddressBytes(family)))),
                     length);
  if (!prefix.ok()) {
    return Malformed(kName,
                     absl::StrCat("is none: ", prefix.status().message()));
  }
  route.prefix = *prefix;
  return CheckId(route.next_hop, kName);
}

absl::Status ReadItem(ByteCursor& cursor, TableFileEnd& end) {
  if (!cursor.ReadLittle(&end.counts.next_hops) ||
      !cursor.ReadLittle(&end.counts.groups) ||
      !cursor.ReadLittle(&end.counts.ipv4_routes) ||
      !cursor.ReadLittle(&end.counts.ipv6_routes) ||
      !cursor.ReadLittle(&end.checksum)) {
    return Cut("end");
  }
  return absl::OkStatus();
}

absl::Status TableFileOrder::Accept(const NextHop& next_hop) {
  if (counts_.groups > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("next hop ", next_hop.id, " comes after a group"));
  }
  absl::Status status = AcceptId(next_hop.id, "next hop");
  if (status.ok()) ++counts_.next_hops;
  return status;
}

absl::Status TableFileOrder::Accept(const NextHopGroup& group) {
  // The ids of groups start anew.
  if (counts_.groups == 0) last_id_ = kNoRoute;
  absl::Status status = AcceptId(group.id, "group");
  if (status.ok()) ++counts_.groups;
  return status;
}

absl::Status TableFileOrder::AcceptId(NextHopId id, absl::string_view what) {
  if (last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after a route"));
  }
  if (!IsNextHop(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " has a reserved id"));
  }
  if (id <= last_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after ", what, " ", last_id_));
  }
  last_id_ = id;
  return absl::OkStatus();
}

absl::Status TableFileOrder::Accept(const Route& route) {
  if (!IsNextHop(route.next_hop)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " has the reserved next hop ", route.next_hop));
  }
  if (last_prefix_ && route.prefix <= *last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " comes after that of ", last_prefix_->ToString()));
  }
  last_prefix_ = route.prefix;
  ++(route.prefix.family() == Family::kIpv4 ? counts_.ipv4_routes
                                            : counts_.ipv6_routes);
  return absl::OkStatus();
}

}  // namespace planb
