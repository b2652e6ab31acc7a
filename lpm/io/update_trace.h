// SPDX-License-Identifier: Apache-2.0

// Turns the announced and withdrawn routes of many peers into the changes of
// one table, for a replay.

#ifndef PLANB_LPM_IO_UPDATE_TRACE_H_
#define PLANB_LPM_IO_UPDATE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lpm/io/bgp_updates.h"
#include "lpm/io/mrt.h"
#include "lpm/prefix.h"

namespace planb {

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

#endif  // PLANB_LPM_IO_UPDATE_TRACE_H_
