#include "lpm/io/rib_record.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/nlri.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

bool ReadEntry(OctetCursor& cursor, bool additional_paths, RibEntry* entry) {
  uint32_t originated = 0;
  uint32_t path_id = 0;
  uint16_t size = 0;
  return cursor.Read(&entry->peer) && cursor.Read(&originated) &&
         (!additional_paths || cursor.Read(&path_id)) && cursor.Read(&size) &&
         cursor.Read(size, &entry->attributes);
}

}  // namespace

absl::StatusOr<RibRecord> ParseRibRecord(absl::string_view body, Family family,
                                         bool additional_paths) {
  OctetCursor cursor(body);
  uint32_t sequence = 0;
  uint8_t length = 0;
  absl::string_view octets;
  uint16_t count = 0;
  if (!cursor.Read(&sequence) || !cursor.Read(&length)) {
    return absl::InvalidArgumentError("the RIB record ends before its prefix");
  }
  if (length > AddressBits(family)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the RIB record has an ", FamilyName(family),
                     " prefix of length ", length));
  }
  if (!cursor.Read((length + size_t{7}) / 8, &octets) || !cursor.Read(&count)) {
    return absl::InvalidArgumentError("the RIB record ends before its entries");
  }
  RibRecord record;
  record.prefix = PrefixOfOctets(octets, family, length);
  for (size_t i = 0; i < count; ++i) {
    // Not resized by `count` at once: that is only a claim.
    if (!ReadEntry(cursor, additional_paths, &record.entries.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the RIB record of ", record.prefix.ToString(),
                       " ends inside entry ", i, " of ", count));
    }
  }
  if (!cursor.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the RIB record of ", record.prefix.ToString(), " goes on for ",
        cursor.left().size(), " octets after its entries"));
  }
  return record;
}

}  // namespace planb
