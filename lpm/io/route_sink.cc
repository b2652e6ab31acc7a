// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_sink.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace planb {

std::string ProblemCounts(const RouteFileReport& report) {
  std::vector<std::string> parts;
  const auto add = [&](uint64_t count, absl::string_view what) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", what));
  };
  add(report.malformed, "records malformed");
  add(report.paths_skipped, "paths skipped");
  add(report.routes_lost, "routes lost");
  add(report.paths_cut, "paths with attributes cut");
  add(report.repeated, "prefixes repeated");
  if (report.ignored > 0) {
    parts.push_back(absl::StrCat(
        report.ignored, " records ignored (",
        absl::StrJoin(report.ignored_by, ", ",
                      [](std::string* to, const auto& entry) {
                        absl::StrAppend(to, entry.second, " ", entry.first);
                      }),
        ")"));
  }
  if (report.truncated) parts.emplace_back("the file breaks off");
  return absl::StrJoin(parts, ", ");
}

std::string ProblemCounts(const RecordReport& report) {
  RouteFileReport all;
  static_cast<RecordReport&>(all) = report;
  return ProblemCounts(all);
}

std::string PlaceIn(absl::string_view name, RecordPlace place) {
  return place.line > 0 ? absl::StrCat(name, ":", place.line)
                        : absl::StrCat(name, ": at byte ", place.offset);
}

void ProblemOutput::OnIgnored(absl::string_view what) {
  ++records_.ignored;
  ++records_.ignored_by[std::string(what)];
}

void ProblemOutput::OnIgnored(absl::string_view what, RecordPlace place,
                              absl::string_view message) {
  OnIgnored(what);
  Describe(place, message);
}

absl::Status ProblemOutput::OnMalformed(RecordPlace place,
                                        absl::string_view message) {
  ++records_.malformed;
  return OnProblem(place, message);
}

absl::Status ProblemOutput::OnTruncated(RecordPlace place,
                                        absl::string_view message) {
  records_.truncated = true;
  return OnProblem(place, message);
}

absl::Status ProblemOutput::OnEnd(RecordPlace place, const absl::Status& stream,
                                  absl::string_view cut) {
  if (absl::IsDataLoss(stream)) return OnTruncated(place, stream.message());
  if (!stream.ok() || cut.empty()) return stream;
  return OnTruncated(place, cut);
}

void ProblemOutput::Describe(RecordPlace place, absl::string_view message) {
  if (records_.problems.size() < kMaxRouteFileProblems) {
    records_.problems.push_back(
        {place.offset, place.line, std::string(message)});
  }
}

absl::Status ProblemOutput::OnProblem(RecordPlace place,
                                      absl::string_view message) {
  Describe(place, message);
  if (!strict_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(PlaceIn(name_, place), ": ", message));
}

namespace {

// Sorts by `key` and keeps the last of equal keys.
template <typename T, typename Key>
std::vector<T> LastOfEach(std::vector<T> given, Key key) {
  std::stable_sort(given.begin(), given.end(),
                   [&](const T& a, const T& b) { return key(a) < key(b); });
  size_t kept = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    if (kept > 0 && key(given[kept - 1]) == key(given[i])) --kept;
    if (kept != i) given[kept] = std::move(given[i]);
    ++kept;
  }
  given.resize(kept);
  return given;
}

}  // namespace

absl::Status RouteCollector::OnNextHop(const NextHop& next_hop) {
  next_hops_.push_back(next_hop);
  return absl::OkStatus();
}

absl::Status RouteCollector::OnRoute(const Route& route) {
  routes_.push_back(route);
  return absl::OkStatus();
}

absl::Status RouteCollector::OnGroup(const NextHopGroup& group) {
  groups_.push_back(group);
  return absl::OkStatus();
}

std::vector<Route> RouteCollector::TakeRoutes() {
  return LastOfEach(std::exchange(routes_, {}),
                    [](const Route& route) { return route.prefix; });
}

std::vector<NextHop> RouteCollector::TakeNextHops() {
  return LastOfEach(std::exchange(next_hops_, {}),
                    [](const NextHop& next_hop) { return next_hop.id; });
}

std::vector<NextHopGroup> RouteCollector::TakeGroups() {
  return LastOfEach(std::exchange(groups_, {}),
                    [](const NextHopGroup& group) { return group.id; });
}

absl::StatusOr<NextHopId> NextHopIds::IdOf(
    NextHop next_hop, absl::FunctionRef<std::string()> label,
    absl::FunctionRef<absl::Status(const NextHop&)> announce) {
  if (!NamesNeighbor(next_hop)) next_hop.label = label();
  return IdOf(Meaning(next_hop.gateway.has_value(),
                      next_hop.gateway.value_or(Address()), next_hop.interface,
                      next_hop.label, next_hop.attributes, {}),
              [&](NextHopId id) {
                next_hop.id = id;
                if (NamesNeighbor(next_hop)) next_hop.label = label();
                return announce(next_hop);
              });
}

absl::StatusOr<NextHopId> NextHopIds::IdOf(
    NextHopGroup group,
    absl::FunctionRef<absl::Status(const NextHopGroup&)> announce) {
  Meaning meaning(false, Address(), "", group.label, {}, {});
  for (const NextHopGroup::Member& member : group.members) {
    std::get<5>(meaning).emplace_back(member.next_hop, member.weight);
  }
  return IdOf(meaning, [&](NextHopId id) {
    group.id = id;
    return announce(group);
  });
}

absl::StatusOr<NextHopId> NextHopIds::IdOf(
    const Meaning& meaning,
    absl::FunctionRef<absl::Status(NextHopId)> announce) {
  const auto found = ids_.find(meaning);
  if (found != ids_.end()) return found->second;
  if (next_ >= kUndecided) {
    return absl::ResourceExhaustedError("more next hops than ids");
  }
  const auto id = static_cast<NextHopId>(next_++);
  ids_.emplace(meaning, id);
  absl::Status status = announce(id);
  if (!status.ok()) return status;
  return id;
}

absl::Status RouteOutput::OnNextHop(const NextHop& next_hop) {
  absl::Status status = sink_.OnNextHop(next_hop);
  if (status.ok()) ++counts_.next_hops;
  return status;
}

absl::Status RouteOutput::OnRoute(const Route& route) {
  absl::Status status = sink_.OnRoute(route);
  if (status.ok()) ++counts_.routes;
  return status;
}

absl::Status RouteOutput::OnGroup(const NextHopGroup& group) {
  absl::Status status = sink_.OnGroup(group);
  if (status.ok()) ++counts_.groups;
  return status;
}

void RouteOutput::OnPathSkipped(RecordPlace place, absl::string_view message) {
  ++counts_.paths_skipped;
  Describe(place, message);
}

absl::Status RouteOutput::OnRouteLost(RecordPlace place, const Prefix& prefix) {
  ++counts_.routes_lost;
  return OnProblem(
      place, absl::StrCat("no path to ", prefix.ToString(), " could be read"));
}

void RouteOutput::OnRepeated(RecordPlace place, const Prefix& prefix) {
  ++counts_.repeated;
  Describe(place, absl::StrCat(prefix.ToString(),
                               " is there twice with different next hops: the "
                               "last counts"));
}

RouteFileReport RouteOutput::report() const {
  RouteFileReport report = counts_;
  static_cast<RecordReport&>(report) = records();
  return report;
}

}  // namespace planb
