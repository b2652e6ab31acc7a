// planbctl status: what the server and one of its tables are doing.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "client/planbctl/check_health.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/session.h"
#include "client/planbctl/table_output.h"
#include "client/planbctl/text_output.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

ExitCode Run(const Arguments& arguments) {
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
    .run = Run,
};

}  // namespace planb::client
