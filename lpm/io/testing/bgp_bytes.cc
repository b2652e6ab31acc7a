#include "lpm/io/testing/bgp_bytes.h"

#include <cstddef>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lpm/io/testing/bytes.h"

namespace planb::testing {

std::string Nlri(absl::string_view prefix, int64_t path_id) {
  const std::vector<std::string> parts = absl::StrSplit(prefix, '/');
  size_t length = 0;
  ABSL_RAW_CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &length),
                 "not a prefix");
  return absl::StrCat(path_id < 0 ? "" : U32(static_cast<uint64_t>(path_id)),
                      U8(length), Packed(parts[0]).substr(0, (length + 7) / 8));
}

std::string BgpMessage(uint8_t type, absl::string_view body) {
  return absl::StrCat(std::string(16, '\xff'), U16(19 + body.size()), U8(type),
                      body);
}

std::string Update(absl::string_view withdrawn, absl::string_view attributes,
                   absl::string_view nlri) {
  return BgpMessage(2, absl::StrCat(U16(withdrawn.size()), withdrawn,
                                    U16(attributes.size()), attributes, nlri));
}

std::string MpReachOf(uint16_t family, uint8_t subsequent,
                      absl::string_view next_hop, absl::string_view nlri) {
  return Attribute(
      14, absl::StrCat(U16(family), U8(subsequent), U8(next_hop.size()),
                       next_hop, U8(0), nlri));
}

std::string MpUnreachOf(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri) {
  return Attribute(15, absl::StrCat(U16(family), U8(subsequent), nlri));
}

std::string Announce6(absl::string_view next_hop, absl::string_view nlri) {
  return MpReachOf(2, 1, Packed(next_hop), nlri);
}

std::string Withdraw6(absl::string_view nlri) {
  return MpUnreachOf(2, 1, nlri);
}

std::string SessionBody(absl::string_view peer, uint32_t as_number,
                        absl::string_view rest, bool narrow_as) {
  const std::string address = Packed(peer);
  const auto as_octets = narrow_as ? U16 : U32;
  return absl::StrCat(as_octets(as_number), as_octets(64999), U16(0),
                      U16(address.size() == 4 ? 1 : 2), address,
                      std::string(address.size(), '\x01'), rest);
}

std::string Heard(absl::string_view peer, uint32_t as_number,
                  absl::string_view message) {
  return Mrt(16, kMessageAs4, SessionBody(peer, as_number, message));
}

std::string HeardAt(uint32_t seconds, uint32_t microseconds,
                    absl::string_view peer, uint32_t as_number,
                    absl::string_view message) {
  const std::string body =
      absl::StrCat(U32(microseconds), SessionBody(peer, as_number, message));
  return absl::StrCat(U32(seconds), U16(17), U16(kMessageAs4), U32(body.size()),
                      body);
}

}  // namespace planb::testing
