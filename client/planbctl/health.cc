// planbctl health: for exec probes, which want an exit code.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/check_health.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

ExitCode Run(const Arguments& arguments) {
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
    .run = Run,
};

}  // namespace planb::client
