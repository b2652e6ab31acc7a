// SPDX-License-Identifier: Apache-2.0

// planbctl routes list, get and explain: read the routes of a table.

#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "planb/client/output_routes.pb.h"

namespace planb::client {

namespace {

// One route a line, a format that "load" reads.
void Print(const Route& route, bool json) {
  if (json) {
    output::Route line;
    line.set_prefix(route.prefix.ToString());
    line.set_next_hop(route.next_hop);
    absl::PrintF("%s", JsonLine(line));
  } else {
    absl::PrintF("%-24s %d\n", route.prefix.ToString(), route.next_hop);
  }
}

ExitCode List(const Arguments& arguments) {
  if (arguments.size() > 1) return FailUsage("routes list takes one prefix");
  const std::optional<MatchChoice> match = absl::GetFlag(FLAGS_match);
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_next_hop_id(absl::GetFlag(FLAGS_next_hop));
  if (arguments.empty()) {
    if (match.has_value()) return FailUsage("--match needs a prefix");
  } else {
    const auto prefix = Prefix::Parse(arguments[0]);
    if (!prefix.ok()) return FailUsage(prefix.status().message());
    *request.mutable_prefix() = ToProto(*prefix);
    request.set_match(match.value_or(MatchChoice()).match);
  }
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const bool json = absl::GetFlag(FLAGS_json);
  const auto generation = TableClient(*channel).ListRoutes(
      request,
      [json](const Route& route) {
        Print(route, json);
        return absl::OkStatus();
      },
      CallDeadline());
  return generation.ok() ? ExitCode::kOk : Fail(generation.status());
}

ExitCode Get(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("routes get takes one prefix");
  const auto prefix = Prefix::Parse(arguments[0]);
  if (!prefix.ok()) return FailUsage(prefix.status().message());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto route = TableClient(*channel).GetRoute(absl::GetFlag(FLAGS_table),
                                                    *prefix, CallDeadline());
  const bool json = absl::GetFlag(FLAGS_json);
  if (route.ok()) {
    Print(*route, json);
    return ExitCode::kOk;
  }
  if (ErrorReason(route.status()) != "ROUTE_NOT_FOUND") {
    return Fail(route.status());
  }
  if (json) {
    Print({*prefix, kNoRoute}, json);
  } else {
    absl::PrintF("%-24s no route\n", prefix->ToString());
  }
  return ExitCode::kNegative;
}

}  // namespace

const Command kRoutesListCommand = {
    .name = "routes list",
    .arguments = "[PREFIX]",
    .summary = "print routes of a table",
    .description =
        "Prints the routes of the generation that lookups see, one a "
        "line: \"PREFIX NEXTHOP\", a format that \"load\" reads. IPv4 comes "
        "first, and the lines are sorted. With PREFIX, prints only the "
        "routes that --match selects. The whole list must arrive within "
        "--timeout.",
    .flags = {"match", "next_hop"},
    .run = List,
};

const Command kRoutesGetCommand = {
    .name = "routes get",
    .arguments = "PREFIX",
    .summary = "print the route of exactly this prefix",
    .description =
        "Prints the route of exactly PREFIX, in the format of \"routes "
        "list\". Exits with 1 if there is none.",
    .flags = {},
    .run = Get,
};

namespace {

// Errors: INVALID_ARGUMENT for an explanation that breaks the contract.
absl::StatusOr<output::Explanation> Explain(
    const Address& address, const v1::ExplainLookupResponse& response) {
  output::Explanation explanation;
  explanation.set_address(address.ToString());
  explanation.set_generation(Number(response.generation()));
  explanation.set_next_hop(response.next_hop_id());
  for (const v1::Route& match : response.matches()) {
    const auto route = FromProto(match);
    if (!route.ok()) return route.status();
    output::Route* line = explanation.add_matches();
    line->set_prefix(route->prefix.ToString());
    line->set_next_hop(route->next_hop);
  }
  if (response.has_next_hop()) {
    const auto object = FromProto(response.next_hop());
    if (!object.ok()) return object.status();
    *explanation.mutable_object() = Describe(*object);
  }
  if (response.has_group()) {
    *explanation.mutable_group() = Describe(FromProto(response.group()));
  }
  if (response.member_id() != kNoRoute) {
    explanation.set_member(response.member_id());
  }
  if (response.has_member()) {
    const auto object = FromProto(response.member());
    if (!object.ok()) return object.status();
    *explanation.mutable_member_object() = Describe(*object);
  }
  return explanation;
}

void PrintText(const output::Explanation& explanation,
               const v1::ExplainLookupResponse& response) {
  PrintField("address", explanation.address());
  PrintField("generation", absl::StrFormat("%.0f", explanation.generation()));
  PrintField("next hop", explanation.next_hop() == kNoRoute
                             ? "no route"
                             : absl::StrCat(explanation.next_hop()));
  if (response.has_next_hop()) {
    PrintField("object", TextOf(*FromProto(response.next_hop())));
  }
  if (response.has_group()) {
    PrintField("group", TextOf(FromProto(response.group())));
  }
  if (explanation.has_member()) {
    PrintField("member", absl::StrCat(explanation.member()));
  }
  if (response.has_member()) {
    PrintField("member object", TextOf(*FromProto(response.member())));
  }
  bool wins = true;
  for (const output::Route& match : explanation.matches()) {
    absl::PrintF("%c %-22s %d\n", wins ? '*' : ' ', match.prefix(),
                 match.next_hop());
    wins = false;
  }
}

ExitCode Run(const Arguments& arguments) {
  if (arguments.size() != 1) {
    return FailUsage("routes explain takes one address");
  }
  const auto address = Address::Parse(arguments[0]);
  if (!address.ok()) return FailUsage(address.status().message());
  v1::ExplainLookupRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_address(address->ToPacked());
  if (const auto flow = absl::GetFlag(FLAGS_flow_hash)) {
    request.set_flow_hash(*flow);
  }
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto response =
      TableClient(*channel).ExplainLookup(request, CallDeadline());
  if (!response.ok()) return Fail(response.status());
  const auto explanation = Explain(*address, *response);
  if (!explanation.ok()) {
    return Fail(BrokenContract(explanation.status().message()));
  }
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(*explanation));
  } else {
    PrintText(*explanation, *response);
  }
  const uint32_t best = explanation->matches().empty()
                            ? kNoRoute
                            : explanation->matches(0).next_hop();
  if (best != explanation->next_hop()) {
    return Fail(absl::InternalError(
        absl::StrCat("lookups answer ", explanation->next_hop(),
                     ", but the longest route leads to ", best)));
  }
  return best == kNoRoute ? ExitCode::kNegative : ExitCode::kOk;
}

}  // namespace

const Command kRoutesExplainCommand = {
    .name = "routes explain",
    .arguments = "ADDRESS",
    .summary = "show why an address goes where it goes",
    .description =
        "Shows the next hop of ADDRESS, the object of the next hop, and "
        "every route whose prefix contains ADDRESS, the longest first. "
        "The longest decides and is marked with \"*\". If the next hop is a "
        "group, shows its members (ID*WEIGHT) and, with --flow_hash, the "
        "member that the flow takes. Exits with 1 if ADDRESS has no "
        "route, and with 3 if the answer is not the next hop of the "
        "longest route.",
    .flags = {"flow_hash"},
    .run = Run,
};

}  // namespace planb::client
