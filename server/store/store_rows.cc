// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_rows.h"

#include <endian.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Status Wrong(absl::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

// Text, so that it is the same on any machine; a string has its length before
// it, so that no two lists of fields read alike.
template <typename... Fields>
uint64_t Hash(const Fields&... fields) {
  std::string text;
  const auto append = [&text](const auto& field) {
    if constexpr (std::is_convertible_v<decltype(field), absl::string_view>) {
      absl::StrAppend(&text, absl::string_view(field).size(), ":",
                      absl::string_view(field));
    } else {
      absl::StrAppend(&text, field, " ");
    }
  };
  (append(fields), ...);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

uint64_t StoreRow::Checksum() const {
  return Hash("store", store_id, sequence, generation_floor, tables_sum);
}

uint64_t TableRow::Checksum() const {
  return Hash("table", id, name, generation, writer_epoch, digest,
              objects_digest, first_request, next_request);
}

uint64_t RequestChecksum(int64_t table_id, uint64_t number,
                         const AnsweredRequest& request) {
  const UpdateOutcome& outcome = request.outcome;
  const ChangeCounts& counts = outcome.counts;
  return Hash("request", table_id, number, request.request_id,
              request.fingerprint, outcome.generation, counts.added,
              counts.changed, counts.removed, counts.unchanged,
              counts.next_hops_added, counts.next_hops_changed,
              counts.next_hops_removed, outcome.digest,
              absl::ToUnixNanos(outcome.accepted));
}

PackedAddress::PackedAddress(const Address& address) {
  const uint64_t words[] = {htobe64(absl::Uint128High64(address.bits())),
                            htobe64(absl::Uint128Low64(address.bits()))};
  static_assert(sizeof(words) == sizeof(bytes_));
  std::memcpy(bytes_.data(), words, sizeof(words));
  size_ = static_cast<size_t>(AddressBytes(address.family()));
  while (size_ > 0 && bytes_[size_ - 1] == 0) --size_;
}

absl::StatusOr<Prefix> UnpackPrefix(int64_t family, absl::string_view address,
                                    int64_t length) {
  if (family != 4 && family != 6) {
    return Wrong(absl::StrCat("a route has family ", family));
  }
  const auto known = static_cast<Family>(family);
  if (address.size() > static_cast<size_t>(AddressBytes(known)) ||
      (!address.empty() && address.back() == 0)) {
    return Wrong(absl::StrCat("a route has the ", FamilyName(known),
                              " address x'", absl::BytesToHexString(address),
                              "'"));
  }
  uint64_t words[2] = {};
  // Not memcpy: of no bytes there is no address.
  std::copy(address.begin(), address.end(), reinterpret_cast<char*>(words));
  const absl::StatusOr<Prefix> prefix = Prefix::Create(
      Address::FromBits(
          known, absl::MakeUint128(be64toh(words[0]), be64toh(words[1]))),
      length < 0 || length > 128 ? -1 : static_cast<int>(length));
  if (!prefix.ok()) return Wrong(prefix.status().message());
  return prefix;
}

absl::StatusOr<NextHopId> UnpackNextHopId(int64_t id) {
  if (id <= kNoRoute || id >= kUndecided) {
    return Wrong(absl::StrCat("there is a next hop ", id));
  }
  return static_cast<NextHopId>(id);
}

absl::StatusOr<uint32_t> UnpackWeight(int64_t weight) {
  if (weight < 0 || weight > std::numeric_limits<uint32_t>::max()) {
    return Wrong(absl::StrCat("a next hop has weight ", weight));
  }
  return static_cast<uint32_t>(weight);
}

std::optional<std::string> FormatGateway(const NextHop& next_hop) {
  if (!next_hop.gateway.has_value()) return std::nullopt;
  return next_hop.gateway->ToString();
}

absl::StatusOr<Address> ParseGateway(absl::string_view text) {
  const absl::StatusOr<Address> address = Address::Parse(text);
  if (!address.ok()) return Wrong(address.status().message());
  return address;
}

std::string FormatMembers(const NextHopGroup& group) {
  std::string text;
  for (const NextHopGroup::Member& member : group.members) {
    absl::StrAppend(&text, text.empty() ? "" : " ", member.next_hop, "*",
                    member.weight);
  }
  return text;
}

absl::StatusOr<std::vector<NextHopGroup::Member>> ParseMembers(
    absl::string_view text) {
  std::vector<NextHopGroup::Member> members;
  if (text.empty()) return members;
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(part, '*');
    NextHopGroup::Member member;
    if (fields.size() != 2 || !absl::SimpleAtoi(fields[0], &member.next_hop) ||
        !absl::SimpleAtoi(fields[1], &member.weight)) {
      return Wrong(absl::StrCat("a group has the members \"",
                                absl::CEscape(text), "\""));
    }
    members.push_back(member);
  }
  return members;
}

}  // namespace planb::server
