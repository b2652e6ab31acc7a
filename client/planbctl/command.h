// SPDX-License-Identifier: Apache-2.0

// planbctl's commands, the command line, exit codes and help. Each command is
// defined in a file of its group.

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

// planbctl's exit codes. Scripts rely on these numbers.
enum class ExitCode : int {
  // Done as asked.
  kOk = 0,
  // The answer is negative: an address or a prefix without a route, a server
  // that is not serving, an answer or a table that differs from the file, a
  // file with unusable parts.
  kNegative = 1,
  // The command line is wrong, or a local file or line cannot be used.
  kUsage = 2,
  // The server refused or failed, or did not answer in time.
  kFailed = 3,
  // The server cannot be reached, is draining, or went away, or a table that is
  // awaited is not complete: a later attempt may pass.
  kUnreachable = 4,
};

// Prints the error of a call to stderr. Returns kUnreachable for UNAVAILABLE,
// kFailed for every other error.
ExitCode Fail(const absl::Status& error);

// Prints an error of the command line or a file to stderr. Returns kUsage.
ExitCode FailUsage(absl::string_view message);

// The worse of two: a failure is worse than bad input, and that is worse than a
// negative answer.
ExitCode Worse(ExitCode a, ExitCode b);

using Arguments = std::vector<std::string>;

struct Command {
  // One word, or two: "routes list" belongs to the group "routes".
  absl::string_view name;
  // The arguments after the name, such as "ID MEMBER..." or "[PREFIX]". Words
  // in brackets are optional. "..." allows more.
  absl::string_view arguments = "";
  // One line without a full stop.
  absl::string_view summary;
  // Paragraphs, separated by "\n\n". Help wraps them.
  absl::string_view description;
  // Names of its flags besides the global ones.
  std::vector<absl::string_view> flags = {};
  ExitCode (*run)(const Arguments& arguments);
  // False for a command that works without a server.
  bool needs_server = true;
};

// Adds a command to AllCommands(). One object for each command, of the
// namespace scope of its file: no other file needs its name.
class RegisteredCommand {
 public:
  explicit RegisteredCommand(Command command);

 private:
  const Command command_;
};

// All commands, by name.
absl::Span<const Command* const> AllCommands();

// The command with a name at the beginning of `words`, or null.
const Command* FindCommand(absl::Span<const std::string> words);

// Number of words in its name.
size_t WordsIn(const Command& command);

// True if the command takes so many arguments.
bool Takes(const Command& command, size_t count);

// The commands of a group; none if there is no such group.
std::vector<const Command*> CommandsOf(absl::string_view group);

// Their second words.
std::vector<absl::string_view> NamesIn(absl::string_view group);

// Flags that every command takes.
absl::Span<const absl::string_view> GlobalFlags();

// What fits a screen: the commands, the flags used most and the exit codes.
std::string ProgramHelp();

// The flags that every command takes, with their defaults.
std::string GlobalFlagsHelp();

// Each command with its summary, the global flags, exit codes and examples.
std::string WholeHelp();

// Help about a group of commands, such as "routes"; empty if there is none.
std::string GroupHelp(absl::string_view group);

// Help about a command: its arguments, description, and flags with defaults.
std::string CommandHelp(const Command& command);

// absl's own ParseCommandLine ends the program with status 1 on an error, which
// for planbctl means a negative answer, and has no commands. So planbctl splits
// the words itself, and absl parses the values of flags.

struct CommandLine {
  // The words that are not flags.
  std::vector<std::string> words;
  // Names of the flags given.
  std::vector<std::string> flags;
  // True if --help or -h was given.
  bool help = false;
  // True if --version was given.
  bool version = false;
};

// Reads `arguments` (without the program's name) and sets the flags. Flags are
// --name=value, --name value, and for bool flags --name and --noname; "--"
// ends them, and "-" is a word. Flags may come before and after words.
// Errors: INVALID_ARGUMENT, naming an unknown flag or a malformed value.
absl::StatusOr<CommandLine> ParseCommandLine(
    absl::Span<const char* const> arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_COMMAND_H_
