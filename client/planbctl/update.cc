// SPDX-License-Identifier: Apache-2.0

// planbctl announce and planbctl withdraw: change a few routes, all or none.

#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "client/convert.h"
#include "client/planbctl/change.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"

namespace planb::client {
namespace {

using v1::RouteUpdate;

// Appends one change. False, with a word on stderr, if `prefix` is malformed.
bool AddUpdate(RouteUpdate::Op op, const std::string& prefix, uint32_t next_hop,
               v1::UpdateRoutesRequest& request) {
  const auto parsed = Prefix::Parse(prefix);
  if (!parsed.ok()) {
    FailUsage(parsed.status().message());
    return false;
  }
  RouteUpdate* update = request.add_updates();
  update->set_op(op);
  *update->mutable_prefix() = ToProto(*parsed);
  update->set_next_hop_id(next_hop);
  return true;
}

ExitCode Send(v1::UpdateRoutesRequest request) {
  SetConditions(request);
  request.set_request_id(absl::GetFlag(FLAGS_request_id));
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto response =
      TableClient(*channel).UpdateRoutes(request, CallDeadline());
  if (!response.ok()) return Fail(response.status());
  PrintChange(DescribeRouteChange(*response));
  return ExitCode::kOk;
}

ExitCode Announce(const Arguments& arguments) {
  if (arguments.empty() || arguments.size() % 2 != 0) {
    return FailUsage("announce takes pairs of PREFIX and NEXTHOP");
  }
  const RouteUpdate::Op op = absl::GetFlag(FLAGS_strict)
                                 ? RouteUpdate::OP_INSERT
                                 : RouteUpdate::OP_UPSERT;
  v1::UpdateRoutesRequest request;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const auto next_hop = ParseNextHopId(arguments[i + 1]);
    if (!next_hop.ok()) return FailUsage(next_hop.status().message());
    if (!AddUpdate(op, arguments[i], *next_hop, request)) {
      return ExitCode::kUsage;
    }
  }
  return Send(std::move(request));
}

ExitCode Withdraw(const Arguments& arguments) {
  if (arguments.empty()) return FailUsage("withdraw takes prefixes");
  const RouteUpdate::Op op = absl::GetFlag(FLAGS_strict)
                                 ? RouteUpdate::OP_DELETE_STRICT
                                 : RouteUpdate::OP_DELETE;
  v1::UpdateRoutesRequest request;
  for (const std::string& argument : arguments) {
    if (!AddUpdate(op, argument, 0, request)) return ExitCode::kUsage;
  }
  return Send(std::move(request));
}

}  // namespace

const Command kAnnounceCommand = {
    .name = "announce",
    .arguments = "PREFIX NEXTHOP [PREFIX NEXTHOP]...",
    .summary = "add routes, or change their next hops",
    .description =
        "Announces routes in one step: all of them or none. NEXTHOP is "
        "the id of a next hop, 1 to 4294967294. Prints the generation "
        "that holds the change, and how many routes were added, changed "
        "or left as they were.",
    .flags = ChangeFlags({"strict", "request_id"}),
    .run = Announce,
};

const Command kWithdrawCommand = {
    .name = "withdraw",
    .arguments = "PREFIX...",
    .summary = "remove routes",
    .description =
        "Withdraws routes in one step: all of them or none. A prefix "
        "without a route is no error, unless --strict. Prints the "
        "generation that holds the change, and how many routes were "
        "removed.",
    .flags = ChangeFlags({"strict", "request_id"}),
    .run = Withdraw,
};

}  // namespace planb::client
