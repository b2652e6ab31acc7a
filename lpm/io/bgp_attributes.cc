#include "lpm/io/bgp_attributes.h"

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/bgp_attribute_list.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

// Segment types of AS_PATH (RFC 4271, RFC 5065).
constexpr uint8_t kAsSet = 1;
constexpr uint8_t kAsSequence = 2;
constexpr uint8_t kConfedSequence = 3;
constexpr uint8_t kConfedSet = 4;

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", why));
}

absl::StatusOr<BgpOrigin> ParseOrigin(absl::string_view value) {
  if (value.size() != 1) return Malformed("ORIGIN", "is not one octet");
  if (static_cast<unsigned char>(value[0]) > 2) {
    return Malformed("ORIGIN", "is not 0, 1 or 2");
  }
  return static_cast<BgpOrigin>(value[0]);
}

absl::StatusOr<uint32_t> ParseAsPathLength(absl::string_view value) {
  OctetCursor cursor(value);
  uint32_t length = 0;
  while (!cursor.empty()) {
    uint8_t type = 0;
    uint8_t count = 0;
    absl::string_view numbers;
    if (!cursor.Read(&type) || !cursor.Read(&count) ||
        !cursor.Read(size_t{count} * 4, &numbers)) {
      return Malformed("AS_PATH", "ends inside a segment");
    }
    switch (type) {
      case kAsSequence:
        length += count;
        break;
      case kAsSet:
        length += 1;
        break;
      case kConfedSequence:
      case kConfedSet:
        break;
      default:
        return Malformed("AS_PATH",
                         absl::StrCat("has a segment of unknown type ", type));
    }
  }
  return length;
}

absl::StatusOr<Address> ParseMpReachNextHop(absl::string_view value,
                                            Family family) {
  constexpr absl::string_view kName = "MP_REACH_NLRI";
  OctetCursor cursor(value);
  uint8_t length = 0;
  // In full, it starts with an address family number, below 256 and so with a
  // 0, which no length of a next hop is.
  const bool full = !value.empty() && value[0] == 0;
  if (full) {
    uint16_t family_number = 0;
    uint8_t subsequent_family = 0;
    if (!cursor.Read(&family_number) || !cursor.Read(&subsequent_family)) {
      return Malformed(kName, "is too short");
    }
    if (family_number != BgpFamilyNumber(family) ||
        subsequent_family != kBgpUnicast) {
      return Malformed(
          kName, absl::StrCat("is of address family ", family_number, "/",
                              subsequent_family, ", not ", FamilyName(family),
                              " unicast"));
    }
  }
  absl::string_view octets;
  if (!cursor.Read(&length) || !cursor.Read(length, &octets)) {
    return Malformed(kName, "ends inside the next hop");
  }
  if (!full && !cursor.empty()) {
    return Malformed(kName, "goes on after the next hop");
  }
  return ParseMpNextHop(octets);
}

// Stores what `parsed` holds into `*to`.
template <typename T, typename To>
absl::Status Store(const absl::StatusOr<T>& parsed, To* to) {
  if (parsed.ok()) *to = *parsed;
  return parsed.status();
}

}  // namespace

absl::StatusOr<BgpPath> ParseBgpPath(absl::string_view attributes,
                                     Family family) {
  BgpAttributeList list(attributes);
  std::optional<BgpOrigin> origin;
  std::optional<uint32_t> as_path_length;
  std::optional<Address> next_hop;
  std::optional<Address> mp_next_hop;
  while (!list.empty()) {
    const absl::StatusOr<BgpAttribute> attribute = list.Next();
    if (!attribute.ok()) return attribute.status();
    const auto [type, value] = *attribute;
    absl::Status status;
    if (type == kBgpOrigin && !origin) {
      status = Store(ParseOrigin(value), &origin);
    } else if (type == kBgpAsPath && !as_path_length) {
      status = Store(ParseAsPathLength(value), &as_path_length);
    } else if (type == kBgpNextHop && !next_hop && family == Family::kIpv4) {
      status = Store(ParseBgpNextHop(value), &next_hop);
    } else if (type == kBgpMpReachNlri && !mp_next_hop) {
      status = Store(ParseMpReachNextHop(value, family), &mp_next_hop);
    }
    if (!status.ok()) return status;
  }
  if (!next_hop) next_hop = mp_next_hop;
  if (!next_hop) return Malformed("path", "has no next hop");
  return BgpPath{*next_hop, as_path_length.value_or(0),
                 origin.value_or(BgpOrigin::kIncomplete)};
}

}  // namespace planb
