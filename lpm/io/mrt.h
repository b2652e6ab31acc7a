// The framing of MRT files (RFC 6396 section 2): one record after the other,
// each with its type and length.

#ifndef PLANB_LPM_IO_MRT_H_
#define PLANB_LPM_IO_MRT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/problem_output.h"

namespace planb {

// Octets of timestamp, type, subtype and length.
inline constexpr size_t kMrtHeaderSize = 12;

// A longer record is malformed. RIB records of today's Internet have about
// 10 KiB; with every path attribute and peer at its limit they could be larger
// than any reader should hold.
inline constexpr uint32_t kMaxMrtRecord = 16 << 20;

inline constexpr uint16_t kMrtTableDumpV2 = 13;
inline constexpr uint16_t kMrtBgp4mp = 16;
inline constexpr uint16_t kMrtBgp4mpEt = 17;  // with microseconds

struct MrtRecord {
  RecordPlace place;
  uint32_t timestamp = 0;  // seconds since 1970
  uint16_t type = 0;
  uint16_t subtype = 0;
  absl::string_view body;
};

// True for the types that IANA has assigned (and RFC 6396 describes).
bool IsMrtType(uint16_t type);

// True if `head`, the start of a file, starts as an MRT record does. Six octets
// are enough to tell.
bool StartsLikeMrt(absl::string_view head);

// Thread-compatible.
class MrtReader {
 public:
  // Both must outlive this.
  MrtReader(ByteReader& in, ProblemOutput& out) : in_(in), out_(out) {}

  // Reads the next record of a known type; returns false at the end. Records of
  // unknown types and over-long ones are passed over and reported as malformed;
  // a record cut by the end of the file as truncation. `record->body` is valid
  // until the next call.
  // Errors: those of the stream save DATA_LOSS, and those of the output.
  absl::StatusOr<bool> Next(MrtRecord* record);

 private:
  // Passes over a record of `length` octets after its header; returns as Next.
  absl::StatusOr<bool> SkipMalformed(RecordPlace place, uint32_t length,
                                     absl::string_view why);
  absl::StatusOr<bool> Cut(RecordPlace place, absl::string_view what);

  ByteReader& in_;
  ProblemOutput& out_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_MRT_H_
