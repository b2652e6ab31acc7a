// SPDX-License-Identifier: Apache-2.0

// planbctl status: what the server and one of its tables are doing. planbctl
// health: whether it serves, for exec probes, which want an exit code.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

ExitCode RunStatus(const Arguments& arguments) {
  if (!arguments.empty()) return FailUsage("status takes no arguments");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto table = TableClient(*channel).GetTable(absl::GetFlag(FLAGS_table),
                                                    CallDeadline());
  if (!table.ok()) return Fail(table.status());
  const auto health = CheckHealth(*channel, "", CallDeadline());
  if (!health.ok() && !absl::IsUnimplemented(health.status())) {
    return Fail(health.status());
  }
  output::Status status = Describe(*table);
  status.set_server(ServerTarget());
  status.set_health(health.ok()
                        ? HealthCheckResponse::ServingStatus_Name(*health)
                        : "UNIMPLEMENTED");
  if (!absl::GetFlag(FLAGS_json)) {
    PrintField("server",
               absl::StrCat(status.server(), " (", status.health(), ")"));
  }
  PrintTable(status);
  const bool serves = !health.ok() || *health == HealthCheckResponse::SERVING;
  return serves ? ExitCode::kOk : ExitCode::kNegative;
}

ExitCode RunHealth(const Arguments& arguments) {
  if (!arguments.empty()) return FailUsage("health takes no arguments");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const std::string service = absl::GetFlag(FLAGS_service);
  const auto health = CheckHealth(*channel, service, CallDeadline());
  if (!health.ok()) return Fail(health.status());
  const std::string& name = HealthCheckResponse::ServingStatus_Name(*health);
  if (absl::GetFlag(FLAGS_json)) {
    output::Health line;
    line.set_service(service);
    line.set_status(name);
    absl::PrintF("%s", JsonLine(line));
  } else {
    absl::PrintF("%s\n", name);
  }
  return *health == HealthCheckResponse::SERVING ? ExitCode::kOk
                                                 : ExitCode::kNegative;
}

}  // namespace

const Command kStatusCommand = {
    .name = "status",
    .arguments = "",
    .summary = "show the state of the server and of a table",
    .description =
        "Shows a table's generations, sizes, kernel, digest and prefix "
        "lengths, and the server's health. Exits with 1 if the server "
        "answers but does not serve.",
    .flags = {},
    .run = RunStatus,
};

const Command kHealthCommand = {
    .name = "health",
    .arguments = "",
    .summary = "ask whether the server serves",
    .description =
        "Asks the standard gRPC health service (grpc.health.v1) and "
        "prints SERVING or NOT_SERVING. Made for exec probes: exits with "
        "0 only if the server serves, with 1 if it says that it does not, "
        "with 3 if it does not know the service, and with 4 if it cannot "
        "be reached. Give it a --timeout below that of the probe.",
    .flags = {"service"},
    .run = RunHealth,
};

}  // namespace planb::client
