#include "lpm/io/mrt.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

struct Header {
  uint32_t timestamp = 0;
  uint16_t type = 0;
  uint16_t subtype = 0;
  uint32_t length = 0;
};

// Reads as many fields as `octets` has; the others stay 0.
Header ParseHeader(absl::string_view octets) {
  Header header;
  OctetCursor cursor(octets);
  (void)(cursor.Read(&header.timestamp) && cursor.Read(&header.type) &&
         cursor.Read(&header.subtype) && cursor.Read(&header.length));
  return header;
}

}  // namespace

bool IsMrtType(uint16_t type) {
  switch (type) {
    case 11:  // OSPFv2
    case 12:  // TABLE_DUMP
    case kMrtTableDumpV2:
    case kMrtBgp4mp:
    case kMrtBgp4mpEt:
    case 32:  // ISIS
    case 33:  // ISIS_ET
    case 48:  // OSPFv3
    case 49:  // OSPFv3_ET
      return true;
    default:
      return false;
  }
}

bool StartsLikeMrt(absl::string_view head) {
  // A record whose type is cut off is not recognized: 0 is no type of ours.
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
                                     " octets; the limit is ", kMaxMrtRecord));
    } else {
      const absl::string_view body = in_.Peek(header.length);
      if (body.size() < header.length) {
        return Cut(place, absl::StrCat("the file ends after ", body.size(),
                                       " of this record's ", header.length,
                                       " octets"));
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

}  // namespace planb
