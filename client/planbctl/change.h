// SPDX-License-Identifier: Apache-2.0

// What the commands that change a table share: conditions from the flags, and
// how the answer is shown.

#ifndef PLANB_CLIENT_PLANBCTL_CHANGE_H_
#define PLANB_CLIENT_PLANBCTL_CHANGE_H_

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "lpm/prefix.h"
#include "planb/client/output.pb.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// --ack
v1::Ack AckFromFlag();

// Names of the flags that SetConditions reads, and `more`.
std::vector<absl::string_view> ChangeFlags(
    std::vector<absl::string_view> more = {});

// Sets what all changes have: table, ack, conditions.
template <typename Request>
void SetConditions(Request& request) {
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_ack(AckFromFlag());
  if (const auto expected = absl::GetFlag(FLAGS_expected_generation)) {
    request.set_expected_generation(*expected);
  }
  request.set_validate_only(absl::GetFlag(FLAGS_dry_run));
  request.set_writer_epoch(absl::GetFlag(FLAGS_writer_epoch));
}

// What all answers to changes have.
template <typename Response>
output::Update DescribeChange(const Response& response) {
  output::Update update;
  update.set_generation(Number(response.generation()));
  update.set_visible_generation(Number(response.visible_generation()));
  update.set_persisted_generation(Number(response.persisted_generation()));
  update.set_added(Number(response.added()));
  update.set_changed(Number(response.changed()));
  update.set_removed(Number(response.removed()));
  update.set_dry_run(absl::GetFlag(FLAGS_dry_run));
  return update;
}

// The same for changes of routes.
template <typename Response>
output::Update DescribeRouteChange(const Response& response) {
  output::Update update = DescribeChange(response);
  update.set_unchanged(Number(response.unchanged()));
  return update;
}

void PrintChange(const output::Update& update);

// The id of a next hop or group.
// Errors: INVALID_ARGUMENT, saying what is wrong with which text.
absl::StatusOr<NextHopId> ParseNextHopId(absl::string_view text);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_CHANGE_H_
