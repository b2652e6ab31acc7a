// SPDX-License-Identifier: Apache-2.0

// planbctl: the command-line client. Finds the command and runs it.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/process_setup.h"
#include "client/planbctl/command.h"
#include "client/planbctl/session.h"
#include "version.h"

namespace planb::client {
namespace {

// The first process of a container receives SIGTERM only if it handles it.
void EndOnSignals() {
  for (int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int caught) { _exit(128 + caught); });
  }
}

ExitCode Show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode UnknownCommand(absl::Span<const std::string> words) {
  const std::string& name = words[0];
  std::vector<absl::string_view> choices;
  for (const Command* command : CommandsOf(name)) {
    choices.push_back(command->name);
  }
  if (choices.empty()) {
    return FailUsage(
        absl::StrCat("unknown command \"", name, "\"; see planbctl --help"));
  }
  return FailUsage(absl::StrCat(
      "\"", absl::StrJoin(words.first(std::min<size_t>(words.size(), 2)), " "),
      "\" is no command; there are: ", absl::StrJoin(choices, ", ")));
}

ExitCode HelpFor(absl::Span<const std::string> words) {
  if (words.empty()) return Show(ProgramHelp());
  if (words.size() == 1 && words[0] == "flags") return Show(GlobalFlagsHelp());
  if (words.size() == 1 && words[0] == "all") return Show(WholeHelp());
  const Command* command = FindCommand(words);
  if (command != nullptr) return Show(CommandHelp(*command));
  const std::string group = words.size() == 1 ? GroupHelp(words[0]) : "";
  return group.empty() ? UnknownCommand(words) : Show(group);
}

// Runs the command at the beginning of the words.
ExitCode Run(const CommandLine& line) {
  if (line.version) return Show(absl::StrCat("planbctl ", kVersion, "\n"));
  const absl::Span<const std::string> words = line.words;
  if (line.help) return HelpFor(words);
  if (words.empty()) return FailUsage("no command; see planbctl --help");
  if (words[0] == "help") return HelpFor(words.subspan(1));
  const Command* command = FindCommand(words);
  if (command == nullptr) return UnknownCommand(words);
  for (const std::string& flag : line.flags) {
    if (!absl::c_linear_search(command->flags, flag) &&
        !absl::c_linear_search(GlobalFlags(), flag)) {
      return FailUsage(absl::StrCat("--", flag, " is no flag of ",
                                    command->name, "; see planbctl help ",
                                    command->name));
    }
  }
  const Arguments arguments(words.begin() + WordsIn(*command), words.end());
  if (!Takes(*command, arguments.size())) {
    return FailUsage(absl::StrCat(
        command->name, " takes ",
        command->arguments.empty() ? "no arguments" : command->arguments));
  }
  if (command->needs_server) {
    const absl::Status usable = CheckServerFlags();
    if (!usable.ok()) return FailUsage(usable.message());
  }
  return command->run(arguments);
}

ExitCode Main(int argc, char** argv) {
  SetUpProcess();
  EndOnSignals();
  auto line =
      ParseCommandLine(absl::MakeSpan(argv + 1, static_cast<size_t>(argc - 1)));
  if (!line.ok()) return FailUsage(line.status().message());
  ExitCode code = Run(*line);
  // A full disk or a closed pipe is an error.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    code = Worse(code, FailUsage("cannot write to the standard output"));
  }
  return code;
}

}  // namespace
}  // namespace planb::client

int main(int argc, char** argv) {
  return static_cast<int>(planb::client::Main(argc, argv));
}
