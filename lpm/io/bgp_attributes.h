// The path attributes of a RIB entry (RFC 4271 section 4.3, as RFC 6396
// section 4.3.4 abbreviates them): those that choose and give a next hop.

#ifndef PLANB_LPM_IO_BGP_ATTRIBUTES_H_
#define PLANB_LPM_IO_BGP_ATTRIBUTES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"

namespace planb {

// RFC 4271 section 4.3; a lower one is preferred.
enum class BgpOrigin : uint8_t { kIgp = 0, kEgp = 1, kIncomplete = 2 };

// One way to a prefix.
struct BgpPath {
  // Of a global and a link-local next hop, the global one.
  Address next_hop;
  // As RFC 4271 section 9.1.2.2 counts: a set is one, confederations none.
  uint32_t as_path_length = 0;
  // kIncomplete if the attribute is absent.
  BgpOrigin origin = BgpOrigin::kIncomplete;
};

// Parses the attributes of a path to a prefix of `family`. The next hop is that
// of NEXT_HOP (IPv4 only), else of MP_REACH_NLRI, either abbreviated (length
// and address) or in full (RFC 4760), which some writers emit. AS numbers have
// four octets. The first attribute of a type counts; other types are skipped.
// Errors: INVALID_ARGUMENT, saying what is wrong with which attribute.
absl::StatusOr<BgpPath> ParseBgpPath(absl::string_view attributes,
                                     Family family);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_ATTRIBUTES_H_
