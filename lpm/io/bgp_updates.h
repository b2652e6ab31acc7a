// SPDX-License-Identifier: Apache-2.0

// Reads the announced and withdrawn routes of peers, with times, from MRT files
// (RFC 6396 section 4.4) such as those of RIPE RIS and RouteViews. Files may be
// plain or compressed; the content decides. Memory: one record.
// UpdateTrace turns the updates into changes of one table, for a replay.

#ifndef PLANB_LPM_IO_BGP_UPDATES_H_
#define PLANB_LPM_IO_BGP_UPDATES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
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
  // True if the collector sent it to the peer, false if it received it.
  bool local = false;
  BgpUpdate update;  // never empty
};

// Receives events in the order of the file, which need not be that of time. An
// error of the sink ends the reading, which returns it.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual absl::Status OnUpdate(const UpdateEvent& event) = 0;
};

struct BgpUpdatesOptions {
  // The first malformed record, or a truncated file, is an error instead of
  // being counted.
  bool strict = false;
};

// `ignored` counts records of other types, messages that are no UPDATE, and
// UPDATEs that change no unicast route.
struct BgpUpdatesReport : RecordReport {
  uint64_t updates = 0;        // delivered to the sink
  uint64_t announced = 0;      // prefixes in them
  uint64_t withdrawn = 0;      // prefixes in them
  uint64_t state_changes = 0;  // of sessions; skipped
};

// Reads the file at `path`, which may be a pipe: messages of types BGP4MP and
// BGP4MP_ET, received or sent, with AS numbers of two or four bytes, with or
// without additional paths; unicast of both families. A malformed record is
// skipped as a whole and counted. The end of a session withdraws nothing: most
// collectors record it as a state change only.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE for the file itself;
// INVALID_ARGUMENT if it is no MRT file, or has only records of other types,
// such as those of a table dump, naming these; DATA_LOSS for a malformed record
// or a truncated file with `strict`; the errors of the sink. Before an error
// the sink may have received events.
absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    const std::string& path, const BgpUpdatesOptions& options,
    UpdateSink& sink);

// The same for a stream that is already open; `name` is for messages.
absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    absl::string_view name, std::unique_ptr<ByteSource> source,
    const BgpUpdatesOptions& options, UpdateSink& sink);

// A prefix gets another next hop, or none.
struct TraceChange {
  absl::Time at;
  Route route;  // kNoRoute: withdrawn

  friend bool operator==(const TraceChange&, const TraceChange&) = default;
};

// Receives a trace. Each next hop comes once, before the first change that
// names it. UpdateTrace::OnUpdate returns the sink's errors.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  // The changes of one event, ordered by prefix, each prefix once; never empty.
  virtual absl::Status OnChanges(const std::vector<TraceChange>& changes) = 0;
};

// Turns the updates of many peers into changes of one table. Keeps for each
// prefix the peers that announced it, with their gateways. Chooses the peer
// that appeared first in the trace, and of its paths the one with the lowest
// path identifier. That is not BGP's decision process, but it is deterministic,
// and as in BGP, changes of paths that are not chosen do not show.
//
// The table may have routes before the trace, such as those of a table dump:
// its base. An announcement of any peer is chosen before the route of the base,
// which shows again when all such are withdrawn. It ends with the first message
// of its own peer about the prefix (PeerOf its next hop), or of any peer if
// that cannot be told. A dump has one path of each prefix: of the others, the
// trace does not know.
//
// Messages that collectors sent are skipped. Distinct gateways become next
// hops, numbered in order of appearance and labelled with the peer of their
// first announcement.
//
// Memory: about 100 bytes a prefix with up to two paths, 12 a further path;
// nothing for a prefix that all peers have withdrawn; 50 to 100 bytes a route
// of the base. Thread-compatible.
class UpdateTrace : public UpdateSink {
 public:
  // `sink` must outlive this. REQUIRES: IsNextHop(first_next_hop_id).
  UpdateTrace(NextHopId first_next_hop_id, TraceSink& sink)
      : ids_(first_next_hop_id), sink_(sink) {}

  // A route of the table before the trace; `next_hop` is as in the table, or
  // empty for one without a description. Call before the first OnUpdate.
  // Errors: as OnUpdate.
  absl::Status AddBase(const Prefix& prefix, const NextHop& next_hop);

  // O(p) a prefix of the event that p peers announced.
  // Errors: the sink's; RESOURCE_EXHAUSTED when the ids run out.
  absl::Status OnUpdate(const UpdateEvent& event) override;

  // The number of prefixes that the trace has announced and not withdrawn.
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
  // Ordered by Before; the first is chosen. Never empty in the map.
  using Paths = absl::InlinedVector<Path, 2>;

  NextHopId Chosen(const Prefix& prefix) const;
  void Announce(const Prefix& prefix, const Path& path);
  void Withdraw(const Prefix& prefix, const Path& path);
  // Ends the route of the base if it is the peer's or may be.
  void EndBase(const Prefix& prefix, const Address& peer);

  uint32_t IndexOf(const Peer& peer);
  absl::StatusOr<NextHopId> IdOf(NextHop next_hop,
                                 absl::FunctionRef<std::string()> label);

  absl::flat_hash_map<Prefix, Paths> paths_;
  // The base: kUndecided is a next hop without a known peer. It is never
  // chosen: the first event of the prefix ends it.
  absl::flat_hash_map<Prefix, NextHopId> base_;
  absl::flat_hash_map<NextHopId, Address> base_peers_;
  // By address, AS number and interface.
  absl::flat_hash_map<std::tuple<Address, uint32_t, uint16_t>, uint32_t> peers_;
  NextHopIds ids_;
  TraceSink& sink_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_UPDATES_H_
