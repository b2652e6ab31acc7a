// SPDX-License-Identifier: Apache-2.0

// planbctl nexthop and planbctl group: the objects behind the ids of routes.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"

ABSL_FLAG(std::string, gateway, "", "Address of the gateway; empty: none.");
ABSL_FLAG(std::string, interface, "", "Outgoing interface; empty: none.");
ABSL_FLAG(uint32_t, weight, 1, "Weight relative to other next hops.");
ABSL_FLAG(std::string, label, "", "Free text.");

namespace planb::client {
namespace {

// Lists the table's objects and prints those of `select`, by `row` in text.
template <typename Object>
ExitCode ListObjects(std::vector<Object> NextHopList::*select, TextTable text,
                     std::vector<std::string> (*row)(const Object&)) {
  return CallServer(
      [](const auto& channel) {
        return TableClient(channel).ListNextHops(absl::GetFlag(FLAGS_table),
                                                 CallDeadline());
      },
      [&](const NextHopList& list) {
        for (const Object& object : list.*select) {
          if (WantedForm() != OutputForm::kTable) {
            absl::PrintF("%s", Record(Describe(object)));
          } else {
            text.AddRow(row(object));
          }
        }
        absl::PrintF("%s", text.ToString());
        return ExitCode::kOk;
      });
}

ExitCode ListNextHops(const Arguments&) {
  return ListObjects<NextHop>(
      &NextHopList::next_hops,
      TextTable({"nexthop", "gateway", "interface", "weight", "label"}),
      [](const NextHop& hop) -> std::vector<std::string> {
        return {absl::StrCat(hop.id),
                hop.gateway.has_value() ? hop.gateway->ToString() : "",
                hop.interface, absl::StrCat(hop.weight), hop.label};
      });
}

ExitCode ListGroups(const Arguments&) {
  return ListObjects<NextHopGroup>(
      &NextHopList::groups, TextTable({"group", "label", "members"}),
      [](const NextHopGroup& group) -> std::vector<std::string> {
        return {absl::StrCat(group.id), group.label, MembersText(group)};
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
    if (!gateway.ok()) return FailUsage(gateway.status().message());
    next_hop.gateway = *gateway;
  }
  v1::UpdateNextHopsRequest request;
  *request.add_upserts() = ToProto(next_hop);
  return Send(std::move(request));
}

// Reads ID or ID*WEIGHT.
absl::StatusOr<NextHopGroup::Member> ParseMember(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '*');
  const auto id = ParseNextHopId(parts[0]);
  if (!id.ok()) return id.status();
  NextHopGroup::Member member = {.next_hop = *id};
  if (parts.size() > 2 ||
      (parts.size() == 2 &&
       (!absl::SimpleAtoi(parts[1], &member.weight) || member.weight == 0))) {
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

ExitCode DeleteGroups(const Arguments& arguments) {
  return Delete(arguments, &v1::UpdateNextHopsRequest::add_delete_group_ids);
}

}  // namespace

const Command kNextHopListCommand = {
    .name = "nexthop list",
    .summary = "show the next-hop objects of a table",
    .description =
        "Shows the next-hop objects of the table, one a line: id, "
        "gateway, interface, weight and label.",
    .run = ListNextHops,
};

const Command kNextHopSetCommand = {
    .name = "nexthop set",
    .arguments = "ID",
    .summary = "say what a next hop is",
    .description =
        "Adds or replaces the object of the next hop ID. Fields that are "
        "not given become empty. Routes may use a next hop with or "
        "without an object.",
    .flags = ChangeFlags({"gateway", "interface", "weight", "label"}),
    .run = SetNextHop,
};

const Command kNextHopDeleteCommand = {
    .name = "nexthop delete",
    .arguments = "ID...",
    .summary = "delete next-hop objects",
    .description =
        "Deletes the objects of next hops, all or none. An object that a "
        "route or a group uses cannot be deleted.",
    .flags = ChangeFlags(),
    .run = DeleteNextHops,
};

const Command kGroupListCommand = {
    .name = "group list",
    .summary = "show the next-hop groups of a table",
    .description =
        "Shows the groups of next hops that share traffic: id, label, and "
        "members in the form of \"group set\".",
    .run = ListGroups,
};

const Command kGroupSetCommand = {
    .name = "group set",
    .arguments = "ID MEMBER...",
    .summary = "say which next hops share traffic",
    .description =
        "Adds or replaces a group. Routes use ID like the id of a next "
        "hop, and no next hop may have the same ID. MEMBER is the id of a "
        "next hop, or ID*WEIGHT. Each member gets a share of the flows by "
        "its weight; the default weight is 1.",
    .flags = ChangeFlags({"label"}),
    .run = SetGroup,
};

const Command kGroupDeleteCommand = {
    .name = "group delete",
    .arguments = "ID...",
    .summary = "delete next-hop groups",
    .description =
        "Deletes groups, all or none. A group that a route uses cannot be "
        "deleted.",
    .flags = ChangeFlags(),
    .run = DeleteGroups,
};

}  // namespace planb::client
