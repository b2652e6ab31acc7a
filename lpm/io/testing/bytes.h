// SPDX-License-Identifier: Apache-2.0

// Makes the bytes that the tests read, field by field: MRT records, BGP
// messages, table files, compressed members. Shares no code with the readers.

#ifndef PLANB_LPM_IO_TESTING_BYTES_H_
#define PLANB_LPM_IO_TESTING_BYTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb {

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
inline constexpr uint16_t kRibGenericAddPath = 12;

// A TABLE_DUMP_V2 record.
std::string TableDump(uint16_t subtype, absl::string_view body);

// A TABLE_DUMP record: a path of a peer to a prefix in text.
std::string OldTableDump(absl::string_view prefix, absl::string_view peer,
                         uint16_t as_number, absl::string_view attributes);

// A peer of a PEER_INDEX_TABLE, with a four-byte or a two-byte AS number.
inline constexpr uint32_t kSomeBgpId = 0xc0000201;
std::string PeerEntry(absl::string_view address, uint32_t as_number,
                      bool narrow_as = false, uint32_t bgp_id = kSomeBgpId);

// The body of a PEER_INDEX_TABLE.
std::string PeerTableBody(const std::vector<std::string>& peers);

// A path attribute, with a two-byte length if it needs one or if `extended`.
std::string Attribute(uint8_t type, absl::string_view value,
                      bool extended = false);

// Common attributes.
std::string Origin(uint8_t origin);
std::string AsPath(const std::vector<uint32_t>& as_numbers);
std::string NextHop4(absl::string_view address);
std::string MpReach(absl::string_view next_hop);  // abbreviated
std::string Med(uint32_t value);
std::string LocalPref(uint32_t value);

// An entry of a RIB record; with a path identifier if it is not negative.
std::string Entry(uint16_t peer, absl::string_view attributes,
                  int64_t path_id = -1);

// The body of a RIB_GENERIC record, of which `nlri` is the prefix.
std::string GenericBody(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri,
                        const std::vector<std::string>& entries);

// The body of a RIB record for a prefix in text.
std::string RibBody(absl::string_view prefix,
                    const std::vector<std::string>& entries);

// One compressed member, and what is not compressed.
inline std::string Plain(absl::string_view plain) { return std::string(plain); }
std::string Gzip(absl::string_view plain);
std::string Bzip2(absl::string_view plain);
std::string Xz(absl::string_view plain);
std::string Zstd(absl::string_view plain);
// In blocks of `block` bytes, if these are fewer than zstd's.
std::string ZstdBlocks(absl::string_view plain, size_t block);

// "2001:db8::/32" as BGP writes it; with a path identifier if it is not
// negative.
std::string Nlri(absl::string_view prefix, int64_t path_id = -1);

// A message with its header.
std::string BgpMessage(uint8_t type, absl::string_view body);

// An UPDATE.
std::string Update(absl::string_view withdrawn, absl::string_view attributes,
                   absl::string_view nlri);

// MP_REACH_NLRI in full, for the family number and subsequent family given.
// `next_hop` is bytes.
std::string MpReachOf(uint16_t family, uint8_t subsequent,
                      absl::string_view next_hop, absl::string_view nlri);
std::string MpUnreachOf(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri);

// The same for IPv6 unicast.
std::string Announce6(absl::string_view next_hop, absl::string_view nlri);
std::string Withdraw6(absl::string_view nlri);

// Subtypes of BGP4MP.
inline constexpr uint16_t kMessage = 1;
inline constexpr uint16_t kMessageAs4 = 4;
inline constexpr uint16_t kStateChangeAs4 = 5;
inline constexpr uint16_t kMessageAs4Local = 7;
inline constexpr uint16_t kMessageAs4AddPath = 9;
inline constexpr uint16_t kMessageLocalAddPath = 10;

// The body of a BGP4MP record: a session with a peer, then `rest`.
std::string SessionBody(absl::string_view peer, uint32_t as_number,
                        absl::string_view rest, bool narrow_as = false);

// A record of type BGP4MP, subtype kMessageAs4.
std::string Heard(absl::string_view peer, uint32_t as_number,
                  absl::string_view message);

// The same of type BGP4MP_ET.
std::string HeardAt(uint32_t seconds, uint32_t microseconds,
                    absl::string_view peer, uint32_t as_number,
                    absl::string_view message);

// Numbers, least significant byte first.
std::string Little16(uint64_t value);
std::string Little32(uint64_t value);
std::string Little64(uint64_t value);

// A file of blocks, each a type and a payload, with valid checksums. If the
// last is an end block of 32 bytes, the checksum of the file is appended to it.
std::string TableFileOf(
    const std::vector<std::pair<uint32_t, std::string>>& blocks,
    uint32_t version = 1);

// `bytes` with every checksum corrected that its lengths lead to.
std::string RepairTableFile(std::string bytes);

// The contents of a table file.
struct TableContents {
  TableFileHeader header;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<Route> routes;

  friend bool operator==(const TableContents&, const TableContents&) = default;
};

// Has a next hop, a group and a route of each kind.
TableContents SmallTable();

}  // namespace planb

#endif  // PLANB_LPM_IO_TESTING_BYTES_H_
