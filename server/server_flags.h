// SPDX-License-Identifier: Apache-2.0

// The command line of planb_server: every flag it takes, and what they mean.

#ifndef PLANB_SERVER_SERVER_FLAGS_H_
#define PLANB_SERVER_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server.h"

namespace planb::server {

struct CommandLine {
  ServerOptions server;
  // How long to finish what is in flight on SIGTERM.
  absl::Duration drain_timeout;
  // As SetLogLevel takes it, which judges it.
  std::string log_level;
  // As SetLogFormat takes it, likewise.
  std::string log_format;
  // As OpenStore takes them, which judges them.
  std::string store;
  std::string store_sync;
};

// Reads the command line. Unknown flags, values that are none of their flag's
// type, --help and --version end the process. To be called once.
// Errors: INVALID_ARGUMENT, for people: an argument that is no flag, or what
// nobody can mean. Server::Start judges the rest.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// What the flags say now. Errors: as above.
absl::StatusOr<CommandLine> ReadFlags();

}  // namespace planb::server

#endif  // PLANB_SERVER_SERVER_FLAGS_H_
