// The commands of planbctl, as a table: each cmd_*.cc defines its own entries.

#ifndef PLANB_CLIENT_COMMAND_H_
#define PLANB_CLIENT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/exit_code.h"

namespace planb::client {

using Arguments = std::vector<std::string>;

struct Command {
  absl::string_view name;
  // What follows the name, such as "ADDR...".
  absl::string_view arguments;
  // One line without a full stop.
  absl::string_view summary;
  // Paragraphs, apart by "\n\n"; wrapped by whoever shows them.
  absl::string_view description;
  // Names of the flags it takes besides the global ones.
  std::vector<absl::string_view> flags;
  ExitCode (*run)(const Arguments& arguments);
  // False if it does its work without one.
  bool needs_server = true;
};

extern const Command kLookupCommand;
extern const Command kAnnounceCommand;
extern const Command kWithdrawCommand;
extern const Command kLoadCommand;
extern const Command kStatusCommand;
extern const Command kHealthCommand;
extern const Command kBenchCommand;
extern const Command kGenerateCommand;
extern const Command kVerifyCommand;

// All of them, in the order in which help shows them.
absl::Span<const Command* const> AllCommands();

// The command of that name, or null.
const Command* FindCommand(absl::string_view name);

// Flags that every command takes.
absl::Span<const absl::string_view> GlobalFlags();

}  // namespace planb::client

#endif  // PLANB_CLIENT_COMMAND_H_
