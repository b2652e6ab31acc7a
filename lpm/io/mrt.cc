// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/mrt.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"

namespace planb {
namespace {

struct Header {
  uint32_t timestamp = 0;
  uint16_t type = 0;
  uint16_t subtype = 0;
  uint32_t length = 0;
};

// Reads as many fields as `bytes` has; the others stay 0.
Header ParseHeader(absl::string_view bytes) {
  Header header;
  ByteCursor cursor(bytes);
  (void)(cursor.Read(&header.timestamp) && cursor.Read(&header.type) &&
         cursor.Read(&header.subtype) && cursor.Read(&header.length));
  return header;
}

// What records of the type hold. Empty unless IANA has assigned the type and
// RFC 6396 describes it.
absl::string_view NameOf(uint16_t type) {
  switch (type) {
    case 11:
      return "OSPFv2";
    case kMrtTableDump:
      return "TABLE_DUMP";
    case kMrtTableDumpV2:
      return "TABLE_DUMP_V2";
    case kMrtBgp4mp:
    case kMrtBgp4mpEt:
      return "BGP4MP";
    case 32:
    case 33:  // ISIS_ET
      return "ISIS";
    case 48:
    case 49:  // OSPFv3_ET
      return "OSPFv3";
    default:
      return "";
  }
}

bool IsMrtType(uint16_t type) { return !NameOf(type).empty(); }

}  // namespace

std::string MrtTypeName(uint16_t type) {
  const absl::string_view name = NameOf(type);
  return name.empty() ? absl::StrCat("MRT type ", type) : std::string(name);
}

bool StartsLikeMrt(absl::string_view head) {
  // A record that is cut before its type is not recognized: its type reads as
  // 0.
  const Header header = ParseHeader(head);
  return IsMrtType(header.type) && header.length <= kMaxMrtRecord;
}

absl::StatusOr<bool> MrtReader::Next(MrtRecord* record) {
  for (;;) {
    const RecordPlace place{in_.offset(), 0};
    const absl::string_view ahead = in_.Peek(kMrtHeaderSize);
    if (ahead.size() < kMrtHeaderSize) {
      return Cut(place, ahead.empty() ? "" : "the file ends inside a header");
    }
    const Header header = ParseHeader(ahead);
    in_.Consume(kMrtHeaderSize);
    absl::StatusOr<bool> skipped = true;
    if (!IsMrtType(header.type)) {
      skipped = SkipMalformed(
          place, header.length,
          absl::StrCat(header.type, " is not an MRT record type"));
    } else if (header.length > kMaxMrtRecord) {
      skipped =
          SkipMalformed(place, header.length,
                        absl::StrCat("a record of ", header.length,
                                     " bytes; the limit is ", kMaxMrtRecord));
    } else {
      const absl::string_view body = in_.Peek(header.length);
      if (body.size() < header.length) {
        return Cut(place,
                   absl::StrCat("the file ends after ", body.size(),
                                " of this record's ", header.length, " bytes"));
      }
      in_.Consume(header.length);
      *record = {place, header.timestamp, header.type, header.subtype,
                 body.substr(0, header.length)};
      return true;
    }
    if (!skipped.ok() || !*skipped) return skipped;
  }
}

absl::StatusOr<bool> MrtReader::SkipMalformed(RecordPlace place,
                                              uint32_t length,
                                              absl::string_view why) {
  absl::Status status = out_.OnMalformed(place, why);
  if (!status.ok()) return status;
  if (in_.Skip(length)) return true;
  return Cut(place, "the file ends inside this record");
}

absl::StatusOr<bool> MrtReader::Cut(RecordPlace place, absl::string_view what) {
  absl::Status status = out_.OnEnd(place, in_.status(), what);
  if (!status.ok()) return status;
  return false;
}

namespace {

// Parts of labels.
constexpr absl::string_view kNoGateway = "no gateway, ";
constexpr absl::string_view kPeer = " peer ";

// Bits of a peer's type.
constexpr uint8_t kIpv6Peer = 1;
constexpr uint8_t kFourByteAs = 2;

bool ReadAsNumber(ByteCursor& cursor, bool four_bytes, uint32_t* as_number) {
  if (four_bytes) return cursor.Read(as_number);
  uint16_t narrow = 0;
  if (!cursor.Read(&narrow)) return false;
  *as_number = narrow;
  return true;
}

bool ReadPeer(ByteCursor& cursor, Peer* peer) {
  uint8_t type = 0;
  absl::string_view address;
  if (!cursor.Read(&type) || !cursor.Read(&peer->bgp_id) ||
      !cursor.Read((type & kIpv6Peer) != 0 ? 16 : 4, &address) ||
      !ReadAsNumber(cursor, (type & kFourByteAs) != 0, &peer->as_number)) {
    return false;
  }
  // Cannot fail: the size is 4 or 16.
  peer->address = *Address::FromPacked(address);
  return true;
}

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", why));
}

}  // namespace

std::string Peer::Label() const {
  std::string label = absl::StrCat("AS", as_number, kPeer, address.ToString());
  if (NamesNeighbor({.gateway = address})) return label;
  if (bgp_id != 0) {
    absl::StrAppend(&label, " router ", Address::V4(bgp_id).ToString());
  }
  if (interface != 0) absl::StrAppend(&label, " interface ", interface);
  return label;
}

std::string PathLabel(const std::optional<Address>& gateway,
                      absl::string_view peer_label) {
  return absl::StrCat(gateway ? "" : kNoGateway, peer_label);
}

std::optional<Address> PeerOf(const NextHop& next_hop) {
  absl::string_view label = next_hop.label;
  absl::ConsumePrefix(&label, kNoGateway);
  const size_t peer = label.find(kPeer);
  if (!absl::StartsWith(label, "AS") || peer == label.npos) return std::nullopt;
  label.remove_prefix(peer + kPeer.size());
  const absl::StatusOr<Address> address =
      Address::Parse(label.substr(0, label.find(' ')));
  if (!address.ok()) return std::nullopt;
  // Of a gateway that several peers announce, the label names one.
  if (NamesNeighbor(next_hop) && next_hop.gateway != *address) {
    return std::nullopt;
  }
  return *address;
}

absl::StatusOr<std::vector<Peer>> ParsePeerTable(absl::string_view body) {
  ByteCursor cursor(body);
  uint32_t collector = 0;
  uint16_t name_size = 0;
  absl::string_view name;
  uint16_t count = 0;
  if (!cursor.Read(&collector) || !cursor.Read(&name_size) ||
      !cursor.Read(name_size, &name) || !cursor.Read(&count)) {
    return Malformed("PEER_INDEX_TABLE", "ends before its peers");
  }
  std::vector<Peer> peers;
  for (size_t i = 0; i < count; ++i) {
    // Grows as it reads: `count` may be more than the file has.
    if (!ReadPeer(cursor, &peers.emplace_back())) {
      return Malformed("PEER_INDEX_TABLE",
                       absl::StrCat("ends inside peer ", i, " of ", count));
    }
  }
  if (!cursor.empty()) {
    return Malformed("PEER_INDEX_TABLE",
                     absl::StrCat("goes on for ", cursor.left().size(),
                                  " bytes after its peers"));
  }
  return peers;
}

namespace {

// Where a record has path identifiers.
enum class PathIds { kNone, kInPrefix, kInEntries };

bool ReadEntry(ByteCursor& cursor, PathIds path_ids, RibEntry* entry) {
  uint32_t originated = 0;
  uint16_t size = 0;
  return cursor.Read(&entry->peer) && cursor.Read(&originated) &&
         (path_ids != PathIds::kInEntries || cursor.Read(&entry->path_id)) &&
         cursor.Read(&size) && cursor.Read(size, &entry->attributes);
}

// Parses the part of a RIB record from its prefix on.
absl::StatusOr<RibRecord> ParseRib(ByteCursor cursor, Family family,
                                   PathIds path_ids) {
  uint32_t path_id = 0;
  uint8_t length = 0;
  absl::string_view bytes;
  uint16_t count = 0;
  if ((path_ids == PathIds::kInPrefix && !cursor.Read(&path_id)) ||
      !cursor.Read(&length)) {
    return absl::InvalidArgumentError("the RIB record ends before its prefix");
  }
  if (length > AddressBits(family)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the RIB record has an ", FamilyName(family),
                     " prefix of length ", length));
  }
  if (!cursor.Read((length + size_t{7}) / 8, &bytes) || !cursor.Read(&count)) {
    return absl::InvalidArgumentError("the RIB record ends before its entries");
  }
  RibRecord record;
  record.prefix = PrefixOfBytes(bytes, family, length);
  for (size_t i = 0; i < count; ++i) {
    // Grows as it reads: `count` may be more than the file has.
    RibEntry& entry = record.entries.emplace_back();
    entry.path_id = path_id;
    if (!ReadEntry(cursor, path_ids, &entry)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the RIB record of ", record.prefix.ToString(),
                       " ends inside entry ", i, " of ", count));
    }
  }
  if (!cursor.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the RIB record of ", record.prefix.ToString(), " goes on for ",
        cursor.left().size(), " bytes after its entries"));
  }
  return record;
}

}  // namespace

absl::StatusOr<RibRecord> ParseRibRecord(absl::string_view body, Family family,
                                         bool additional_paths) {
  ByteCursor cursor(body);
  uint32_t sequence = 0;
  if (!cursor.Read(&sequence)) {
    return absl::InvalidArgumentError("the RIB record ends before its prefix");
  }
  return ParseRib(cursor, family,
                  additional_paths ? PathIds::kInEntries : PathIds::kNone);
}

absl::StatusOr<std::optional<RibRecord>> ParseRibGeneric(
    absl::string_view body, bool additional_paths) {
  ByteCursor cursor(body);
  uint32_t sequence = 0;
  uint16_t number = 0;
  uint8_t subsequent = 0;
  if (!cursor.Read(&sequence) || !cursor.Read(&number) ||
      !cursor.Read(&subsequent)) {
    return absl::InvalidArgumentError("the RIB record ends before its prefix");
  }
  const std::optional<Family> family = UnicastFamily(number, subsequent);
  if (!family) return std::nullopt;
  absl::StatusOr<RibRecord> record = ParseRib(
      cursor, *family, additional_paths ? PathIds::kInPrefix : PathIds::kNone);
  if (!record.ok() && additional_paths) {
    record = ParseRib(cursor, *family, PathIds::kInEntries);
  }
  if (!record.ok()) return record.status();
  return *std::move(record);
}

absl::StatusOr<TableDumpRecord> ParseTableDump(absl::string_view body,
                                               Family family) {
  ByteCursor cursor(body);
  const auto address_bytes = static_cast<size_t>(AddressBytes(family));
  uint32_t view_and_sequence = 0;
  absl::string_view prefix;
  uint8_t length = 0;
  uint8_t status = 0;
  uint32_t originated = 0;
  absl::string_view peer;
  uint16_t size = 0;
  TableDumpRecord record;
  if (!cursor.Read(&view_and_sequence) ||
      !cursor.Read(address_bytes, &prefix) || !cursor.Read(&length) ||
      !cursor.Read(&status) || !cursor.Read(&originated) ||
      !cursor.Read(address_bytes, &peer) ||
      !ReadAsNumber(cursor, /*four_bytes=*/false, &record.peer.as_number) ||
      !cursor.Read(&size)) {
    return Malformed("the TABLE_DUMP record", "ends before its attributes");
  }
  if (length > AddressBits(family)) {
    return Malformed("the TABLE_DUMP record",
                     absl::StrCat("has an ", FamilyName(family),
                                  " prefix of length ", length));
  }
  if (!cursor.Read(size, &record.attributes)) {
    return Malformed("the TABLE_DUMP record", "ends inside its attributes");
  }
  if (!cursor.empty()) {
    return Malformed("the TABLE_DUMP record",
                     absl::StrCat("goes on for ", cursor.left().size(),
                                  " bytes after its attributes"));
  }
  record.prefix = Prefix::Truncate(*Address::FromPacked(prefix), length);
  record.peer.address = *Address::FromPacked(peer);
  return record;
}

namespace {

// The contents of a subtype of BGP4MP, by its number.
struct Subtype {
  Bgp4mpRecord::Kind kind = Bgp4mpRecord::kOther;
  bool four_byte_as = false;
  bool local = false;
  bool additional_paths = false;
};

constexpr Subtype kSubtypes[] = {
    {Bgp4mpRecord::kStateChange},                  // STATE_CHANGE
    {Bgp4mpRecord::kMessage},                      // MESSAGE
    {},                                            // deprecated
    {},                                            // deprecated
    {Bgp4mpRecord::kMessage, true},                // MESSAGE_AS4
    {Bgp4mpRecord::kStateChange, true},            // STATE_CHANGE_AS4
    {Bgp4mpRecord::kMessage, false, true},         // MESSAGE_LOCAL
    {Bgp4mpRecord::kMessage, true, true},          // MESSAGE_AS4_LOCAL
    {Bgp4mpRecord::kMessage, false, false, true},  // MESSAGE_ADDPATH
    {Bgp4mpRecord::kMessage, true, false, true},   // ..._AS4_ADDPATH
    {Bgp4mpRecord::kMessage, false, true, true},   // ..._LOCAL_ADDPATH
    {Bgp4mpRecord::kMessage, true, true, true},    // ..._AS4_LOCAL_ADDPATH
};

// Reads both ends of the session; only returns the peer. The interface counts
// where the address is link-local.
absl::Status ReadSession(ByteCursor& cursor, bool four_byte_as, Peer* peer) {
  uint32_t local_as = 0;
  uint16_t family = 0;
  absl::string_view address;
  absl::string_view local_address;
  if (!ReadAsNumber(cursor, four_byte_as, &peer->as_number) ||
      !ReadAsNumber(cursor, four_byte_as, &local_as) ||
      !cursor.Read(&peer->interface) || !cursor.Read(&family)) {
    return Malformed("the BGP4MP record", "ends before its peer");
  }
  if (family != 1 && family != 2) {
    return Malformed(
        "the BGP4MP record",
        absl::StrCat("has a peer of address family ", family, ", not 1 or 2"));
  }
  const size_t size = family == 1 ? 4 : 16;
  if (!cursor.Read(size, &address) || !cursor.Read(size, &local_address)) {
    return Malformed("the BGP4MP record", "ends inside its peer");
  }
  peer->address = *Address::FromPacked(address);
  if (NamesNeighbor({.gateway = peer->address})) peer->interface = 0;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bgp4mpRecord> ParseBgp4mp(const MrtRecord& record) {
  const Subtype subtype = record.subtype < std::size(kSubtypes)
                              ? kSubtypes[record.subtype]
                              : Subtype{};
  Bgp4mpRecord parsed;
  if (subtype.kind == Bgp4mpRecord::kOther) return parsed;
  parsed.kind = subtype.kind;
  parsed.local = subtype.local;
  parsed.additional_paths = subtype.additional_paths;
  ByteCursor cursor(record.body);
  uint32_t microseconds = 0;
  if (record.type == kMrtBgp4mpEt) {
    if (!cursor.Read(&microseconds)) {
      return Malformed("the BGP4MP record", "ends inside its microseconds");
    }
    if (microseconds >= 1'000'000) {
      return Malformed("the BGP4MP record",
                       absl::StrCat("has ", microseconds, " microseconds"));
    }
  }
  parsed.at = absl::FromUnixSeconds(record.timestamp) +
              absl::Microseconds(microseconds);
  absl::Status status = ReadSession(cursor, subtype.four_byte_as, &parsed.peer);
  if (!status.ok()) return status;
  if (subtype.kind == Bgp4mpRecord::kMessage) {
    parsed.message = cursor.left();
  } else if (cursor.left().size() != 4) {
    return Malformed("the BGP4MP record",
                     "of a state change does not end with two states");
  }
  return parsed;
}

}  // namespace planb
