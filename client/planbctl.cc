// planbctl: the command-line client. Finds the command and runs it.

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/channel.h"
#include "client/command.h"
#include "client/command_line.h"
#include "client/help.h"
#include "client/session.h"

namespace planb::client {
namespace {

// Settings of the process that streams of large batches profit from: glibc
// would map and unmap every large message, and Debian's abseil looks for
// deadlocks at every lock.
void TuneProcess() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// As the first process of a container, a program that does not handle SIGTERM
// never gets it.
void EndOnSignals() {
  for (int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int caught) { _exit(128 + caught); });
  }
}

ExitCode ShowHelp(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode HelpFor(absl::string_view name) {
  const Command* command = FindCommand(name);
  if (command == nullptr) {
    return FailUsage(
        absl::StrCat("unknown command \"", name, "\"; see planbctl --help"));
  }
  return ShowHelp(CommandHelp(*command));
}

// Runs the command that the words begin with.
ExitCode Run(CommandLine line) {
  if (line.words.empty()) {
    if (line.help) return ShowHelp(ProgramHelp());
    return FailUsage("no command; see planbctl --help");
  }
  const std::string name = line.words[0];
  if (line.help) return HelpFor(name);
  if (name == "help") {
    return line.words.size() == 1 ? ShowHelp(ProgramHelp())
                                  : HelpFor(line.words[1]);
  }
  const Command* command = FindCommand(name);
  if (command == nullptr) return HelpFor(name);  // says that there is none
  for (const std::string& flag : line.flags) {
    if (!absl::c_linear_search(command->flags, flag) &&
        !absl::c_linear_search(GlobalFlags(), flag)) {
      return FailUsage(absl::StrCat("--", flag, " is no flag of ", name,
                                    "; see planbctl help ", name));
    }
  }
  if (command->needs_server) {
    const auto channel = MakeChannel(ServerTarget());
    if (!channel.ok()) return FailUsage(channel.status().message());
  }
  line.words.erase(line.words.begin());
  return command->run(line.words);
}

ExitCode Main(int argc, char** argv) {
  TuneProcess();
  EndOnSignals();
  auto line =
      ParseCommandLine(absl::MakeSpan(argv + 1, static_cast<size_t>(argc - 1)));
  if (!line.ok()) return FailUsage(line.status().message());
  ExitCode code = Run(*std::move(line));
  // What was printed has to have arrived.
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
