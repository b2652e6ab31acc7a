// SPDX-License-Identifier: Apache-2.0

// One form of answer for all changes.

#include "client/planbctl/change.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace planb::client {

v1::Ack AckFromFlag() {
  switch (absl::GetFlag(FLAGS_ack)) {
    case AckChoice::kAccepted:
      return v1::ACK_ACCEPTED;
    case AckChoice::kVisible:
      return v1::ACK_VISIBLE;
    case AckChoice::kPersisted:
      return v1::ACK_PERSISTED;
  }
  return v1::ACK_UNSPECIFIED;
}

std::vector<absl::string_view> ChangeFlags(
    std::vector<absl::string_view> more) {
  std::vector<absl::string_view> flags = {"ack", "expected_generation",
                                          "dry_run", "writer_epoch"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void PrintChange(const output::Update& update) {
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(update));
    return;
  }
  const std::string unchanged =
      update.has_unchanged()
          ? absl::StrFormat(", %.0f unchanged", update.unchanged())
          : "";
  const std::string persisted =
      update.persisted_generation() > 0
          ? absl::StrFormat(", persisted: %.0f", update.persisted_generation())
          : "";
  absl::PrintF(
      "generation %.0f (visible: %.0f%s): %.0f added, %.0f changed, %.0f "
      "removed%s%s\n",
      update.generation(), update.visible_generation(), persisted,
      update.added(), update.changed(), update.removed(), unchanged,
      update.dry_run() ? " (dry run: nothing was changed)" : "");
}

absl::StatusOr<NextHopId> ParseNextHopId(absl::string_view text) {
  NextHopId id = kNoRoute;
  if (!absl::SimpleAtoi(text, &id) || !IsNextHop(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "next hop \"", text, "\" is not a number of 1..4294967294"));
  }
  return id;
}

}  // namespace planb::client
