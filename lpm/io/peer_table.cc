#include "lpm/io/peer_table.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

// Bits of a peer's type.
constexpr uint8_t kIpv6Peer = 1;
constexpr uint8_t kFourOctetAs = 2;

bool ReadAsNumber(OctetCursor& cursor, uint8_t type, uint32_t* as_number) {
  if ((type & kFourOctetAs) != 0) return cursor.Read(as_number);
  uint16_t narrow = 0;
  if (!cursor.Read(&narrow)) return false;
  *as_number = narrow;
  return true;
}

bool ReadPeer(OctetCursor& cursor, Peer* peer) {
  uint8_t type = 0;
  uint32_t bgp_id = 0;
  absl::string_view address;
  if (!cursor.Read(&type) || !cursor.Read(&bgp_id) ||
      !cursor.Read((type & kIpv6Peer) != 0 ? 16 : 4, &address) ||
      !ReadAsNumber(cursor, type, &peer->as_number)) {
    return false;
  }
  // Of one of the two sizes there are.
  peer->address = *Address::FromPacked(address);
  return true;
}

absl::Status Malformed(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("PEER_INDEX_TABLE ", why));
}

}  // namespace

std::string Peer::Label() const {
  return absl::StrCat("AS", as_number, " peer ", address.ToString());
}

absl::StatusOr<std::vector<Peer>> ParsePeerTable(absl::string_view body) {
  OctetCursor cursor(body);
  uint32_t collector = 0;
  uint16_t name_size = 0;
  absl::string_view name;
  uint16_t count = 0;
  if (!cursor.Read(&collector) || !cursor.Read(&name_size) ||
      !cursor.Read(name_size, &name) || !cursor.Read(&count)) {
    return Malformed("ends before its peers");
  }
  std::vector<Peer> peers;
  for (size_t i = 0; i < count; ++i) {
    // Not resized by `count` at once: that is only a claim.
    if (!ReadPeer(cursor, &peers.emplace_back())) {
      return Malformed(absl::StrCat("ends inside peer ", i, " of ", count));
    }
  }
  if (!cursor.empty()) {
    return Malformed(absl::StrCat("goes on for ", cursor.left().size(),
                                  " octets after its peers"));
  }
  return peers;
}

}  // namespace planb
