// Records of what a collector heard, and when: BGP4MP and BGP4MP_ET (RFC 6396
// sections 3 and 4.4; with additional paths RFC 8050 section 3).

#ifndef PLANB_LPM_IO_BGP4MP_H_
#define PLANB_LPM_IO_BGP4MP_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/io/mrt.h"
#include "lpm/io/peer_table.h"

namespace planb {

// A view into the record it was parsed from.
struct Bgp4mpRecord {
  enum Kind {
    kMessage,
    kStateChange,
    kOther,  // a subtype that RFC 6396 calls deprecated, or a newer one
  };
  Kind kind = kOther;

  // All below: unless kOther.
  absl::Time at;  // in seconds; of BGP4MP_ET in microseconds
  Peer peer;

  // All below: of a message.
  bool local = false;             // what the collector said to the peer
  bool additional_paths = false;  // prefixes have path identifiers
  absl::string_view message;      // not parsed yet
};

// Errors: INVALID_ARGUMENT, saying where the record ends early or what is wrong
// in it. REQUIRES: its type is kMrtBgp4mp or kMrtBgp4mpEt.
absl::StatusOr<Bgp4mpRecord> ParseBgp4mp(const MrtRecord& record);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP4MP_H_
