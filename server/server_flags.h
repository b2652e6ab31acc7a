// SPDX-License-Identifier: Apache-2.0

// The command line of planb_server: its flags, and the options that they set.

#ifndef PLANB_SERVER_SERVER_FLAGS_H_
#define PLANB_SERVER_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server.h"
#include "server/store/open_store.h"

namespace planb::server {

// The fields that a flag sets have its default.
struct CommandLine {
  ServerOptions server = {.listen = {"unix:///run/planb/planb.sock"},
                          .metrics_address = "127.0.0.1:9464"};
  // How long calls in flight may take to end on SIGTERM.
  absl::Duration drain_timeout = absl::Seconds(5);
  // For SetLogLevel, which validates it.
  std::string log_level = "info";
  // For SetLogFormat, which validates it.
  std::string log_format = "text";
  // For SetPolling, which validates it.
  std::string polling = "auto";
  // For OpenStore, which validates it.
  StoreChoice store;
  OtlpOptions otlp;
  // Only check the flags, or only print them as YAML.
  bool check_config = false;
  bool print_config = false;
  // What is wrong with the flags by themselves. Options that depend on it have
  // their defaults.
  std::vector<absl::Status> problems = {};
};

// Sets the flags (SetFlags() of config.h) and reads them. --help and --version
// end the process with status 0; unknown flags and values of a wrong type on
// the command line end it with status 1. Call once. Errors: INVALID_ARGUMENT
// (an argument that is no flag, those of config.h, and the first of `problems`
// unless only to check).
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// Reads file, environment and command line again, as at the start. Returns the
// value of --log_level, which the caller sets, and the names of other flags
// that would change: these keep the values of the start. Errors: those of
// ParseCommandLine; no flag has changed then.
struct Reloaded {
  std::string log_level;
  std::vector<std::string> need_restart;
};
absl::StatusOr<Reloaded> ReloadFlags(int argc, char** argv);

// The options that the flags set now. Errors: as above.
absl::StatusOr<CommandLine> ReadFlags();

}  // namespace planb::server

#endif  // PLANB_SERVER_SERVER_FLAGS_H_
