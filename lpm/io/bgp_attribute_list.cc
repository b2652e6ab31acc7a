#include "lpm/io/bgp_attribute_list.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

constexpr uint8_t kExtendedLength = 0x10;  // a flag of an attribute

}  // namespace

absl::StatusOr<BgpAttribute> BgpAttributeList::Next() {
  BgpAttribute next;
  uint8_t flags = 0;
  uint16_t length = 0;
  uint8_t short_length = 0;
  bool whole = cursor_.Read(&flags) && cursor_.Read(&next.type);
  if (whole && (flags & kExtendedLength) != 0) {
    whole = cursor_.Read(&length);
  } else if (whole) {
    whole = cursor_.Read(&short_length);
    length = short_length;
  }
  if (!whole || !cursor_.Read(length, &next.value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute list ends inside attribute ", next.type));
  }
  return next;
}

absl::StatusOr<Address> ParseBgpNextHop(absl::string_view octets) {
  if (octets.size() != 4) {
    return absl::InvalidArgumentError("NEXT_HOP is not 4 octets");
  }
  return Address::FromPacked(octets);
}

absl::StatusOr<Address> ParseMpNextHop(absl::string_view octets) {
  absl::StatusOr<Address> next_hop =
      Address::FromPacked(octets.size() == 32 ? octets.substr(0, 16) : octets);
  if (next_hop.ok()) return next_hop;
  return absl::InvalidArgumentError(
      absl::StrCat("MP_REACH_NLRI has a next hop of ", octets.size(),
                   " octets, not 4, 16 or 32"));
}

}  // namespace planb
