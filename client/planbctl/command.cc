// The table of commands.

#include "client/planbctl/command.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace planb::client {

absl::Span<const Command* const> AllCommands() {
  static constexpr const Command* kAll[] = {
      &kLookupCommand,         &kAnnounceCommand,       &kWithdrawCommand,
      &kLoadCommand,           &kReplayCommand,         &kRoutesListCommand,
      &kRoutesGetCommand,      &kRoutesExplainCommand,  &kRoutesWatchCommand,
      &kRoutesReplaceCommand,  &kRoutesDiffCommand,     &kNextHopListCommand,
      &kNextHopSetCommand,     &kNextHopDeleteCommand,  &kGroupListCommand,
      &kGroupSetCommand,       &kGroupDeleteCommand,    &kTableListCommand,
      &kTableShowCommand,      &kTableCreateCommand,    &kTableDeleteCommand,
      &kSnapshotExportCommand, &kSnapshotImportCommand, &kStatusCommand,
      &kHealthCommand,         &kBenchCommand,          &kVerifyCommand,
      &kSoakCommand,           &kGenerateCommand,
  };
  return kAll;
}

const Command* FindCommand(absl::Span<const std::string> words) {
  for (const Command* command : AllCommands()) {
    const size_t count = WordsIn(*command);
    if (count <= words.size() &&
        absl::StrJoin(words.first(count), " ") == command->name) {
      return command;
    }
  }
  return nullptr;
}

size_t WordsIn(const Command& command) {
  return absl::StrContains(command.name, ' ') ? 2 : 1;
}

std::vector<const Command*> CommandsOf(absl::string_view group) {
  std::vector<const Command*> commands;
  for (const Command* command : AllCommands()) {
    if (absl::StartsWith(command->name, absl::StrCat(group, " "))) {
      commands.push_back(command);
    }
  }
  return commands;
}

absl::Span<const absl::string_view> GlobalFlags() {
  static constexpr absl::string_view kFlags[] = {
      "server",          "tls_ca", "tls_cert", "tls_key",
      "tls_server_name", "table",  "json",     "timeout"};
  return kFlags;
}

}  // namespace planb::client
