// SPDX-License-Identifier: Apache-2.0

// planbctl snapshot: whole tables to and from files.

#include <fstream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/change.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/snapshot_transfer.h"
#include "planb/client/output_routes.pb.h"

namespace planb::client {
namespace {

ExitCode Export(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("snapshot export takes one file");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  AtomicFile file(arguments[0]);
  if (!file.status().ok()) return FailUsage(file.status().message());
  const auto bytes = SnapshotTransfer(*channel).Export(
      absl::GetFlag(FLAGS_table), file, CallDeadline());
  if (!file.status().ok()) return FailUsage(file.status().message());
  if (!bytes.ok()) return Fail(bytes.status());
  if (arguments[0] == "-") return ExitCode::kOk;
  if (absl::GetFlag(FLAGS_json)) {
    output::Snapshot line;
    line.set_file(arguments[0]);
    line.set_bytes(Number(*bytes));
    absl::PrintF("%s", JsonLine(line));
  } else {
    absl::PrintF("%s: %d bytes\n", arguments[0], *bytes);
  }
  return ExitCode::kOk;
}

ExitCode Import(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("snapshot import takes one file");
  const std::string path = arguments[0] == "-" ? "/dev/stdin" : arguments[0];
  std::ifstream file(path, std::ios::binary);
  if (!file) return FailUsage(absl::StrCat("cannot read ", arguments[0]));
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  v1::ImportSnapshotRequest first;
  SetConditions(first);
  const auto response =
      SnapshotTransfer(*channel).Import(first, file, CallDeadline());
  if (file.bad()) return FailUsage(absl::StrCat("cannot read ", arguments[0]));
  if (!response.ok()) return Fail(response.status());
  PrintChange(DescribeRouteChange(*response));
  return ExitCode::kOk;
}

}  // namespace

const Command kSnapshotExportCommand = {
    .name = "snapshot export",
    .arguments = "FILE",
    .summary = "write a table to a file",
    .description =
        "Writes all of the table, as lookups see it, to FILE: routes, next "
        "hops and groups, with a checksum. FILE gets its name when it is "
        "complete and on the disk; if anything fails before, what was there "
        "stays. Only its owner may read it. \"-\" writes to the standard "
        "output, and nothing else there; the checksum tells an import of what "
        "broke off.",
    .flags = {},
    .run = Export,
};

const Command kSnapshotImportCommand = {
    .name = "snapshot import",
    .arguments = "FILE",
    .summary = "make a table what a snapshot says",
    .description =
        "Replaces all of the table, next hops and groups included, by what "
        "\"snapshot export\" wrote to FILE (\"-\": the standard input), in "
        "one step. A damaged file changes nothing.",
    .flags = ChangeFlags(),
    .run = Import,
};

}  // namespace planb::client
