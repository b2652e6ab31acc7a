// SPDX-License-Identifier: Apache-2.0

// The commands of planbctl, as a table: each command file defines its own
// entries.

#ifndef PLANB_CLIENT_PLANBCTL_COMMAND_H_
#define PLANB_CLIENT_PLANBCTL_COMMAND_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb::client {

// How planbctl ends. Scripts rely on these numbers.
enum class ExitCode : int {
  // Done as asked.
  kOk = 0,
  // The server answered, and the answer is no: an address or a prefix without a
  // route, a server that does not serve, an answer or a table that differs from
  // the file, a file of which a part could not be used.
  kNegative = 1,
  // The command line is wrong, or a local file or line cannot be used.
  kUsage = 2,
  // The server refused or failed, or did not answer in time.
  kFailed = 3,
  // The server cannot be reached, is draining, or went away.
  kUnreachable = 4,
};

// Says on stderr what went wrong between us and the server. Returns
// kUnreachable for UNAVAILABLE, kFailed for every other error.
ExitCode Fail(const absl::Status& error);

// Says on stderr what is wrong with the command line or a file; kUsage.
ExitCode FailUsage(absl::string_view message);

// The larger problem of two: a failure counts more than bad input, and that
// more than a negative answer.
ExitCode Worse(ExitCode a, ExitCode b);

using Arguments = std::vector<std::string>;

struct Command {
  // One word, or two: "routes list" belongs to the group "routes".
  absl::string_view name;
  // What follows the name, such as "ADDR...".
  absl::string_view arguments;
  // One line without a full stop.
  absl::string_view summary;
  // Paragraphs, apart by "\n\n"; help wraps them.
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
extern const Command kReplayCommand;
extern const Command kRoutesListCommand;
extern const Command kRoutesGetCommand;
extern const Command kRoutesExplainCommand;
extern const Command kRoutesWatchCommand;
extern const Command kRoutesReplaceCommand;
extern const Command kRoutesDiffCommand;
extern const Command kNextHopListCommand;
extern const Command kNextHopSetCommand;
extern const Command kNextHopDeleteCommand;
extern const Command kGroupListCommand;
extern const Command kGroupSetCommand;
extern const Command kGroupDeleteCommand;
extern const Command kTableListCommand;
extern const Command kTableShowCommand;
extern const Command kTableCreateCommand;
extern const Command kTableDeleteCommand;
extern const Command kSnapshotExportCommand;
extern const Command kSnapshotImportCommand;
extern const Command kStatusCommand;
extern const Command kHealthCommand;
extern const Command kBenchCommand;
extern const Command kGenerateCommand;
extern const Command kVerifyCommand;
extern const Command kSoakCommand;

// All of them, in the order in which help shows them.
absl::Span<const Command* const> AllCommands();

// The command whose name `words` begin with, or null.
const Command* FindCommand(absl::Span<const std::string> words);

// Words of its name.
size_t WordsIn(const Command& command);

// Those of a group, as above; none if there is no such group.
std::vector<const Command*> CommandsOf(absl::string_view group);

// Flags that every command takes.
absl::Span<const absl::string_view> GlobalFlags();

// What planbctl says about itself.
//
// The program: its commands, global flags and exit codes.
std::string ProgramHelp();

// One group of commands, such as "routes"; empty if there is none.
std::string GroupHelp(absl::string_view group);

// One command: its arguments, what it does, its flags with their defaults.
std::string CommandHelp(const Command& command);

// Reads the command line: flags by absl, in any place, then the command and
// its arguments.
//
// absl's own ParseCommandLine ends the program with status 1 on a mistake,
// which here means "answered, but negative", and knows nothing of commands. So
// the words are taken apart here, and absl parses the values.

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

#endif  // PLANB_CLIENT_PLANBCTL_COMMAND_H_
