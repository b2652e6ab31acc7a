// SPDX-License-Identifier: Apache-2.0

// MRT files (RFC 6396): the framing of their records, and the contents of the
// types of records that hold routes.

#ifndef PLANB_LPM_IO_MRT_H_
#define PLANB_LPM_IO_MRT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/address.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {

// Bytes of timestamp, type, subtype and length.
inline constexpr size_t kMrtHeaderSize = 12;

// A longer record is malformed. RIB records of the Internet have about 10 KiB;
// the format would allow records larger than any reader should hold.
inline constexpr uint32_t kMaxMrtRecord = 16 << 20;

inline constexpr uint16_t kMrtTableDump = 12;
inline constexpr uint16_t kMrtTableDumpV2 = 13;
inline constexpr uint16_t kMrtBgp4mp = 16;
inline constexpr uint16_t kMrtBgp4mpEt = 17;  // with microseconds

struct MrtRecord {
  RecordPlace place;
  uint32_t timestamp = 0;  // seconds since 1970
  uint16_t type = 0;
  uint16_t subtype = 0;
  absl::string_view body;
};

// What records of the type hold, such as "BGP4MP"; "MRT type 99" if it has no
// name here.
std::string MrtTypeName(uint16_t type);

// True if `head`, the start of a file, is the start of an MRT record. Needs six
// bytes.
bool StartsLikeMrt(absl::string_view head);

// Reads the records of a stream. Thread-compatible.
class MrtReader {
 public:
  // Both must outlive this.
  MrtReader(ByteReader& in, ProblemOutput& out) : in_(in), out_(out) {}

  // Reads the next record of a known type; returns false at the end. Records of
  // unknown types and too long ones are skipped and reported as malformed; a
  // record cut by the end of the file is reported as truncation. `record->body`
  // is valid until the next call. Errors: those of the stream save DATA_LOSS,
  // and those of the output.
  absl::StatusOr<bool> Next(MrtRecord* record);

 private:
  // Skips a record of `length` bytes after its header; returns as Next.
  absl::StatusOr<bool> SkipMalformed(RecordPlace place, uint32_t length,
                                     absl::string_view why);
  absl::StatusOr<bool> Cut(RecordPlace place, absl::string_view what);

  ByteReader& in_;
  ProblemOutput& out_;
};

// A peer of a collector.
struct Peer {
  Address address;
  uint32_t as_number = 0;
  uint32_t bgp_id = 0;  // only known from a PEER_INDEX_TABLE
  // The collector's index of the interface; only known from BGP4MP.
  uint16_t interface = 0;

  // "AS64500 peer 2001:db8::1". A link-local address names a peer only together
  // with what else is known of it: "AS64500 peer fe80::1 router 192.0.2.1",
  // "AS64500 peer fe80::1 interface 3".
  std::string Label() const;

  friend bool operator==(const Peer&, const Peer&) = default;
};

// The label of the next hop of a path of the peer with that label. It says so
// if the path has no gateway: "no gateway, AS64500 peer 2001:db8::1".
std::string PathLabel(const std::optional<Address>& gateway,
                      absl::string_view peer_label);

// The address of the peer that announces all routes of the next hop, if it can
// be told: if the label names a peer and means it, as a PathLabel without
// a gateway or with a link-local one, or if the gateway is that peer.
std::optional<Address> PeerOf(const NextHop& next_hop);

// Parses the body of a PEER_INDEX_TABLE record (RFC 6396 section 4.3.1), which
// the paths of a TABLE_DUMP_V2 file refer to by index. At most 65535 peers.
// Errors: INVALID_ARGUMENT, with the place where it ends early or goes on.
absl::StatusOr<std::vector<Peer>> ParsePeerTable(absl::string_view body);

// A path to the prefix, as announced by one peer.
struct RibEntry {
  uint16_t peer = 0;             // index into the peer table
  uint32_t path_id = 0;          // 0 without additional paths
  absl::string_view attributes;  // not parsed yet
};

// A prefix and the paths to it (RFC 6396 section 4.3.2; with path identifiers,
// RFC 8050 section 4). Refers to the parsed body.
struct RibRecord {
  Prefix prefix;
  std::vector<RibEntry> entries;
};

// Parses the body of a RIB_IPV4_UNICAST or RIB_IPV6_UNICAST record, or of their
// forms with additional paths. Bits past the prefix length have no meaning (RFC
// 4271 section 4.3) and are cleared.
// Errors: INVALID_ARGUMENT, with the place where it ends early or goes on.
absl::StatusOr<RibRecord> ParseRibRecord(absl::string_view body, Family family,
                                         bool additional_paths);

// Parses the body of a RIB_GENERIC record (RFC 6396 section 4.3.3), or of its
// form with additional paths; nothing if it is not IPv4 or IPv6 unicast. The
// path identifier is in the prefix, as in RFC 8050 section 4, or else in the
// entries, as GoBGP and OpenBGPD write it: the form that fits.
// Errors: INVALID_ARGUMENT, with the place where it ends early or goes on.
absl::StatusOr<std::optional<RibRecord>> ParseRibGeneric(absl::string_view body,
                                                         bool additional_paths);

// A path of a TABLE_DUMP record (RFC 6396 section 4.2). Refers to the parsed
// body.
struct TableDumpRecord {
  Prefix prefix;
  Peer peer;
  absl::string_view attributes;  // not parsed yet; AS numbers of two bytes
};

// Parses the body of a TABLE_DUMP record of subtype AFI_IPv4 or AFI_IPv6.
// Errors: INVALID_ARGUMENT, with the place where it ends early or goes on.
absl::StatusOr<TableDumpRecord> ParseTableDump(absl::string_view body,
                                               Family family);

// A message that a collector received or sent, and when: BGP4MP and BGP4MP_ET
// (RFC 6396 sections 3 and 4.4; with additional paths, RFC 8050 section 3).
// Refers to the parsed record.
struct Bgp4mpRecord {
  enum Kind {
    kMessage,
    kStateChange,
    kOther,  // a subtype that RFC 6396 calls deprecated, or a newer one
  };
  Kind kind = kOther;

  // Not set for kOther. The time is in seconds, of BGP4MP_ET in microseconds.
  absl::Time at;
  Peer peer;

  // Only set for kMessage.
  bool local = false;             // sent by the collector, not received
  bool additional_paths = false;  // prefixes have path identifiers
  absl::string_view message;      // not parsed yet
};

// Errors: INVALID_ARGUMENT, naming the place where the record ends early or its
// defect. REQUIRES: its type is kMrtBgp4mp or kMrtBgp4mpEt.
absl::StatusOr<Bgp4mpRecord> ParseBgp4mp(const MrtRecord& record);

}  // namespace planb

#endif  // PLANB_LPM_IO_MRT_H_
