// What planbctl says about itself.

#ifndef PLANB_CLIENT_PLANBCTL_HELP_H_
#define PLANB_CLIENT_PLANBCTL_HELP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/planbctl/command.h"

namespace planb::client {

// The program: its commands, global flags and exit codes.
std::string ProgramHelp();

// One group of commands, such as "routes"; empty if there is none.
std::string GroupHelp(absl::string_view group);

// One command: its arguments, what it does, its flags with their defaults.
std::string CommandHelp(const Command& command);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_HELP_H_
