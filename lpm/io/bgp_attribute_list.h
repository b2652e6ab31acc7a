// The path attributes of a route, one by one (RFC 4271 section 4.3).

#ifndef PLANB_LPM_IO_BGP_ATTRIBUTE_LIST_H_
#define PLANB_LPM_IO_BGP_ATTRIBUTE_LIST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/io/octets.h"

namespace planb {

// Types of attributes (RFC 4271, RFC 4760).
inline constexpr uint8_t kBgpOrigin = 1;
inline constexpr uint8_t kBgpAsPath = 2;
inline constexpr uint8_t kBgpNextHop = 3;
inline constexpr uint8_t kBgpMpReachNlri = 14;
inline constexpr uint8_t kBgpMpUnreachNlri = 15;

// Subsequent address family (RFC 4760).
inline constexpr uint8_t kBgpUnicast = 1;

// The address family number (RFC 4760).
constexpr uint16_t BgpFamilyNumber(Family family) {
  return family == Family::kIpv4 ? 1 : 2;
}

struct BgpAttribute {
  uint8_t type = 0;
  absl::string_view value;
};

// Thread-compatible.
class BgpAttributeList {
 public:
  explicit BgpAttributeList(absl::string_view attributes)
      : cursor_(attributes) {}

  bool empty() const { return cursor_.empty(); }

  // Takes the next one off. Errors: INVALID_ARGUMENT if the list ends inside.
  // REQUIRES: !empty().
  absl::StatusOr<BgpAttribute> Next();

 private:
  OctetCursor cursor_;
};

// The next hop in NEXT_HOP.
// Errors: INVALID_ARGUMENT, naming the attribute.
absl::StatusOr<Address> ParseBgpNextHop(absl::string_view octets);

// The next hop in MP_REACH_NLRI: of a global and a link-local one, the global
// one (RFC 2545 section 3). Either family, whatever that of the prefixes (RFC
// 8950). Errors: INVALID_ARGUMENT, naming the attribute.
absl::StatusOr<Address> ParseMpNextHop(absl::string_view octets);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_ATTRIBUTE_LIST_H_
