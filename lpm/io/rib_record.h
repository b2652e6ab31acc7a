// One record of a RIB: a prefix and what each peer said about it (RFC 6396
// section 4.3.2; with path identifiers RFC 8050 section 4).

#ifndef PLANB_LPM_IO_RIB_RECORD_H_
#define PLANB_LPM_IO_RIB_RECORD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// One entry: a path as one peer told it.
struct RibEntry {
  uint16_t peer = 0;             // index into the peer table
  absl::string_view attributes;  // not parsed yet
};

// Views into the body it was parsed from.
struct RibRecord {
  Prefix prefix;
  std::vector<RibEntry> entries;
};

// Parses the body of a RIB_IPV4_UNICAST or RIB_IPV6_UNICAST record, or of their
// forms with additional paths. Bits past the prefix length mean nothing (RFC
// 4271 section 4.3) and are cleared.
// Errors: INVALID_ARGUMENT, saying where it ends early or goes on too long.
absl::StatusOr<RibRecord> ParseRibRecord(absl::string_view body, Family family,
                                         bool additional_paths);

}  // namespace planb

#endif  // PLANB_LPM_IO_RIB_RECORD_H_
