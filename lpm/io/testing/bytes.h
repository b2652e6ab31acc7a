// Makes the octets that the tests read: MRT records field by field, compressed
// members. Nothing here is shared with the readers.

#ifndef PLANB_LPM_IO_TESTING_BYTES_H_
#define PLANB_LPM_IO_TESTING_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace planb::testing {

// Numbers in network byte order.
std::string U8(uint64_t value);
std::string U16(uint64_t value);
std::string U32(uint64_t value);

// An address in network byte order, from text.
std::string Packed(absl::string_view address);

// A record: header and body.
std::string Mrt(uint16_t type, uint16_t subtype, absl::string_view body);

// Subtypes of TABLE_DUMP_V2.
inline constexpr uint16_t kPeerIndexTable = 1;
inline constexpr uint16_t kRibIpv4Unicast = 2;
inline constexpr uint16_t kRibIpv4Multicast = 3;
inline constexpr uint16_t kRibIpv6Unicast = 4;
inline constexpr uint16_t kRibGeneric = 6;
inline constexpr uint16_t kRibIpv4UnicastAddPath = 8;
inline constexpr uint16_t kRibIpv6UnicastAddPath = 10;

// A TABLE_DUMP_V2 record.
std::string TableDump(uint16_t subtype, absl::string_view body);

// A peer as PEER_INDEX_TABLE has it, its AS in four octets, or in two.
std::string PeerEntry(absl::string_view address, uint32_t as_number,
                      bool narrow_as = false);

// The body of a PEER_INDEX_TABLE.
std::string PeerTableBody(const std::vector<std::string>& peers);

// A path attribute; with a two-octet length where it needs one or is told so.
std::string Attribute(uint8_t type, absl::string_view value,
                      bool extended = false);

// Common attributes.
std::string Origin(uint8_t origin);
std::string AsPath(const std::vector<uint32_t>& as_numbers);
std::string NextHop4(absl::string_view address);
std::string MpReach(absl::string_view next_hop);  // abbreviated

// An entry of a RIB record; with a path identifier if it is not negative.
std::string Entry(uint16_t peer, absl::string_view attributes,
                  int64_t path_id = -1);

// The body of a RIB record for a prefix in text.
std::string RibBody(absl::string_view prefix,
                    const std::vector<std::string>& entries);

// One member, as gzip and bzip2 write it.
std::string Gzip(absl::string_view plain);
std::string Bzip2(absl::string_view plain);

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_BYTES_H_
