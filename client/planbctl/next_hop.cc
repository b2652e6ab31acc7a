// SPDX-License-Identifier: Apache-2.0

// planbctl nexthop and planbctl group: the objects behind the ids of routes.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/attributes.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"
#include "client/planbctl/table_objects.h"
#include "client/table_client.h"

ABSL_FLAG(std::string, gateway, "", "Address of the gateway; empty: none.");
ABSL_FLAG(std::string, interface, "", "Outgoing interface; empty: none.");
ABSL_FLAG(uint32_t, weight, 1,
          "Weight in groups that \"group set\" gives no weight of their own.");
ABSL_FLAG(std::string, label, "", "Free text.");
ABSL_FLAG(uint32_t, origin_as, 0, "The AS that routes come from; 0: unknown.");
ABSL_FLAG(std::string, as_path, "",
          "AS path, the nearest first: \"64500 64496 {64510,64511}\".");
ABSL_FLAG(std::string, communities, "", "Communities: \"64500:1 64500:2\".");
ABSL_FLAG(std::string, extended_communities, "",
          "Extended communities: \"0x0002fbf400000064\".");
ABSL_FLAG(std::string, large_communities, "",
          "Large communities: \"64500:1:2\".");
ABSL_FLAG(std::optional<uint32_t>, local_preference, std::nullopt,
          "LOCAL_PREF of routes.");
ABSL_FLAG(std::optional<uint32_t>, med, std::nullopt,
          "MULTI_EXIT_DISC of routes.");
ABSL_FLAG(std::vector<std::string>, tag, {},
          "Free tags: \"site=ams,rack=12\".");
ABSL_FLAG(bool, unused, false,
          "Only objects that neither a route nor a group names.");

namespace planb::client {
namespace {

// Prints objects; in text, a column for each field, where that of ids has the
// heading `id` and lists are last.
template <typename Object>
ExitCode PrintObjects(const std::vector<Object>& objects, const char* id) {
  std::optional<TextTable> text;
  bool attributed = false;  // few tables are
  if constexpr (std::is_same_v<Object, NextHop>) {
    attributed = absl::c_any_of(objects, [](const NextHop& next_hop) {
      return !next_hop.attributes.empty();
    });
  }
  for (const Object& object : objects) {
    PrintedFields fields = FieldsOf(ToProto(object));
    if (WantedForm() != OutputForm::kTable) {
      absl::PrintF("%s", Record(fields));
      continue;
    }
    absl::c_stable_partition(fields, [](const PrintedField& field) {
      return !absl::StartsWith(field.json, "[");
    });
    std::vector<std::string> header, row;
    for (const PrintedField& field : fields) {
      if (field.name == "attributes" && !attributed) continue;
      header.push_back(field.name == "id" ? id : field.name);
      row.push_back(field.text);
    }
    if (!text.has_value()) text.emplace(header);
    text->AddRow(row);
  }
  if (text.has_value()) absl::PrintF("%s", text->ToString());
  return ExitCode::kOk;
}

absl::StatusOr<NextHopList> List(const TableClient& client) {
  return client.ListNextHops(absl::GetFlag(FLAGS_table), CallDeadline());
}

// The groups that no route names and the next hops that neither a route nor a
// group names, as lookups see it. Errors: those of ListNextHops and ListRoutes.
absl::StatusOr<NextHopList> Unused(const TableClient& client) {
  auto list = List(client);
  if (!list.ok()) return list.status();
  uint64_t generation = 0;
  auto used = NamedIds(client, {}, generation);
  if (!used.ok()) return used.status();
  const std::vector<NextHopGroup> groups = std::exchange(list->groups, {});
  absl::c_copy_if(
      groups, std::back_inserter(list->groups),
      [&](const NextHopGroup& group) { return !used->contains(group.id); });
  for (const NextHopGroup& group : groups) {
    for (const auto& member : group.members) used->insert(member.next_hop);
  }
  std::erase_if(list->next_hops, [&](const NextHop& next_hop) {
    return used->contains(next_hop.id);
  });
  return list;
}

ExitCode ListNextHops(const Arguments&) {
  return CallServer(
      [](const auto& channel) -> absl::StatusOr<std::vector<NextHop>> {
        const TableClient client(channel);
        auto list = absl::GetFlag(FLAGS_unused) ? Unused(client) : List(client);
        if (!list.ok()) return list.status();
        return std::move(list->next_hops);
      },
      [](const std::vector<NextHop>& next_hops) {
        return PrintObjects(next_hops, "nexthop");
      });
}

ExitCode ListGroups(const Arguments&) {
  return CallServer(
      [](const auto& channel) { return List(TableClient(channel)); },
      [](const NextHopList& list) {
        return PrintObjects(list.groups, "group");
      });
}

ExitCode Send(v1::UpdateNextHopsRequest request) {
  SetConditions(request);
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).UpdateNextHops(request, CallDeadline());
      },
      PrintChange);
}

// What the flags say of routes. Errors: INVALID_ARGUMENT.
absl::StatusOr<v1::Attributes> AttributesOfFlags() {
  v1::Attributes attributes;
  attributes.set_origin_as(absl::GetFlag(FLAGS_origin_as));
  absl::Status status;
  const auto read = [&](const char* name, const std::string& text,
                        const auto& parse) {
    const absl::Status parsed = parse(text, attributes);
    if (parsed.ok()) return;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("--", name, ": ", parsed.message())));
  };
  read("as_path", absl::GetFlag(FLAGS_as_path), ParseAsPath);
  read("communities", absl::GetFlag(FLAGS_communities), ParseCommunities);
  read("extended_communities", absl::GetFlag(FLAGS_extended_communities),
       ParseExtendedCommunities);
  read("large_communities", absl::GetFlag(FLAGS_large_communities),
       ParseLargeCommunities);
  if (const auto number = absl::GetFlag(FLAGS_local_preference)) {
    attributes.set_local_preference(*number);
  }
  if (const auto number = absl::GetFlag(FLAGS_med)) {
    attributes.set_med(*number);
  }
  for (const std::string& tag : absl::GetFlag(FLAGS_tag)) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(tag, absl::MaxSplits('=', 1));
    attributes.add_tags()->set_key(parts.first);
    attributes.mutable_tags()->rbegin()->set_value(parts.second);
  }
  if (!status.ok()) return status;
  return attributes;
}

ExitCode SetNextHop(const Arguments& arguments) {
  const auto id = ParseNextHopId(arguments[0]);
  if (!id.ok()) return FailUsage(id.status().message());
  NextHop next_hop = {.id = *id,
                      .gateway = {},
                      .interface = absl::GetFlag(FLAGS_interface),
                      .weight = absl::GetFlag(FLAGS_weight),
                      .label = absl::GetFlag(FLAGS_label)};
  if (const std::string text = absl::GetFlag(FLAGS_gateway); !text.empty()) {
    const auto gateway = Address::Parse(text);
    if (!gateway.ok()) {
      return FailUsage(absl::StrCat("--gateway: ", gateway.status().message()));
    }
    next_hop.gateway = *gateway;
  }
  const auto attributes = AttributesOfFlags();
  if (!attributes.ok()) return FailUsage(attributes.status().message());
  v1::UpdateNextHopsRequest request;
  v1::NextHop& upsert = *request.add_upserts();
  upsert = ToProto(next_hop);
  if (attributes->ByteSizeLong() > 0) {
    *upsert.mutable_attributes() = *attributes;
  }
  return Send(std::move(request));
}

// Reads ID or ID*WEIGHT.
absl::StatusOr<NextHopGroup::Member> ParseMember(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '*');
  const auto id = ParseNextHopId(parts[0]);
  if (!id.ok()) return id.status();
  // Without a weight, the server takes that of the next hop.
  NextHopGroup::Member member = {.next_hop = *id, .weight = 0};
  if (parts.size() == 2) member.weight = ParseDecimal(parts[1]).value_or(0);
  if (parts.size() > 2 || (parts.size() == 2 && member.weight == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("member \"", text, "\" is not ID or ID*WEIGHT"));
  }
  return member;
}

ExitCode SetGroup(const Arguments& arguments) {
  const auto id = ParseNextHopId(arguments[0]);
  if (!id.ok()) return FailUsage(id.status().message());
  NextHopGroup group = {
      .id = *id, .members = {}, .label = absl::GetFlag(FLAGS_label)};
  for (size_t i = 1; i < arguments.size(); ++i) {
    const auto member = ParseMember(arguments[i]);
    if (!member.ok()) return FailUsage(member.status().message());
    group.members.push_back(*member);
  }
  v1::UpdateNextHopsRequest request;
  *request.add_group_upserts() = ToProto(group);
  return Send(std::move(request));
}

// Deletes the given ids. `add` puts an id into the request.
ExitCode Delete(const Arguments& arguments,
                void (v1::UpdateNextHopsRequest::*add)(uint32_t)) {
  v1::UpdateNextHopsRequest request;
  for (const std::string& argument : arguments) {
    const auto id = ParseNextHopId(argument);
    if (!id.ok()) return FailUsage(id.status().message());
    (request.*add)(*id);
  }
  return Send(std::move(request));
}

ExitCode DeleteNextHops(const Arguments& arguments) {
  return Delete(arguments, &v1::UpdateNextHopsRequest::add_delete_ids);
}

// Deletes unused objects, --chunk in a call. The list is made again for the
// members of groups that are gone, and if the server refuses, since an object
// got a route.
ExitCode Prune(const Arguments&) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const TableClient client(*channel);
  const Deadline deadline = CallDeadline();
  const size_t chunk = std::max<size_t>(absl::GetFlag(FLAGS_chunk), 1);
  v1::UpdateNextHopsResponse sum;
  while (true) {
    const auto unused = Unused(client);
    if (!unused.ok()) return Fail(unused.status());
    const std::vector<NextHopGroup>& groups = unused->groups;
    const size_t all = groups.size() + unused->next_hops.size();
    absl::Status status;
    size_t next = 0;
    do {
      v1::UpdateNextHopsRequest request;
      SetConditions(request);
      for (const size_t end = std::min(all, next + chunk); next < end; ++next) {
        if (next < groups.size()) {
          request.add_delete_group_ids(groups[next].id);
        } else {
          request.add_delete_ids(unused->next_hops[next - groups.size()].id);
        }
      }
      const auto response = client.UpdateNextHops(request, CallDeadline());
      status = response.status();
      if (!status.ok()) break;
      const uint64_t removed = sum.removed() + response->removed();
      sum = *response;
      sum.set_removed(removed);
    } while (next < all);
    if (status.ok() && (groups.empty() || absl::GetFlag(FLAGS_dry_run))) {
      return PrintChange(sum);
    }
    if (status.ok()) continue;
    const std::string reason = ErrorReason(status);
    if ((reason != "NEXT_HOP_IN_USE" && reason != "NEXT_HOP_NOT_FOUND" &&
         reason != "GROUP_NOT_FOUND") ||
        MonotonicNow() > deadline.time()) {
      return Fail(status);
    }
    // Lookups may not see the route yet.
    absl::SleepFor(absl::Milliseconds(10));
  }
}

ExitCode DeleteGroups(const Arguments& arguments) {
  return Delete(arguments, &v1::UpdateNextHopsRequest::add_delete_group_ids);
}

const RegisteredCommand kNextHopListCommand({
    .name = "nexthop list",
    .summary = "show the next-hop objects of a table",
    .description =
        "Shows the next-hop objects of the table, one a line: id, "
        "gateway, interface, weight, label and, if one has any, attributes: "
        "what routes to it mean. With --unused, only those that "
        "neither a route nor a group names: \"nexthop prune\" deletes them.",
    .flags = {"unused"},
    .run = ListNextHops,
});

const RegisteredCommand kNextHopSetCommand({
    .name = "nexthop set",
    .arguments = "ID",
    .summary = "say what a next hop is",
    .description =
        "Adds or replaces the object of the next hop ID. Fields that are "
        "not given become empty. Routes may use a next hop with or "
        "without an object.",
    .flags = ChangeFlags({"gateway", "interface", "weight", "label",
                          "origin_as", "as_path", "communities",
                          "extended_communities", "large_communities",
                          "local_preference", "med", "tag"}),
    .run = SetNextHop,
});

const RegisteredCommand kNextHopDeleteCommand({
    .name = "nexthop delete",
    .arguments = "ID...",
    .summary = "delete next-hop objects",
    .description =
        "Deletes the objects of next hops, all or none. An object that a "
        "route or a group uses cannot be deleted.",
    .flags = ChangeFlags(),
    .run = DeleteNextHops,
});

const RegisteredCommand kNextHopPruneCommand({
    .name = "nexthop prune",
    .summary = "delete next-hop objects and groups that nothing uses",
    .description =
        "Deletes the groups that no route names and the objects of next hops "
        "that neither a route nor another group names, in chunks. The server "
        "refuses to delete one that is in use, so a route that is announced "
        "meanwhile keeps what it names. One that still waits for its first "
        "route is deleted. Prints how many were removed.",
    .flags = {"ack", "ack_replicas", "dry_run", "writer_epoch", "chunk"},
    .run = Prune,
});

const RegisteredCommand kGroupListCommand({
    .name = "group list",
    .summary = "show the next-hop groups of a table",
    .description =
        "Shows the groups of next hops that share traffic: id, label, and "
        "members in the form of \"group set\".",
    .run = ListGroups,
});

const RegisteredCommand kGroupSetCommand({
    .name = "group set",
    .arguments = "ID MEMBER...",
    .summary = "say which next hops share traffic",
    .description =
        "Adds or replaces a group. Routes use ID like the id of a next "
        "hop, and no next hop may have the same ID. MEMBER is the id of a "
        "next hop, or ID*WEIGHT. Each member gets a share of the flows by "
        "its weight; the default is the weight that \"nexthop set\" gave the "
        "next hop, else 1. A later \"nexthop set\" does not change groups.",
    .flags = ChangeFlags({"label"}),
    .run = SetGroup,
});

const RegisteredCommand kGroupDeleteCommand({
    .name = "group delete",
    .arguments = "ID...",
    .summary = "delete next-hop groups",
    .description =
        "Deletes groups, all or none. A group that a route uses cannot be "
        "deleted.",
    .flags = ChangeFlags(),
    .run = DeleteGroups,
});

}  // namespace
}  // namespace planb::client
