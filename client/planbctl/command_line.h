// SPDX-License-Identifier: Apache-2.0

// Reads the command line: flags by absl, in any place, then the command and
// its arguments.
//
// absl's own ParseCommandLine ends the program with status 1 on a mistake,
// which here means "answered, but negative", and knows nothing of commands. So
// the words are taken apart here, and absl parses the values.

#ifndef PLANB_CLIENT_PLANBCTL_COMMAND_LINE_H_
#define PLANB_CLIENT_PLANBCTL_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace planb::client {

struct CommandLine {
  // The words that are no flags.
  std::vector<std::string> words;
  // Names of the flags given.
  std::vector<std::string> flags;
  // --help or -h was among them.
  bool help = false;
  // --version was among them.
  bool version = false;
};

// Reads `arguments` (without the program's name) and sets the flags. Flags are
// --name=value, --name value, and for bool flags --name and --noname; "--"
// ends them, and "-" is a word.
// Errors: INVALID_ARGUMENT, naming an unknown flag or the value it refuses.
absl::StatusOr<CommandLine> ParseCommandLine(
    absl::Span<const char* const> arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_COMMAND_LINE_H_
