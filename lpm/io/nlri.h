// Prefixes as BGP writes them: the length in bits, then as many octets as it
// takes (RFC 4271 section 4.3, RFC 4760 section 5); before them a path
// identifier where additional paths are in use (RFC 7911 section 3).

#ifndef PLANB_LPM_IO_NLRI_H_
#define PLANB_LPM_IO_NLRI_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

struct NlriPrefix {
  Prefix prefix;
  uint32_t path_id = 0;  // 0 without additional paths

  friend bool operator==(const NlriPrefix&, const NlriPrefix&) = default;
};

// The prefix of `length` bits whose first octets are given; bits past the
// length mean nothing and are cleared.
// REQUIRES: length <= AddressBits(family); octets enough for it and no more.
Prefix PrefixOfOctets(absl::string_view octets, Family family, int length);

// Parses a list of prefixes, to its end.
// Errors: INVALID_ARGUMENT, saying what is wrong with the list.
absl::StatusOr<std::vector<NlriPrefix>> ParseNlri(absl::string_view octets,
                                                  Family family,
                                                  bool additional_paths);

}  // namespace planb

#endif  // PLANB_LPM_IO_NLRI_H_
