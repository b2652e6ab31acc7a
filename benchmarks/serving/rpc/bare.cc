// SPDX-License-Identifier: Apache-2.0

// Runs a bare gRPC server until SIGTERM or SIGINT.
//
//   bare --table=real --listen=127.0.0.1:50052

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "base/process_setup.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/serving/rpc/bare_server.h"

ABSL_FLAG(std::vector<std::string>, listen, {"unix:///tmp/planb_bare.sock"},
          "Where: unix:///path or host:port.");
ABSL_FLAG(std::string, table, "real", "as benchmarks/engine/inputs.h has them");

namespace planb::rpc {
namespace {

int Refuse(const absl::Status& status) {
  absl::FPrintF(stderr, "bare: %s\n", std::string(status.message()));
  return 1;
}

int Main() {
  SetUpProcess();
  // Blocked before the first thread starts, so that only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const auto routes = MakeIpv6Routes(absl::GetFlag(FLAGS_table));
  if (!routes.ok()) return Refuse(routes.status());
  const auto fib = Fib::Build(Family::kIpv6, *routes);
  if (!fib.ok()) return Refuse(fib.status());
  const auto server = BareServer::Start(absl::GetFlag(FLAGS_listen), **fib);
  if (!server.ok()) return Refuse(server.status());
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}

}  // namespace
}  // namespace planb::rpc

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("A bare gRPC server that answers BatchLookup.");
  absl::ParseCommandLine(argc, argv);
  return planb::rpc::Main();
}
