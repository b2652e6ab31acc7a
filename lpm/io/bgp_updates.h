// SPDX-License-Identifier: Apache-2.0

// Reads the announced and withdrawn routes of peers, with times, from MRT files
// (RFC 6396 section 4.4), as RIPE RIS and RouteViews publish them: plain,
// gzipped or bzip2ed, told apart by content. Streams: one record at a time.

#ifndef PLANB_LPM_IO_BGP_UPDATES_H_
#define PLANB_LPM_IO_BGP_UPDATES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_sink.h"

namespace planb {

// One UPDATE of a peer.
struct UpdateEvent {
  absl::Time at;
  Peer peer;
  // Sent by the collector to the peer, not heard from it.
  bool local = false;
  BgpUpdate update;  // never empty
};

// Takes events in the order of the file, which need not be that of time. An
// error ends the reading and is returned by it.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual absl::Status OnUpdate(const UpdateEvent& event) = 0;
};

struct BgpUpdatesOptions {
  // Treat the first malformed record, or a truncated file, as an error instead
  // of counting it.
  bool strict = false;
};

// `ignored` counts records of other types, messages that are no UPDATE, and
// UPDATEs that change no unicast route.
struct BgpUpdatesReport : RecordReport {
  uint64_t updates = 0;        // handed to the sink
  uint64_t announced = 0;      // prefixes in them
  uint64_t withdrawn = 0;      // prefixes in them
  uint64_t state_changes = 0;  // of sessions; passed over
};

// Reads the file at `path` (which may be a pipe): messages of types BGP4MP and
// BGP4MP_ET, with AS numbers of two or four bytes, heard or said, with or
// without additional paths; unicast of both families. A malformed record is
// skipped as a whole and counted. A session that goes down withdraws nothing
// here: most collectors record it as a state change only.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE for the file itself;
// INVALID_ARGUMENT if it is no MRT file; DATA_LOSS for a malformed record or a
// truncated file with `strict`; the errors of the sink. The sink keeps the
// events that it was given before the error.
absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    const std::string& path, const BgpUpdatesOptions& options,
    UpdateSink& sink);

// The same for a stream that is already open; `name` is for messages.
absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    absl::string_view name, std::unique_ptr<ByteSource> source,
    const BgpUpdatesOptions& options, UpdateSink& sink);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_UPDATES_H_
