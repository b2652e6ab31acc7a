#include "lpm/io/nlri.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/octets.h"

namespace planb {

Prefix PrefixOfOctets(absl::string_view octets, Family family, int length) {
  char packed[16] = {};
  std::copy(octets.begin(), octets.end(), packed);
  return Prefix::Truncate(
      *Address::FromPacked(
          absl::string_view(packed, static_cast<size_t>(AddressBytes(family)))),
      length);
}

absl::StatusOr<std::vector<NlriPrefix>> ParseNlri(absl::string_view octets,
                                                  Family family,
                                                  bool additional_paths) {
  OctetCursor cursor(octets);
  std::vector<NlriPrefix> prefixes;
  while (!cursor.empty()) {
    NlriPrefix& next = prefixes.emplace_back();
    uint8_t length = 0;
    absl::string_view address;
    const bool whole = (!additional_paths || cursor.Read(&next.path_id)) &&
                       cursor.Read(&length);
    if (whole && length > AddressBits(family)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an ", FamilyName(family), " prefix of length ", length));
    }
    if (!whole || !cursor.Read((length + size_t{7}) / 8, &address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a list of ", FamilyName(family),
          " prefixes ends inside the one of ordinal ", prefixes.size() - 1));
    }
    next.prefix = PrefixOfOctets(address, family, length);
  }
  return prefixes;
}

}  // namespace planb
