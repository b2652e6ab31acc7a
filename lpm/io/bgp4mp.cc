#include "lpm/io/bgp4mp.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

// What a subtype holds.
struct Subtype {
  Bgp4mpRecord::Kind kind = Bgp4mpRecord::kOther;
  bool four_octet_as = false;
  bool local = false;
  bool additional_paths = false;
};

Subtype SubtypeOf(uint16_t number) {
  switch (number) {
    case 0:  // BGP4MP_STATE_CHANGE
      return {Bgp4mpRecord::kStateChange, false};
    case 5:  // BGP4MP_STATE_CHANGE_AS4
      return {Bgp4mpRecord::kStateChange, true};
    case 1:  // BGP4MP_MESSAGE
      return {Bgp4mpRecord::kMessage, false, false, false};
    case 4:  // BGP4MP_MESSAGE_AS4
      return {Bgp4mpRecord::kMessage, true, false, false};
    case 6:  // BGP4MP_MESSAGE_LOCAL
      return {Bgp4mpRecord::kMessage, false, true, false};
    case 7:  // BGP4MP_MESSAGE_AS4_LOCAL
      return {Bgp4mpRecord::kMessage, true, true, false};
    case 8:  // BGP4MP_MESSAGE_ADDPATH
      return {Bgp4mpRecord::kMessage, false, false, true};
    case 9:  // BGP4MP_MESSAGE_AS4_ADDPATH
      return {Bgp4mpRecord::kMessage, true, false, true};
    case 10:  // BGP4MP_MESSAGE_LOCAL_ADDPATH
      return {Bgp4mpRecord::kMessage, false, true, true};
    case 11:  // BGP4MP_MESSAGE_AS4_LOCAL_ADDPATH
      return {Bgp4mpRecord::kMessage, true, true, true};
    default:
      return {};
  }
}

absl::Status Malformed(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the BGP4MP record ", why));
}

bool ReadAsNumber(OctetCursor& cursor, bool four_octets, uint32_t* as_number) {
  if (four_octets) return cursor.Read(as_number);
  uint16_t narrow = 0;
  if (!cursor.Read(&narrow)) return false;
  *as_number = narrow;
  return true;
}

// Both ends of the session; the local one is not kept.
absl::Status ReadSession(OctetCursor& cursor, bool four_octet_as, Peer* peer) {
  uint32_t local_as = 0;
  uint16_t interface = 0;
  uint16_t family = 0;
  absl::string_view address;
  absl::string_view local_address;
  if (!ReadAsNumber(cursor, four_octet_as, &peer->as_number) ||
      !ReadAsNumber(cursor, four_octet_as, &local_as) ||
      !cursor.Read(&interface) || !cursor.Read(&family)) {
    return Malformed("ends before its peer");
  }
  if (family != 1 && family != 2) {
    return Malformed(
        absl::StrCat("has a peer of address family ", family, ", not 1 or 2"));
  }
  const size_t size = family == 1 ? 4 : 16;
  if (!cursor.Read(size, &address) || !cursor.Read(size, &local_address)) {
    return Malformed("ends inside its peer");
  }
  peer->address = *Address::FromPacked(address);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bgp4mpRecord> ParseBgp4mp(const MrtRecord& record) {
  const Subtype subtype = SubtypeOf(record.subtype);
  Bgp4mpRecord parsed;
  if (subtype.kind == Bgp4mpRecord::kOther) return parsed;
  parsed.kind = subtype.kind;
  parsed.local = subtype.local;
  parsed.additional_paths = subtype.additional_paths;
  OctetCursor cursor(record.body);
  uint32_t microseconds = 0;
  if (record.type == kMrtBgp4mpEt) {
    if (!cursor.Read(&microseconds)) {
      return Malformed("ends inside its microseconds");
    }
    if (microseconds >= 1'000'000) {
      return Malformed(absl::StrCat("has ", microseconds, " microseconds"));
    }
  }
  parsed.at = absl::FromUnixSeconds(record.timestamp) +
              absl::Microseconds(microseconds);
  absl::Status status =
      ReadSession(cursor, subtype.four_octet_as, &parsed.peer);
  if (!status.ok()) return status;
  if (subtype.kind == Bgp4mpRecord::kMessage) {
    parsed.message = cursor.left();
  } else if (cursor.left().size() != 4) {
    return Malformed("of a state change does not end with two states");
  }
  return parsed;
}

}  // namespace planb
