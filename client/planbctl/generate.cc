// SPDX-License-Identifier: Apache-2.0

// planbctl generate and convert: write a routing table as text, a synthetic one
// or that of a file. They need no server.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/attributes.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"

namespace planb::client {
namespace {

constexpr uint64_t kDefaultRoutes = 100'000;

bool WriteRoutes(const std::vector<Route>& routes, std::FILE* file) {
  for (const Route& route : routes) {
    const std::string line =
        absl::StrCat(route.prefix.ToString(), " ", route.next_hop, "\n");
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) {
      return false;
    }
  }
  return std::fflush(file) == 0;
}

ExitCode Run(const Arguments& arguments) {
  const std::string count = absl::GetFlag(FLAGS_routes);
  uint64_t ipv6_routes = kDefaultRoutes;
  if (!count.empty() && !absl::SimpleAtoi(count, &ipv6_routes)) {
    return FailUsage(
        absl::StrCat("--routes=", count, " is no number of routes"));
  }
  const auto routes = MadeUpRoutes(ipv6_routes);
  if (!routes.ok()) return FailUsage(routes.status().message());
  const std::string path = arguments.empty() ? "" : arguments[0];
  std::FILE* const file =
      path.empty() ? stdout : std::fopen(path.c_str(), "we");
  if (file == nullptr) return FailUsage(absl::StrCat("cannot write ", path));
  const bool written = WriteRoutes(*routes, file);
  const bool closed = file == stdout || std::fclose(file) == 0;
  if (!written || !closed) {
    return FailUsage(absl::StrCat("cannot write ",
                                  path.empty() ? "the standard output" : path));
  }
  return ExitCode::kOk;
}

// The columns of planb-feed's CSV, but for those of tags.
constexpr absl::string_view kColumns =
    "prefix,id,gateway,interface,weight,label,as,path,community,extended,"
    "local_pref,med";

// The columns of a next hop from "label" on. `tags`: how many columns of them.
std::string MeaningColumns(const NextHop& hop, int tags) {
  const v1::Attributes attributes = ToProto(hop.attributes);
  std::vector<std::string> communities, extended;
  for (const uint32_t community : attributes.communities()) {
    communities.push_back(CommunityText(community));
  }
  for (const auto& community : attributes.large_communities()) {
    communities.push_back(CommunityText(community));
  }
  for (const uint64_t community : attributes.extended_communities()) {
    extended.push_back(ExtendedCommunityText(community));
  }
  std::string columns = CsvText(hop.label);
  const auto add = [&](bool has, const auto& value) {
    absl::StrAppend(&columns, ",", has ? absl::StrCat(value) : "");
  };
  add(attributes.origin_as() != 0, attributes.origin_as());
  absl::StrAppend(&columns, ",", CsvText(AsPathText(attributes)), ",",
                  absl::StrJoin(communities, " "), ",",
                  absl::StrJoin(extended, " "));
  add(attributes.has_local_preference(), attributes.local_preference());
  add(attributes.has_med(), attributes.med());
  for (int i = 0; i < tags; ++i) {
    const bool has = i < attributes.tags_size();
    absl::StrAppend(&columns, ",",
                    has ? CsvText(absl::StrCat(attributes.tags(i).key(), "=",
                                               attributes.tags(i).value()))
                        : "");
  }
  return columns;
}

// A table of a file as rows, of each next hop of a route one.
class CsvTable {
 public:
  CsvTable(const std::vector<NextHop>& next_hops,
           std::vector<NextHopGroup> groups) {
    for (const NextHop& hop : next_hops) {
      tags_ = std::max(tags_, ToProto(hop.attributes).tags_size());
    }
    no_meaning_ = MeaningColumns({}, tags_);
    for (const NextHop& hop : next_hops) {
      std::string gateway =
          hop.gateway.has_value() ? hop.gateway->ToString() : "";
      // An object that does not say where packets go is its id.
      if (gateway.empty() && hop.interface.empty() && hop.label.empty()) {
        continue;
      }
      hops_[hop.id] = {absl::StrCat(",", gateway, ",", CsvText(hop.interface)),
                       MeaningColumns(hop, tags_)};
    }
    for (NextHopGroup& group : groups) {
      groups_[group.id] = std::move(group.members);
    }
  }

  std::string Header() const {
    std::string header(kColumns);
    for (int i = 0; i < tags_; ++i) header += ",tag";
    return header += '\n';
  }

  std::string Rows(const Route& route) const {
    std::string rows;
    const auto group = groups_.find(route.next_hop);
    // Of a group with a member that is but an id, its own id says more.
    if (group == groups_.end() ||
        !absl::c_all_of(group->second, [this](const auto& member) {
          return hops_.contains(member.next_hop);
        })) {
      AppendRow(route.prefix, {route.next_hop, /*weight=*/0}, rows);
    } else {
      for (const NextHopGroup::Member& member : group->second) {
        AppendRow(route.prefix, member, rows);
      }
    }
    return rows;
  }

 private:
  struct Hop {
    std::string where;    // id, gateway, interface
    std::string meaning;  // the columns after the weight
  };

  void AppendRow(const Prefix& prefix, const NextHopGroup::Member& member,
                 std::string& rows) const {
    const auto hop = hops_.find(member.next_hop);
    absl::StrAppend(&rows, prefix.ToString(), ",");
    if (hop == hops_.end()) {
      absl::StrAppend(&rows, member.next_hop, ",,,");
    } else {
      absl::StrAppend(&rows, hop->second.where, ",");
    }
    if (member.weight != 0) absl::StrAppend(&rows, member.weight);
    absl::StrAppend(&rows, ",",
                    hop == hops_.end() ? no_meaning_ : hop->second.meaning,
                    "\n");
  }

  int tags_ = 0;
  std::string no_meaning_;  // of what is but an id
  std::map<NextHopId, Hop> hops_;
  std::map<NextHopId, std::vector<NextHopGroup::Member>> groups_;
};

ExitCode RunConvert(const Arguments& arguments) {
  RouteCollector collector;
  const auto report =
      ReadRoutes(arguments[0], absl::GetFlag(FLAGS_strict), collector);
  if (!report.ok()) return FailFile(report.status());
  CsvTable table(collector.TakeNextHops(), collector.TakeGroups());
  std::string text = table.Header();
  bool written = true;
  for (const Route& route : collector.TakeRoutes()) {
    text += table.Rows(route);
    if (text.size() < 1 << 16) continue;
    written &= std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    text.clear();
  }
  written &= std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
             std::fflush(stdout) == 0;
  if (!written) return FailUsage("cannot write the standard output");
  return report->whole() ? ExitCode::kOk : ExitCode::kNegative;
}

const RegisteredCommand kConvertCommand({
    .name = "convert",
    .arguments = "FILE",
    .summary = "print a routing table of any form as CSV",
    .description =
        "Reads FILE (\"-\": the standard input) as \"load\" does, in each of "
        "its forms, and prints its routes as the CSV that planb-feed reads: "
        "sorted, a row for each next hop of a route, and what next hops mean "
        "in place of their ids. One without a gateway, an interface and a "
        "label stays an id, and so does a group that has such a member. The "
        "label of a group, and the weight of a next hop that no group has, are "
        "not in the rows. With --strict a malformed record is an error; else "
        "it is left out, and the "
        "exit code is 1. Needs no server.",
    .flags = {"next_hop", "csv_columns", "attributes", "allow_empty", "strict"},
    .run = RunConvert,
    .needs_server = false,
});

const RegisteredCommand kGenerateCommand({
    .name = "generate",
    .arguments = "[FILE]",
    .summary = "make up a routing table like the Internet's",
    .description =
        "Writes a synthetic routing table to FILE, or to the standard "
        "output, as text, \"PREFIX/LEN NEXTHOP\" a line, sorted: --routes IPv6 "
        "routes with the Internet's mix of "
        "prefix lengths, clustered in allocations, and --ipv4 IPv4 "
        "routes, at most 10,000,000 together. The same numbers and --seed make "
        "the same table on every "
        "machine. Needs no server.",
    .flags = {"routes", "ipv4", "seed", "next_hops"},
    .run = Run,
    .needs_server = false,
});

}  // namespace
}  // namespace planb::client
