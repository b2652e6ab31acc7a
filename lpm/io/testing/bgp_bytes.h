// Makes BGP messages and the MRT records around them, field by field. Nothing
// here is shared with the readers.

#ifndef PLANB_LPM_IO_TESTING_BGP_BYTES_H_
#define PLANB_LPM_IO_TESTING_BGP_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace planb::testing {

// "2001:db8::/32" as BGP writes it; with a path identifier if it is not
// negative.
std::string Nlri(absl::string_view prefix, int64_t path_id = -1);

// A message with its header.
std::string BgpMessage(uint8_t type, absl::string_view body);

// An UPDATE.
std::string Update(absl::string_view withdrawn, absl::string_view attributes,
                   absl::string_view nlri);

// MP_REACH_NLRI in full, for the family number and subsequent family given.
// `next_hop` is octets.
std::string MpReachOf(uint16_t family, uint8_t subsequent,
                      absl::string_view next_hop, absl::string_view nlri);
std::string MpUnreachOf(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri);

// Of IPv6 unicast.
std::string Announce6(absl::string_view next_hop, absl::string_view nlri);
std::string Withdraw6(absl::string_view nlri);

// Subtypes of BGP4MP.
inline constexpr uint16_t kStateChange = 0;
inline constexpr uint16_t kMessage = 1;
inline constexpr uint16_t kMessageAs4 = 4;
inline constexpr uint16_t kStateChangeAs4 = 5;
inline constexpr uint16_t kMessageLocal = 6;
inline constexpr uint16_t kMessageAs4Local = 7;
inline constexpr uint16_t kMessageAddPath = 8;
inline constexpr uint16_t kMessageAs4AddPath = 9;
inline constexpr uint16_t kMessageLocalAddPath = 10;
inline constexpr uint16_t kMessageAs4LocalAddPath = 11;

// The body of a BGP4MP record: a session with a peer, then what follows.
std::string SessionBody(absl::string_view peer, uint32_t as_number,
                        absl::string_view rest, bool narrow_as = false);

// A record of type BGP4MP, subtype kMessageAs4.
std::string Heard(absl::string_view peer, uint32_t as_number,
                  absl::string_view message);

// The same of type BGP4MP_ET.
std::string HeardAt(uint32_t seconds, uint32_t microseconds,
                    absl::string_view peer, uint32_t as_number,
                    absl::string_view message);

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_BGP_BYTES_H_
