// SPDX-License-Identifier: Apache-2.0

// Routes of MRT table dumps: ReadMrtRoutes of route_file.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

// What records of a subtype hold that is not read.
std::string NameOfOther(uint16_t subtype) {
  switch (subtype) {
    case 3:   // RIB_IPV4_MULTICAST
    case 5:   // RIB_IPV6_MULTICAST
    case 9:   // RIB_IPV4_MULTICAST_ADDPATH
    case 11:  // RIB_IPV6_MULTICAST_ADDPATH
      return "TABLE_DUMP_V2 multicast";
    default:  // geographic, future ones
      return absl::StrCat("TABLE_DUMP_V2 subtype ", subtype);
  }
}

// Numbers values in order of appearance. Thread-compatible.
template <typename T>
class Numbered {
 public:
  uint32_t NumberOf(const T& value) {
    const auto [at, is_new] =
        numbers_.try_emplace(value, static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(value);
    return at->second;
  }
  const T& operator[](uint32_t number) const { return values_[number]; }

 private:
  std::vector<T> values_;
  absl::flat_hash_map<T, uint32_t> numbers_;
};

// A peer as its paths name it: by its place in the peer table, which may lack
// it, or by itself. Ordered as RFC 4271 section 9.1.2.2 f and g prefer peers,
// those that the table lacks last.
struct Announcer {
  bool missing = false;
  uint32_t bgp_id = 0;
  Address address;
  uint32_t as_number = 0;
  uint16_t index = 0;  // only of a missing one

  static Announcer Of(const Peer& peer) {
    return {false, peer.bgp_id, peer.address, peer.as_number, 0};
  }
  // GoBGP's own routes have the index of no peer.
  static Announcer Missing(uint16_t index) { return {true, 0, {}, 0, index}; }

  std::string Label() const {
    return missing ? absl::StrCat("unknown peer ", index)
                   : Peer{address, as_number, bgp_id}.Label();
  }

  friend auto operator<=>(const Announcer&, const Announcer&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Announcer& a) {
    return H::combine(std::move(state), a.missing, a.bgp_id, a.address,
                      a.as_number, a.index);
  }
};

// What is compared between all paths of a prefix, the preferred value first.
// A path without a gateway cannot be resolved and is no candidate beside one
// with a gateway (RFC 4271 section 9.1.2). That holds for an entry without
// attributes too, a static, direct or kernel route in a dump of BIRD: it has
// nothing to be compared by, and may name no way out.
struct Rank {
  bool no_gateway = true;
  uint32_t unpreference = 0;  // the complement of LOCAL_PREF
  uint32_t as_path_length = 0;
  BgpOrigin origin = BgpOrigin::kIncomplete;

  static Rank Of(const BgpPath& path) {
    return {!path.next_hop, ~path.local_pref, path.as_path_length, path.origin};
  }

  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// A path that may be the best of its prefix. The numbers are those of Chooser.
struct Candidate {
  uint32_t neighbor_as = 0;
  uint32_t med = 0;
  uint32_t announcer = 0;
  uint32_t path_id = 0;
  uint32_t gateway = 0;
  uint32_t attributes = 0;  // of none

  friend bool operator==(const Candidate&, const Candidate&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Candidate& c) {
    return H::combine(std::move(state), c.neighbor_as, c.med, c.announcer,
                      c.path_id, c.gateway, c.attributes);
  }
};

// The paths of a prefix that may still be the best, whichever others follow:
// those of the best rank, of each neighbour AS the best. Others of that AS
// cannot win, since their MED or all that comes after it is no better.
struct Candidates {
  Rank rank;
  std::vector<Candidate> paths;

  friend bool operator==(const Candidates&, const Candidates&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Candidates& c) {
    // Equal paths have equal ranks nearly always.
    return H::combine(std::move(state), c.paths);
  }
};

// Knows the peers, gateways and attributes of the paths, and which path is
// better. Thread-compatible.
class Chooser {
 public:
  Chooser() { attributes_.NumberOf({}); }

  uint32_t NumberOf(const Announcer& announcer) {
    return announcers_.NumberOf(announcer);
  }

  // True if Add adds the path.
  static bool Admits(const Candidates& candidates, const BgpPath& path) {
    return Admits(candidates, Rank::Of(path));
  }

  // Amortized O(log n) for n paths of the prefix. May leave some that cannot
  // win to Reduce.
  void Add(const BgpPath& path, const Attributes& attributes,
           uint32_t announcer, uint32_t path_id, Candidates* to) {
    const Rank rank = Rank::Of(path);
    if (!Admits(*to, rank)) return;
    Append(rank,
           {path.neighbor_as, path.med, announcer, path_id,
            gateways_.NumberOf(
                {path.next_hop.has_value(), path.next_hop.value_or(Address())}),
            attributes.empty() ? 0 : attributes_.NumberOf(attributes)},
           to);
  }
  void Add(const Candidates& more, Candidates* to) {
    if (more.paths.empty() || !Admits(*to, more.rank)) return;
    for (const Candidate& path : more.paths) Append(more.rank, path, to);
  }

  // Leaves the best path of each neighbour AS, ordered by AS.
  void Reduce(std::vector<Candidate>* paths) const {
    std::sort(paths->begin(), paths->end(),
              [this](const Candidate& a, const Candidate& b) {
                if (a.neighbor_as != b.neighbor_as) {
                  return a.neighbor_as < b.neighbor_as;
                }
                return a.med != b.med ? a.med < b.med : Before(a, b);
              });
    paths->erase(std::unique(paths->begin(), paths->end(),
                             [](const Candidate& a, const Candidate& b) {
                               return a.neighbor_as == b.neighbor_as;
                             }),
                 paths->end());
  }

  // REQUIRES: reduced, not empty.
  const Candidate& Best(const Candidates& reduced) const {
    return *std::min_element(reduced.paths.begin(), reduced.paths.end(),
                             [this](const Candidate& a, const Candidate& b) {
                               return Before(a, b);
                             });
  }

  std::optional<Address> GatewayOf(const Candidate& path) const {
    const auto& [is_gateway, address] = gateways_[path.gateway];
    return is_gateway ? std::optional(address) : std::nullopt;
  }
  const Attributes& AttributesOf(const Candidate& path) const {
    return attributes_[path.attributes];
  }
  // 0 if it is not known.
  uint32_t AsOf(uint32_t announcer) const {
    return announcers_[announcer].as_number;
  }
  std::string LabelOf(const Candidate& path) const {
    return PathLabel(GatewayOf(path), announcers_[path.announcer].Label());
  }

 private:
  static bool Admits(const Candidates& candidates, const Rank& rank) {
    return candidates.paths.empty() || rank <= candidates.rank;
  }

  // REQUIRES: Admits(*to, rank).
  void Append(const Rank& rank, const Candidate& path, Candidates* to) {
    if (to->paths.empty() || rank < to->rank) {
      to->rank = rank;
      to->paths.clear();
      reduce_at_ = kFirstReduce;
    }
    to->paths.push_back(path);
    if (to->paths.size() < reduce_at_) return;
    Reduce(&to->paths);
    reduce_at_ = std::max(kFirstReduce, 2 * to->paths.size());
  }

  // What decides after MED, and between paths of different neighbours.
  bool Before(const Candidate& a, const Candidate& b) const {
    if (a.announcer != b.announcer) {
      return announcers_[a.announcer] < announcers_[b.announcer];
    }
    if (a.path_id != b.path_id) return a.path_id < b.path_id;
    if (a.gateway != b.gateway) {
      return gateways_[a.gateway] < gateways_[b.gateway];
    }
    return a.attributes < b.attributes;  // the first in the file
  }

  static constexpr size_t kFirstReduce = 64;

  Numbered<Announcer> announcers_;
  Numbered<std::pair<bool, Address>> gateways_;  // false: none
  Numbered<Attributes> attributes_;              // 0: none
  // The number of paths at which those being appended to are reduced.
  size_t reduce_at_ = kFirstReduce;
};

// The paths of all prefixes. Thread-compatible.
class PathTable {
 public:
  explicit PathTable(Chooser& chooser) : chooser_(chooser) {}

  // Where the paths of a record of `prefix` are to be added, until the next
  // call of this class.
  Candidates* Open(const Prefix& prefix, RecordPlace place) {
    if (!open_ || open_prefix_ != prefix) {
      Close();
      open_ = true;
      open_prefix_ = prefix;
      open_place_ = place;
    }
    return &open_paths_;
  }

  // Calls `route(prefix, candidates)` for each prefix, in order; without a
  // path `lost(place, prefix)`, with the place of its first record. Call once,
  // last.
  template <typename OnRoute, typename OnLost>
  absl::Status Deliver(const OnRoute& route, const OnLost& lost) {
    Close();
    Merge();
    for (const Row& row : rows_) {
      absl::Status status = row.paths->paths.empty()
                                ? lost(lost_.at(row.prefix), row.prefix)
                                : route(row.prefix, *row.paths);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  using Pool = absl::node_hash_set<Candidates>;
  struct Row {
    Prefix prefix;
    const Candidates* paths = nullptr;  // in pool_
  };
  static bool InOrder(const Row& a, const Row& b) {
    return a.prefix < b.prefix;
  }

  static constexpr size_t kFirstMerge = 64 << 10;

  void Close() {
    if (!std::exchange(open_, false)) return;
    chooser_.Reduce(&open_paths_.paths);
    if (open_paths_.paths.empty()) {
      lost_.try_emplace(open_prefix_, open_place_);
    }
    const Row row{open_prefix_, Keep(open_paths_)};
    ordered_ = ordered_ && (rows_.empty() || InOrder(rows_.back(), row));
    rows_.push_back(row);
    open_paths_ = {};
    if (Size() >= merge_at_) Merge();
  }

  const Candidates* Keep(const Candidates& candidates) {
    const auto [at, is_new] = pool_.insert(candidates);
    if (is_new) pooled_ += candidates.paths.size();
    return &*at;
  }

  size_t Size() const { return rows_.size() + pooled_; }

  // Leaves one row of each prefix, ordered. O(n log n), called each time that n
  // has doubled.
  void Merge() {
    if (!ordered_) {
      std::stable_sort(rows_.begin(), rows_.end(), InOrder);
      const Pool old = std::exchange(pool_, {});
      pooled_ = 0;
      size_t kept = 0;
      for (size_t i = 0; i < rows_.size();) {
        const Prefix prefix = rows_[i].prefix;
        Candidates merged;
        for (; i < rows_.size() && rows_[i].prefix == prefix; ++i) {
          chooser_.Add(*rows_[i].paths, &merged);
        }
        chooser_.Reduce(&merged.paths);
        rows_[kept++] = {prefix, Keep(merged)};
      }
      rows_.resize(kept);
      ordered_ = true;
    }
    merge_at_ = std::max(kFirstMerge, 2 * Size());
  }

  Chooser& chooser_;

  // The prefix of the last record. Its other records mostly follow.
  bool open_ = false;
  Prefix open_prefix_;
  RecordPlace open_place_;
  Candidates open_paths_;

  // Prefixes may be there several times until Merge.
  std::vector<Row> rows_;
  bool ordered_ = true;
  size_t merge_at_ = kFirstMerge;
  // Many prefixes have the same ones: 20 of a real table on average.
  Pool pool_;
  size_t pooled_ = 0;  // paths in it
  // Prefixes of which a record had no path that could be read.
  absl::flat_hash_map<Prefix, RecordPlace> lost_;
};

// Thread-compatible.
class MrtRoutes {
 public:
  MrtRoutes(const RouteFileOptions& options, RouteOutput& out)
      : encoder_(options.path_encoder),
        ids_(options.first_next_hop_id),
        out_(out) {}

  absl::Status OnRecord(const MrtRecord& record) {
    switch (record.type) {
      case kMrtTableDump:
        return OnTableDump(record);
      case kMrtTableDumpV2:
        return OnTableDumpV2(record);
      default:
        return Ignore(MrtTypeName(record.type));
    }
  }

  // After the last record.
  absl::Status Deliver() {
    return paths_.Deliver(
        [this](const Prefix& prefix, const Candidates& paths) -> absl::Status {
          const absl::StatusOr<NextHopId> id = IdOf(chooser_.Best(paths));
          return id.ok() ? out_.OnRoute({prefix, *id}) : id.status();
        },
        [this](RecordPlace place, const Prefix& prefix) {
          return out_.OnRouteLost(place, prefix);
        });
  }

 private:
  absl::Status Ignore(absl::string_view what) {
    out_.OnIgnored(what);
    return absl::OkStatus();
  }

  absl::Status OnTableDump(const MrtRecord& record) {
    if (record.subtype != 1 && record.subtype != 2) {
      return Ignore(absl::StrCat("TABLE_DUMP subtype ", record.subtype));
    }
    const absl::StatusOr<TableDumpRecord> dump = ParseTableDump(
        record.body, record.subtype == 1 ? Family::kIpv4 : Family::kIpv6);
    if (!dump.ok()) {
      return out_.OnMalformed(record.place, dump.status().message());
    }
    Candidates* const paths = paths_.Open(dump->prefix, record.place);
    const absl::Status added = AddPath(
        dump->attributes, dump->prefix.family(), AsSize::kTwoBytes,
        chooser_.NumberOf(Announcer::Of(dump->peer)), /*path_id=*/0, paths);
    if (!added.ok()) {
      out_.OnPathSkipped(record.place,
                         absl::StrCat("the path to ", dump->prefix.ToString(),
                                      ": ", added.message()));
    }
    return absl::OkStatus();
  }

  // Errors: INVALID_ARGUMENT for a malformed path, which is not added.
  absl::Status AddPath(absl::string_view attributes, Family family,
                       AsSize as_size, uint32_t announcer, uint32_t path_id,
                       Candidates* paths) {
    const absl::StatusOr<BgpPath> path =
        ParseBgpPath(attributes, family, as_size);
    if (!path.ok()) return path.status();
    Attributes meaning;
    if (encoder_ != nullptr && Chooser::Admits(*paths, *path)) {
      absl::StatusOr<BgpAttributes> parsed =
          ParseBgpAttributes(attributes, as_size);
      if (!parsed.ok()) return parsed.status();
      const uint32_t as_number = chooser_.AsOf(announcer);
      if (parsed->as_path.empty() && as_number != 0) {
        parsed->as_path.push_back({false, {as_number}});
      }
      bool cut = false;
      std::tie(meaning, cut) = encoder_(*parsed);
      if (cut) out_.OnPathCut();
    }
    chooser_.Add(*path, meaning, announcer, path_id, paths);
    return absl::OkStatus();
  }

  absl::Status OnTableDumpV2(const MrtRecord& record) {
    switch (record.subtype) {
      case 1:  // PEER_INDEX_TABLE
        return OnPeerTable(record);
      case 2:  // RIB_IPV4_UNICAST
        return OnRib(record, Family::kIpv4, false);
      case 4:  // RIB_IPV6_UNICAST
        return OnRib(record, Family::kIpv6, false);
      case 6:  // RIB_GENERIC
        return OnGeneric(record, false);
      case 8:  // RIB_IPV4_UNICAST_ADDPATH
        return OnRib(record, Family::kIpv4, true);
      case 10:  // RIB_IPV6_UNICAST_ADDPATH
        return OnRib(record, Family::kIpv6, true);
      case 12:  // RIB_GENERIC_ADDPATH
        return OnGeneric(record, true);
      default:
        return Ignore(NameOfOther(record.subtype));
    }
  }

  absl::Status OnPeerTable(const MrtRecord& record) {
    peers_.clear();
    const absl::StatusOr<std::vector<Peer>> peers = ParsePeerTable(record.body);
    if (!peers.ok()) {
      // Peers label next hops and break ties: no route is lost. Later paths do
      // not refer to the old peers.
      out_.OnIgnored("damaged PEER_INDEX_TABLE", record.place,
                     peers.status().message());
      return absl::OkStatus();
    }
    for (const Peer& peer : *peers) {
      peers_.push_back(chooser_.NumberOf(Announcer::Of(peer)));
    }
    return absl::OkStatus();
  }

  absl::Status OnRib(const MrtRecord& record, Family family,
                     bool additional_paths) {
    const absl::StatusOr<RibRecord> rib =
        ParseRibRecord(record.body, family, additional_paths);
    if (!rib.ok()) {
      return out_.OnMalformed(record.place, rib.status().message());
    }
    return OnPaths(record.place, *rib);
  }

  absl::Status OnGeneric(const MrtRecord& record, bool additional_paths) {
    const absl::StatusOr<std::optional<RibRecord>> rib =
        ParseRibGeneric(record.body, additional_paths);
    if (!rib.ok()) {
      return out_.OnMalformed(record.place, rib.status().message());
    }
    if (!*rib) return Ignore("RIB_GENERIC of another address family");
    return OnPaths(record.place, **rib);
  }

  absl::Status OnPaths(RecordPlace place, const RibRecord& rib) {
    if (rib.entries.empty()) return Ignore("RIB records without paths");
    Candidates* const paths = paths_.Open(rib.prefix, place);
    for (size_t i = 0; i < rib.entries.size(); ++i) {
      const RibEntry& entry = rib.entries[i];
      const absl::Status added =
          AddPath(entry.attributes, rib.prefix.family(), AsSize::kFourBytes,
                  AnnouncerOf(entry.peer), entry.path_id, paths);
      if (!added.ok()) {
        out_.OnPathSkipped(
            place, absl::StrCat("entry ", i, " of ", rib.prefix.ToString(),
                                ": ", added.message()));
      }
    }
    return absl::OkStatus();
  }

  uint32_t AnnouncerOf(uint16_t index) {
    return index < peers_.size() ? peers_[index]
                                 : chooser_.NumberOf(Announcer::Missing(index));
  }

  // The id of the path's next hop, announcing it if it is new.
  absl::StatusOr<NextHopId> IdOf(const Candidate& path) {
    return ids_.IdOf(
        {.gateway = chooser_.GatewayOf(path),
         .attributes = chooser_.AttributesOf(path)},
        [&] { return chooser_.LabelOf(path); },
        [&](const NextHop& next_hop) { return out_.OnNextHop(next_hop); });
  }

  const PathEncoder encoder_;
  // Numbers of the peers of the last PEER_INDEX_TABLE; empty before it.
  std::vector<uint32_t> peers_;
  Chooser chooser_;
  PathTable paths_{chooser_};
  NextHopIds ids_;
  RouteOutput& out_;
};

}  // namespace

absl::Status ReadMrtRoutes(ByteReader& in, const RouteFileOptions& options,
                           RouteOutput& out) {
  MrtReader records(in, out);
  MrtRoutes routes(options, out);
  for (;;) {
    MrtRecord record;
    absl::StatusOr<bool> more = records.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) return routes.Deliver();
    absl::Status status = routes.OnRecord(record);
    if (!status.ok()) return status;
  }
}

}  // namespace planb
