// planbctl announce and planbctl withdraw: change a few routes, all or none.

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/command.h"
#include "client/convert.h"
#include "client/flags.h"
#include "client/output.h"
#include "client/session.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

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

void Print(const v1::UpdateRoutesResponse& response, bool dry_run) {
  if (absl::GetFlag(FLAGS_json)) {
    output::Update line;
    line.set_generation(static_cast<double>(response.generation()));
    line.set_visible_generation(
        static_cast<double>(response.visible_generation()));
    line.set_added(static_cast<double>(response.added()));
    line.set_changed(static_cast<double>(response.changed()));
    line.set_removed(static_cast<double>(response.removed()));
    line.set_unchanged(static_cast<double>(response.unchanged()));
    line.set_dry_run(dry_run);
    absl::PrintF("%s", JsonLine(line));
    return;
  }
  absl::PrintF(
      "generation %d (visible: %d): %d added, %d changed, %d removed, %d "
      "unchanged%s\n",
      response.generation(), response.visible_generation(), response.added(),
      response.changed(), response.removed(), response.unchanged(),
      dry_run ? " (dry run: nothing was changed)" : "");
}

ExitCode Send(v1::UpdateRoutesRequest request) {
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_ack(absl::GetFlag(FLAGS_ack) == AckChoice::kAccepted
                      ? v1::ACK_ACCEPTED
                      : v1::ACK_VISIBLE);
  if (const auto expected = absl::GetFlag(FLAGS_expected_generation)) {
    request.set_expected_generation(*expected);
  }
  request.set_validate_only(absl::GetFlag(FLAGS_dry_run));
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto response =
      TableClient(*channel).UpdateRoutes(request, CallDeadline());
  if (!response.ok()) return Fail(response.status());
  Print(*response, request.validate_only());
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
    uint32_t next_hop = 0;
    if (!absl::SimpleAtoi(arguments[i + 1], &next_hop) ||
        !IsNextHop(next_hop)) {
      return FailUsage(absl::StrCat("next hop \"", arguments[i + 1],
                                    "\" is not a number of 1..4294967294"));
    }
    if (!AddUpdate(op, arguments[i], next_hop, request)) {
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
    .flags = {"ack", "strict", "expected_generation", "dry_run"},
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
    .flags = {"ack", "strict", "expected_generation", "dry_run"},
    .run = Withdraw,
};

}  // namespace planb::client
