// SPDX-License-Identifier: Apache-2.0

// Values are parsed by absl through its reflection; only the words are ours.

#include "client/planbctl/command_line.h"

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace planb::client {

absl::StatusOr<CommandLine> ParseCommandLine(
    absl::Span<const char* const> arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view word = arguments[i];
    if (word == "--") {
      line.words.insert(line.words.end(), arguments.begin() + i + 1,
                        arguments.end());
      break;
    }
    if (word == "--help" || word == "-h") {
      line.help = true;
      continue;
    }
    if (word == "--version") {
      line.version = true;
      continue;
    }
    if (!absl::StartsWith(word, "-") || word == "-") {
      line.words.emplace_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    absl::string_view name = word.substr(0, equals);
    absl::CommandLineFlag* flag = nullptr;
    std::string value;
    if (absl::ConsumePrefix(&name, "--")) {
      flag = absl::FindCommandLineFlag(name);
      if (equals != absl::string_view::npos) {
        value = std::string(word.substr(equals + 1));
      } else if (flag != nullptr && flag->IsOfType<bool>()) {
        value = "true";
      } else if (flag != nullptr) {
        if (++i == arguments.size()) {
          return absl::InvalidArgumentError(
              absl::StrCat("flag --", name, " needs a value"));
        }
        value = arguments[i];
      } else if (absl::ConsumePrefix(&name, "no")) {
        flag = absl::FindCommandLineFlag(name);
        if (flag != nullptr && !flag->IsOfType<bool>()) flag = nullptr;
        value = "false";
      }
    }
    if (flag == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", word.substr(0, equals)));
    }
    std::string error;
    if (!flag->ParseFrom(value, &error)) {
      return absl::InvalidArgumentError(error);
    }
    line.flags.emplace_back(flag->Name());
  }
  return line;
}

}  // namespace planb::client
