// SPDX-License-Identifier: Apache-2.0

// Reads the announced and withdrawn routes of peers, with times, from MRT files
// (RFC 6396 section 4.4), as RIPE RIS and RouteViews publish them: plain,
// gzipped or bzip2ed, told apart by content. Streams: one record at a time.
// UpdateTrace turns them into the changes of one table, for a replay.

#ifndef PLANB_LPM_IO_BGP_UPDATES_H_
#define PLANB_LPM_IO_BGP_UPDATES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

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

// The table's next hop for a prefix becomes another.
struct TraceChange {
  absl::Time at;
  Route route;  // kNoRoute: withdrawn

  friend bool operator==(const TraceChange&, const TraceChange&) = default;
};

// Takes a trace in its order. A next hop comes before the first change that
// names it, once. Errors are returned by UpdateTrace::OnUpdate.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  // What one event changed, by prefix, each prefix once; never empty.
  virtual absl::Status OnChanges(const std::vector<TraceChange>& changes) = 0;
};

// Keeps for each prefix the peers that announced it and their gateways. Of
// these it chooses the peer that appeared first in the trace, and of that
// peer's paths the one with the lowest path identifier. That is not BGP's
// decision, but it is deterministic, and changes of other peers' paths do not
// show, as in BGP.
//
// A prefix that existed before the trace is withdrawn only after the trace has
// announced it. Messages that collectors sent are skipped. Distinct gateways
// become next hops, numbered in order of appearance and labelled with the peer
// that first showed them.
//
// Memory: about 100 bytes a prefix with up to two paths, 12 a further path;
// nothing for a prefix that all peers have withdrawn. Thread-compatible.
class UpdateTrace : public UpdateSink {
 public:
  // `sink` must outlive this. REQUIRES: IsNextHop(first_next_hop_id).
  UpdateTrace(NextHopId first_next_hop_id, TraceSink& sink)
      : ids_(first_next_hop_id), sink_(sink) {}

  // O(p) a prefix of the event that p peers announced.
  // Errors: the sink's; RESOURCE_EXHAUSTED when the ids run out.
  absl::Status OnUpdate(const UpdateEvent& event) override;

  // Prefixes that have a route now.
  size_t prefixes() const { return paths_.size(); }
  size_t peers() const { return peers_.size(); }

 private:
  struct Path {
    uint32_t peer = 0;  // index, by appearance
    uint32_t path_id = 0;
    NextHopId next_hop = kNoRoute;

    bool Before(const Path& other) const {
      return peer != other.peer ? peer < other.peer : path_id < other.path_id;
    }
  };
  // In the order of Before, so the first is chosen. Never empty in the map.
  using Paths = absl::InlinedVector<Path, 2>;

  NextHopId Chosen(const Prefix& prefix) const;
  void Announce(const Prefix& prefix, const Path& path);
  void Withdraw(const Prefix& prefix, const Path& path);

  uint32_t IndexOf(const Peer& peer);
  absl::StatusOr<NextHopId> IdOf(const Address& gateway, const Peer& peer);

  absl::flat_hash_map<Prefix, Paths> paths_;
  absl::flat_hash_map<std::pair<Address, uint32_t>, uint32_t> peers_;
  GatewayIds ids_;
  TraceSink& sink_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_UPDATES_H_
