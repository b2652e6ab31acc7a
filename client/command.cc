// The table of commands.

#include "client/command.h"

namespace planb::client {

absl::Span<const Command* const> AllCommands() {
  static constexpr const Command* kAll[] = {
      &kLookupCommand, &kAnnounceCommand, &kWithdrawCommand,
      &kLoadCommand,   &kStatusCommand,   &kHealthCommand,
      &kBenchCommand,  &kVerifyCommand,   &kGenerateCommand,
  };
  return kAll;
}

const Command* FindCommand(absl::string_view name) {
  for (const Command* command : AllCommands()) {
    if (command->name == name) return command;
  }
  return nullptr;
}

absl::Span<const absl::string_view> GlobalFlags() {
  static constexpr absl::string_view kFlags[] = {"server", "table", "json",
                                                 "timeout"};
  return kFlags;
}

}  // namespace planb::client
