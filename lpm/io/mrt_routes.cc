// SPDX-License-Identifier: Apache-2.0

// Routes of MRT table dumps: ReadMrtRoutes of route_file.h.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lpm/address.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

// The contents of a subtype of TABLE_DUMP_V2.
struct Subtype {
  enum Kind { kPeers, kRib, kOther } kind = kOther;
  Family family = Family::kIpv6;  // for kRib
  bool additional_paths = false;  // for kRib: entries have a path identifier
};

Subtype SubtypeOf(uint16_t number) {
  switch (number) {
    case 1:  // PEER_INDEX_TABLE
      return {Subtype::kPeers};
    case 2:  // RIB_IPV4_UNICAST
      return {Subtype::kRib, Family::kIpv4, false};
    case 4:  // RIB_IPV6_UNICAST
      return {Subtype::kRib, Family::kIpv6, false};
    case 8:  // RIB_IPV4_UNICAST_ADDPATH
      return {Subtype::kRib, Family::kIpv4, true};
    case 10:  // RIB_IPV6_UNICAST_ADDPATH
      return {Subtype::kRib, Family::kIpv6, true};
    default:  // multicast, generic, geographic, future ones
      return {Subtype::kOther};
  }
}

// What records of a subtype hold that is kOther.
std::string NameOfOther(uint16_t subtype) {
  switch (subtype) {
    case 3:   // RIB_IPV4_MULTICAST
    case 5:   // RIB_IPV6_MULTICAST
    case 9:   // RIB_IPV4_MULTICAST_ADDPATH
    case 11:  // RIB_IPV6_MULTICAST_ADDPATH
      return "TABLE_DUMP_V2 multicast";
    default:
      return absl::StrCat("TABLE_DUMP_V2 subtype ", subtype);
  }
}

// The best of the paths seen so far.
struct Candidate {
  BgpPath path;
  uint16_t peer = 0;

  bool BetterThan(const Candidate& other) const {
    return std::tie(path.as_path_length, path.origin, peer) <
           std::tie(other.path.as_path_length, other.path.origin, other.peer);
  }
};

// Thread-compatible.
class MrtRoutes {
 public:
  MrtRoutes(NextHopId first_next_hop_id, RouteOutput& out)
      : ids_(first_next_hop_id), out_(out) {}

  absl::Status OnRecord(const MrtRecord& record) {
    if (record.type != kMrtTableDumpV2) {
      return Ignore(MrtTypeName(record.type));
    }
    const Subtype subtype = SubtypeOf(record.subtype);
    switch (subtype.kind) {
      case Subtype::kPeers:
        return OnPeerTable(record);
      case Subtype::kRib:
        return OnRib(record, subtype);
      case Subtype::kOther:
        break;
    }
    return Ignore(NameOfOther(record.subtype));
  }

 private:
  absl::Status Ignore(absl::string_view what) {
    out_.OnIgnored(what);
    return absl::OkStatus();
  }

  absl::Status OnPeerTable(const MrtRecord& record) {
    absl::StatusOr<std::vector<Peer>> peers = ParsePeerTable(record.body);
    if (!peers.ok()) {
      // Later paths do not refer to the old peers.
      peers_.clear();
      return out_.OnMalformed(record.place, peers.status().message());
    }
    peers_ = *std::move(peers);
    return absl::OkStatus();
  }

  absl::Status OnRib(const MrtRecord& record, const Subtype& subtype) {
    absl::StatusOr<RibRecord> rib =
        ParseRibRecord(record.body, subtype.family, subtype.additional_paths);
    if (!rib.ok()) {
      return out_.OnMalformed(record.place, rib.status().message());
    }
    if (rib->entries.empty()) return Ignore("RIB records without paths");
    return OnPaths(record.place, *rib);
  }

  absl::Status OnPaths(RecordPlace place, const RibRecord& rib) {
    std::optional<Candidate> best;
    for (size_t i = 0; i < rib.entries.size(); ++i) {
      const RibEntry& entry = rib.entries[i];
      absl::StatusOr<BgpPath> path =
          ParseBgpPath(entry.attributes, rib.prefix.family());
      if (!path.ok()) {
        out_.OnPathSkipped(
            place, absl::StrCat("entry ", i, " of ", rib.prefix.ToString(),
                                ": ", path.status().message()));
        continue;
      }
      const Candidate candidate{*path, entry.peer};
      if (!best || candidate.BetterThan(*best)) best = candidate;
    }
    if (!best) return out_.OnRouteLost(place, rib.prefix);
    absl::StatusOr<NextHopId> id = IdOf(*best);
    if (!id.ok()) return id.status();
    return out_.OnRoute({rib.prefix, *id});
  }

  // The id of the path's next hop, announcing it if it is new.
  absl::StatusOr<NextHopId> IdOf(const Candidate& candidate) {
    return ids_.IdOf(
        {.gateway = candidate.path.next_hop},
        [&] { return PeerLabel(candidate.peer); },
        [&](const NextHop& next_hop) { return out_.OnNextHop(next_hop); });
  }

  // A peer may be missing from the table: GoBGP's own routes have the index of
  // no peer.
  std::string PeerLabel(uint16_t index) const {
    return index < peers_.size() ? peers_[index].Label()
                                 : absl::StrCat("unknown peer ", index);
  }

  // Of the last PEER_INDEX_TABLE; empty before it.
  std::vector<Peer> peers_;
  NextHopIds ids_;
  RouteOutput& out_;
};

}  // namespace

absl::Status ReadMrtRoutes(ByteReader& in, NextHopId first_next_hop_id,
                           RouteOutput& out) {
  MrtReader records(in, out);
  MrtRoutes routes(first_next_hop_id, out);
  for (;;) {
    MrtRecord record;
    absl::StatusOr<bool> more = records.Next(&record);
    if (!more.ok() || !*more) return more.status();
    absl::Status status = routes.OnRecord(record);
    if (!status.ok()) return status;
  }
}

}  // namespace planb
