// SPDX-License-Identifier: Apache-2.0

// The list of commands, and what follows from it.

#include "client/planbctl/command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/utf8.h"
#include "client/planbctl/output.h"

namespace planb::client {

// A larger exit code is a worse problem.

ExitCode Fail(const absl::Status& error) {
  const bool color = UsesColor(stderr);
  absl::FPrintF(stderr, "%splanbctl: %s:%s %s\n", color ? "\x1b[31m" : "",
                absl::StatusCodeToString(error.code()), color ? "\x1b[0m" : "",
                Printable(error.message()));
  return absl::IsUnavailable(error) ? ExitCode::kUnreachable
                                    : ExitCode::kFailed;
}

ExitCode FailUsage(absl::string_view message) {
  absl::FPrintF(stderr, "planbctl: %s\n", Printable(message));
  return ExitCode::kUsage;
}

ExitCode Worse(ExitCode a, ExitCode b) { return std::max(a, b); }

namespace {

std::vector<const Command*>& Registered() {
  static auto* const commands = new std::vector<const Command*>;
  return *commands;
}

}  // namespace

RegisteredCommand::RegisteredCommand(Command command)
    : command_(std::move(command)) {
  std::vector<const Command*>& all = Registered();
  all.insert(std::find_if(all.begin(), all.end(),
                          [&](const Command* each) {
                            return each->name > command_.name;
                          }),
             &command_);
}

absl::Span<const Command* const> AllCommands() { return Registered(); }

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

bool Takes(const Command& command, size_t count) {
  size_t least = 0;
  size_t most = 0;
  bool optional = false;
  for (absl::string_view word :
       absl::StrSplit(command.arguments, ' ', absl::SkipEmpty())) {
    optional = optional || absl::StartsWith(word, "[");
    if (!optional) ++least;
    ++most;
  }
  return count >= least &&
         (count <= most || absl::StrContains(command.arguments, "..."));
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

std::vector<absl::string_view> NamesIn(absl::string_view group) {
  std::vector<absl::string_view> names;
  for (const Command* command : CommandsOf(group)) {
    names.push_back(command->name.substr(group.size() + 1));
  }
  return names;
}

absl::Span<const absl::string_view> GlobalFlags() {
  static constexpr absl::string_view kFlags[] = {
      "server", "tls_ca", "tls_cert", "tls_key", "tls_server_name",
      "table",  "output", "json",     "color",   "timeout"};
  return kFlags;
}

// Help is made from the table of commands and the help of the flags.

namespace {

constexpr size_t kWidth = 78;

// `text` in lines of at most kWidth, each after `indent`, with an empty line
// between paragraphs.
std::string Wrap(absl::string_view text, absl::string_view indent) {
  std::string wrapped;
  for (absl::string_view paragraph : absl::StrSplit(text, "\n\n")) {
    if (!wrapped.empty()) wrapped += '\n';
    std::string line(indent);
    for (absl::string_view word : absl::StrSplit(paragraph, ' ')) {
      if (line.size() > indent.size()) {
        if (line.size() + 1 + word.size() > kWidth) {
          absl::StrAppend(&wrapped, line, "\n");
          line = std::string(indent);
        } else {
          line += ' ';
        }
      }
      absl::StrAppend(&line, word);
    }
    absl::StrAppend(&wrapped, line, "\n");
  }
  return wrapped;
}

std::string FlagsHelp(absl::Span<const absl::string_view> names) {
  std::string text;
  for (absl::string_view name : names) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    std::string value = flag->DefaultValue();
    if (value.empty()) value = "\"\"";
    absl::StrAppend(&text, "  --", name, " (default ", value, ")\n",
                    Wrap(flag->Help(), "      "));
  }
  return text;
}

std::string CommandsHelp(absl::Span<const Command* const> commands) {
  std::string text;
  for (const Command* command : commands) {
    absl::StrAppend(&text, absl::StrFormat("  %-15s  %s\n", command->name,
                                           command->summary));
  }
  return text;
}

// A line for each command of one word, and for each group.
std::string GroupsHelp() {
  std::string text;
  absl::string_view last;
  for (const Command* command : AllCommands()) {
    const absl::string_view word =
        command->name.substr(0, command->name.find(' '));
    if (word == std::exchange(last, word)) continue;
    absl::StrAppend(&text,
                    absl::StrFormat("  %-10s  %s\n", word,
                                    WordsIn(*command) == 1
                                        ? std::string(command->summary)
                                        : absl::StrJoin(NamesIn(word), ", ")));
  }
  return text;
}

constexpr absl::string_view kTitle =
    "planbctl: look up addresses in, and change, the routing tables of a "
    "PlanB\nLookup server.\n\n"
    "Usage: planbctl [FLAGS] COMMAND [ARGUMENTS]\n\nCommands:\n";

}  // namespace

std::string ProgramHelp() {
  return absl::StrCat(
      kTitle, GroupsHelp(),
      "\nFlags used most:\n"
      "  --server=ADDRESS  unix:///PATH or HOST:PORT; else $PLANB_SERVER, "
      "else\n"
      "                    unix:///run/planb/planb.sock\n"
      "  --tls_ca=FILE     use TLS; one of these authorities signed for the "
      "server\n"
      "  --table=NAME      another table than \"default\"\n"
      "  --output=FORM     table, json, yaml or csv\n"
      "  --timeout=TIME    of each call, such as 1m; else 10s\n\n"
      "Exit codes: 0 done; 1 the answer is negative; 2 a wrong command line or "
      "file;\n3 the server refused or failed; 4 it cannot be reached.\n\n"
      "More:\n"
      "  planbctl help COMMAND   a command or a group, and its flags\n"
      "  planbctl help flags     the flags of every command\n"
      "  planbctl help all       each command, these flags, exit codes, "
      "examples\n"
      "  planbctl man | man -l - the manual page\n"
      "  planbctl --version\n");
}

std::string GlobalFlagsHelp() {
  return absl::StrCat("Flags of every command:\n", FlagsHelp(GlobalFlags()));
}

std::string WholeHelp() {
  return absl::StrCat(
      kTitle, CommandsHelp(AllCommands()), "\n", GlobalFlagsHelp(),
      "\nExit codes:\n"
      "  0  done as asked\n"
      "  1  the answer is negative: an address or a prefix without a route, a\n"
      "     server that is not serving, an answer or a table that differs "
      "from\n"
      "     the file, a file with unusable parts\n"
      "  2  the command line is wrong, or a local file or line cannot be used\n"
      "  3  the server refused or failed, or did not answer in time\n"
      "  4  the server cannot be reached, is draining, or went away, or a "
      "table\n"
      "     that is awaited (--await_complete) is not complete\n"
      "If several apply, the largest. Errors go to the standard error; the "
      "standard\noutput has answers only.\n\n"
      "Examples:\n"
      "  planbctl generate --routes 100000 table.txt\n"
      "  planbctl load table.txt\n"
      "  planbctl lookup 2001:db8::1 192.0.2.1\n"
      "  planbctl announce 2001:db8::/32 7\n"
      "  planbctl routes explain 2001:db8::1\n"
      "  planbctl --server=localhost:50051 status --json\n"
      "  planbctl --server=planb.example:50051 --tls_ca=ca.pem status\n");
}

std::string GroupHelp(absl::string_view group) {
  const std::vector<const Command*> commands = CommandsOf(group);
  if (commands.empty()) return "";
  return absl::StrCat("Usage: planbctl [FLAGS] ", group,
                      " COMMAND [ARGUMENTS]\n       planbctl help ", group,
                      " COMMAND\n\nCommands:\n", CommandsHelp(commands));
}

std::string CommandHelp(const Command& command) {
  std::string text =
      absl::StrCat("Usage: planbctl [FLAGS] ", command.name,
                   command.arguments.empty() ? "" : " ", command.arguments,
                   "\n\n", Wrap(command.description, ""));
  if (!command.flags.empty()) {
    absl::StrAppend(&text, "\nFlags:\n", FlagsHelp(command.flags));
  }
  absl::StrAppend(
      &text, "\nFlags of every command (planbctl help flags):\n",
      Wrap(absl::StrCat("--", absl::StrJoin(GlobalFlags(), ", --")), "  "));
  return text;
}

namespace {

// What a flag of one of absl's types takes; empty for our own types, which say
// it themselves.
absl::string_view TakenBy(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) {
    return "a time with its unit, such as 500ms, 10s or 1m";
  }
  if (flag.IsOfType<bool>()) return "true or false";
  if (flag.IsOfType<double>()) return "a number, such as 0.5 or 5e7";
  if (flag.IsOfType<int>()) return "a whole number";
  if (flag.IsOfType<uint32_t>() || flag.IsOfType<std::optional<uint32_t>>()) {
    return "a number of 0..4294967295";
  }
  if (flag.IsOfType<uint64_t>() || flag.IsOfType<std::optional<uint64_t>>()) {
    return "a number of 0..18446744073709551615";
  }
  return "";
}

// Sets a flag. Errors: INVALID_ARGUMENT, with the flag and what it takes.
absl::Status SetFlag(absl::CommandLineFlag& flag, absl::string_view value) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.Name(), ": ", what));
  };
  std::string error;
  if (!flag.ParseFrom(value, &error)) {
    const absl::string_view taken = TakenBy(flag);
    return taken.empty()
               ? absl::InvalidArgumentError(error)
               : wrong(absl::StrCat("\"", value, "\" is not ", taken));
  }
  // These go into messages, where protobuf wants UTF-8; others may name files.
  for (const absl::string_view text :
       {"interface", "label", "request_id", "table", "tag"}) {
    if (flag.Name() == text && !IsUtf8(value)) return wrong("is not UTF-8");
  }
  const auto duration = flag.TryGet<absl::Duration>();
  if (duration.has_value() && *duration < absl::ZeroDuration()) {
    return wrong("must not be negative");
  }
  for (const absl::string_view size :
       {"batch", "chunk", "depth", "next_hops", "streams", "timeout"}) {
    if (flag.Name() == size && flag.CurrentValue() == "0") {
      return wrong("must be more than 0");
    }
  }
  return absl::OkStatus();
}

}  // namespace

// absl's reflection parses the values of flags.

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
    const absl::Status set = SetFlag(*flag, value);
    if (!set.ok()) return set;
    line.flags.emplace_back(flag->Name());
  }
  return line;
}

}  // namespace planb::client
