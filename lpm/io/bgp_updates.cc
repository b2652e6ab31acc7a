// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/bgp_updates.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/bgp.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/mrt.h"
#include "lpm/io/route_file.h"

namespace planb {
namespace {

// Delivers or counts each record. Thread-compatible.
class Updates {
 public:
  Updates(ProblemOutput& problems, UpdateSink& sink)
      : problems_(problems), sink_(sink) {}

  absl::Status OnRecord(const MrtRecord& record) {
    if (record.type != kMrtBgp4mp && record.type != kMrtBgp4mpEt) {
      return Ignore(MrtTypeName(record.type));
    }
    has_bgp4mp_ = true;
    const absl::StatusOr<Bgp4mpRecord> parsed = ParseBgp4mp(record);
    if (!parsed.ok()) {
      return problems_.OnMalformed(record.place, parsed.status().message());
    }
    switch (parsed->kind) {
      case Bgp4mpRecord::kMessage:
        return OnMessage(record.place, *parsed);
      case Bgp4mpRecord::kStateChange:
        ++counts_.state_changes;
        return absl::OkStatus();
      case Bgp4mpRecord::kOther:
        break;
    }
    return Ignore("BGP4MP records that hold no message");
  }

  // OK unless all records are of other types.
  absl::Status CheckSomeRecord() const {
    const RecordReport& records = problems_.records();
    if (has_bgp4mp_ || records.ignored == 0) return absl::OkStatus();
    const bool table =
        std::any_of(records.ignored_by.begin(), records.ignored_by.end(),
                    [](const auto& by) {
                      return absl::StartsWith(by.first, "TABLE_DUMP");
                    });
    return absl::InvalidArgumentError(
        absl::StrCat(problems_.name(), ": ",
                     table ? "a table dump: try planbctl load; " : "",
                     "no BGP4MP record: ", ProblemCounts(records)));
  }

  BgpUpdatesReport report() const {
    BgpUpdatesReport report = counts_;
    static_cast<RecordReport&>(report) = problems_.records();
    return report;
  }

 private:
  absl::Status Ignore(absl::string_view what) {
    problems_.OnIgnored(what);
    return absl::OkStatus();
  }

  absl::Status OnMessage(RecordPlace place, const Bgp4mpRecord& record) {
    absl::StatusOr<BgpUpdate> update =
        ParseBgpMessage(record.message, record.additional_paths);
    if (!update.ok()) {
      return problems_.OnMalformed(
          place, absl::StrCat("from ", record.peer.Label(), ": ",
                              update.status().message()));
    }
    if (update->empty()) return Ignore("messages without unicast routes");
    const UpdateEvent event{record.at, record.peer, record.local,
                            *std::move(update)};
    absl::Status status = sink_.OnUpdate(event);
    if (!status.ok()) return status;
    ++counts_.updates;
    counts_.announced += event.update.announces.size();
    counts_.withdrawn += event.update.withdraws.size();
    return absl::OkStatus();
  }

  ProblemOutput& problems_;
  UpdateSink& sink_;
  BgpUpdatesReport counts_;  // problems are in problems_
  bool has_bgp4mp_ = false;
};

absl::Status Unrecognized(absl::string_view name, absl::string_view head) {
  const RouteFormat format = DetectRouteFormat(head);
  const std::string other =
      format == RouteFormat::kText || format == RouteFormat::kTableFile
          ? "a table: try planbctl load"
          : NameOfOtherFormat(head);
  if (!other.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", other,
        "; recorded updates are MRT (RFC 6396), plain or compressed"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": not MRT (RFC 6396), plain or compressed; it starts with \"",
      absl::CHexEscape(head.substr(0, kMrtHeaderSize)), "\""));
}

absl::Status ReadRecords(ByteReader& in, ProblemOutput& problems,
                         Updates& updates) {
  // MrtReader handles an empty stream, one that fails at once, and a cut
  // record.
  const absl::string_view head = in.Peek(kMrtHeaderSize);
  const bool cut = head.size() < kMrtHeaderSize && !in.status().ok();
  if (!head.empty() && !cut && !StartsLikeMrt(head)) {
    return Unrecognized(problems.name(), in.Peek(kFormatProbe));
  }
  MrtReader records(in, problems);
  for (;;) {
    MrtRecord record;
    absl::StatusOr<bool> more = records.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) return updates.CheckSomeRecord();
    absl::Status status = updates.OnRecord(record);
    if (!status.ok()) return status;
  }
}

}  // namespace

absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    const std::string& path, const BgpUpdatesOptions& options,
    UpdateSink& sink) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  return ReadBgpUpdates(path, *std::move(source), options, sink);
}

absl::StatusOr<BgpUpdatesReport> ReadBgpUpdates(
    absl::string_view name, std::unique_ptr<ByteSource> source,
    const BgpUpdatesOptions& options, UpdateSink& sink) {
  absl::StatusOr<std::unique_ptr<ByteSource>> plain =
      Decompress(std::move(source));
  if (!plain.ok()) return plain.status();
  ByteReader in(*std::move(plain));
  ProblemOutput problems(name, options.strict);
  Updates updates(problems, sink);
  absl::Status status = ReadRecords(in, problems, updates);
  if (!status.ok()) return status;
  return updates.report();
}

absl::Status UpdateTrace::AddBase(const Prefix& prefix,
                                  const NextHop& next_hop) {
  const std::optional<Address> peer = PeerOf(next_hop);
  NextHopId id = kUndecided;
  if (peer) {
    NextHop meaning = next_hop;
    meaning.label.clear();
    const absl::StatusOr<NextHopId> known =
        IdOf(std::move(meaning), [&] { return next_hop.label; });
    if (!known.ok()) return known.status();
    id = *known;
    base_peers_.try_emplace(id, *peer);
  }
  base_[prefix] = id;
  return absl::OkStatus();
}

absl::Status UpdateTrace::OnUpdate(const UpdateEvent& event) {
  if (event.local) return absl::OkStatus();
  const uint32_t peer = IndexOf(event.peer);
  // The prefixes of the event and their next hops before it.
  std::vector<Route> before;
  before.reserve(event.update.withdraws.size() + event.update.announces.size());
  for (const NlriPrefix& nlri : event.update.withdraws) {
    before.push_back({nlri.prefix, Chosen(nlri.prefix)});
    Withdraw(nlri.prefix, {peer, nlri.path_id});
    EndBase(nlri.prefix, event.peer.address);
  }
  for (const auto& [nlri, gateway] : event.update.announces) {
    const absl::StatusOr<NextHopId> id =
        IdOf({.gateway = gateway}, [&event, &gateway = gateway] {
          return PathLabel(gateway, event.peer.Label());
        });
    if (!id.ok()) return id.status();
    before.push_back({nlri.prefix, Chosen(nlri.prefix)});
    Announce(nlri.prefix, {peer, nlri.path_id, *id});
    EndBase(nlri.prefix, event.peer.address);
  }
  // For a prefix that is there twice, keeps its next hop before the first
  // change.
  std::stable_sort(
      before.begin(), before.end(),
      [](const Route& a, const Route& b) { return a.prefix < b.prefix; });
  before.erase(std::unique(before.begin(), before.end(),
                           [](const Route& a, const Route& b) {
                             return a.prefix == b.prefix;
                           }),
               before.end());
  std::vector<TraceChange> changes;
  for (const Route& old : before) {
    const NextHopId chosen = Chosen(old.prefix);
    if (chosen == old.next_hop) continue;
    changes.push_back({event.at, {old.prefix, chosen}});
  }
  return changes.empty() ? absl::OkStatus() : sink_.OnChanges(changes);
}

NextHopId UpdateTrace::Chosen(const Prefix& prefix) const {
  const auto found = paths_.find(prefix);
  if (found != paths_.end()) return found->second.front().next_hop;
  const auto base = base_.find(prefix);
  return base == base_.end() ? kNoRoute : base->second;
}

void UpdateTrace::Announce(const Prefix& prefix, const Path& path) {
  Paths& paths = paths_[prefix];
  const auto at = std::lower_bound(
      paths.begin(), paths.end(), path,
      [](const Path& a, const Path& b) { return a.Before(b); });
  if (at != paths.end() && !path.Before(*at)) {
    at->next_hop = path.next_hop;
  } else {
    paths.insert(at, path);
  }
}

void UpdateTrace::Withdraw(const Prefix& prefix, const Path& path) {
  const auto found = paths_.find(prefix);
  if (found == paths_.end()) return;
  Paths& paths = found->second;
  const auto at = std::find_if(paths.begin(), paths.end(), [&](const Path& p) {
    return !p.Before(path) && !path.Before(p);
  });
  if (at == paths.end()) return;
  paths.erase(at);
  if (paths.empty()) paths_.erase(found);
}

void UpdateTrace::EndBase(const Prefix& prefix, const Address& peer) {
  const auto base = base_.find(prefix);
  if (base == base_.end()) return;
  const auto known = base_peers_.find(base->second);
  if (known == base_peers_.end() || known->second == peer) base_.erase(base);
}

uint32_t UpdateTrace::IndexOf(const Peer& peer) {
  return peers_
      .try_emplace({peer.address, peer.as_number, peer.interface},
                   static_cast<uint32_t>(peers_.size()))
      .first->second;
}

absl::StatusOr<NextHopId> UpdateTrace::IdOf(
    NextHop next_hop, absl::FunctionRef<std::string()> label) {
  return ids_.IdOf(std::move(next_hop), label, [&](const NextHop& announced) {
    return sink_.OnNextHop(announced);
  });
}

}  // namespace planb
