// The peers of a collector: the PEER_INDEX_TABLE record that the paths of a
// TABLE_DUMP_V2 file refer to by index (RFC 6396 section 4.3.1).

#ifndef PLANB_LPM_IO_PEER_TABLE_H_
#define PLANB_LPM_IO_PEER_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"

namespace planb {

struct Peer {
  Address address;
  uint32_t as_number = 0;

  // "AS64500 peer 2001:db8::1".
  std::string Label() const;

  friend bool operator==(const Peer&, const Peer&) = default;
};

// Parses the body of a PEER_INDEX_TABLE record; at most 65535 peers.
// Errors: INVALID_ARGUMENT, saying where it ends early or goes on too long.
absl::StatusOr<std::vector<Peer>> ParsePeerTable(absl::string_view body);

}  // namespace planb

#endif  // PLANB_LPM_IO_PEER_TABLE_H_
