// SPDX-License-Identifier: Apache-2.0

// planb_server: the longest-prefix-match service as a process.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/process_setup.h"
#include "server/base/log.h"
#include "server/base/malloc_trim.h"
#include "server/base/periodic.h"
#include "server/server.h"
#include "server/server_flags.h"
#include "server/stop_signals.h"
#include "server/store/sqlite_store.h"

namespace {

using planb::server::Log;
using planb::server::LogLevel;

// One line, whatever went wrong.
int Refuse(const absl::Status& status) {
  std::string line(status.message());
  // Libraries' messages may have several, such as those of SQLite's checks.
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (planb::server::LogsJson()) {
    Log(LogLevel::kError, "refused to start", {{"error", line}});
  } else {
    std::fprintf(stderr, "planb_server: %s\n", line.c_str());
  }
  return 1;
}

// A file that may not grow (RLIMIT_FSIZE) is an error of the write, as on a
// full disk, and no reason to die.
void SurviveFileLimits() { signal(SIGXFSZ, SIG_IGN); }

}  // namespace

int main(int argc, char** argv) {
  planb::SetUpProcess();
  SurviveFileLimits();
  const auto line = planb::server::ParseCommandLine(argc, argv);
  if (!line.ok()) return Refuse(line.status());
  const absl::Status level = planb::server::SetLogLevel(line->log_level);
  if (!level.ok()) return Refuse(level);
  const absl::Status format = planb::server::SetLogFormat(line->log_format);
  if (!format.ok()) return Refuse(format);

  planb::server::StopSignals stop;
  planb::server::ServerOptions options = line->server;
  auto store = planb::server::OpenStore(line->store, line->store_sync);
  if (!store.ok()) return Refuse(store.status());
  options.store = *std::move(store);
  auto server = planb::server::Server::Start(std::move(options));
  if (!server.ok()) return Refuse(server.status());
  stop.Serve();
  Log(LogLevel::kInfo, "serving");
  const planb::server::Periodic tidy(absl::Seconds(5), planb::server::TidyHeap);

  const int signal = stop.Await();
  Log(LogLevel::kInfo, "draining", {{"signal", signal}});
  (*server)->Drain(line->drain_timeout);
  Log(LogLevel::kInfo, "drained");
  return 0;
}
