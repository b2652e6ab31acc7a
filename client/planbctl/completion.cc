// SPDX-License-Identifier: Apache-2.0

// planbctl completion and man: made from the table of commands, so that they
// cannot differ from it.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/planbctl/command.h"
#include "version.h"

namespace planb::client {
namespace {

// "--a --b": the flags of a command, the global ones last.
std::string FlagWords(const Command& command) {
  std::vector<absl::string_view> names = command.flags;
  names.insert(names.end(), GlobalFlags().begin(), GlobalFlags().end());
  return absl::StrJoin(names, " ", [](std::string* to, absl::string_view name) {
    absl::StrAppend(to, "--", name);
  });
}

// The first words of all commands, each once.
std::set<absl::string_view> FirstWords() {
  std::set<absl::string_view> words = {"help"};
  for (const Command* command : AllCommands()) {
    words.insert(command->name.substr(0, command->name.find(' ')));
  }
  return words;
}

// "--a|--b": the flags that take a value, even without "=".
std::string FlagsWithValues() {
  std::set<absl::string_view> names(GlobalFlags().begin(), GlobalFlags().end());
  for (const Command* command : AllCommands()) {
    names.insert(command->flags.begin(), command->flags.end());
  }
  std::erase_if(names, [](absl::string_view name) {
    return absl::FindCommandLineFlag(name)->IsOfType<bool>();
  });
  return absl::StrCat("--", absl::StrJoin(names, "|--"));
}

// Values of flags are no words of the command. Bash makes words of the = and
// the : within one, after which it goes on.
std::string Bash() {
  std::string text = absl::StrCat(
      "_planbctl() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} words=() word choices= topics= "
      "value=\n"
      "  for word in \"${COMP_WORDS[@]:1:$((COMP_CWORD-1))}\"; do\n"
      "    case $word in\n      ",
      FlagsWithValues(),
      ") value=1 ;;\n"
      "      -*) value= ;;\n"
      "      *[!:=]*) [[ $value ]] || words+=(\"$word\"); value= ;;\n"
      "      *) value=1 ;;\n"
      "    esac\n"
      "  done\n"
      "  [[ ${words[0]} == help ]] && words=(\"${words[@]:1}\") && "
      "topics='all flags'\n"
      "  case \"${words[*]:0:2}\" in\n"
      "    '') choices=\"$topics ",
      absl::StrJoin(FirstWords(), " "), "\" ;;\n");
  for (const absl::string_view group : FirstWords()) {
    const auto names = NamesIn(group);
    if (names.empty()) continue;
    absl::StrAppend(&text, "    ", group, ") choices='",
                    absl::StrJoin(names, " "), "' ;;\n");
  }
  for (const Command* command : AllCommands()) {
    absl::StrAppend(
        &text, "    '", command->name, "'",
        WordsIn(*command) == 1 ? absl::StrCat("|'", command->name, " '*") : "",
        ") [[ $cur == -* ]] && choices='", FlagWords(*command), "' ;;\n");
  }
  absl::StrAppend(&text,
                  "  esac\n"
                  "  [[ $value && $cur != -* ]] && choices=\n"
                  "  COMPREPLY=($(compgen -W \"$choices\" -- \"$cur\"))\n"
                  "  [[ $choices ]] || COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                  "}\n"
                  "complete -o bashdefault -F _planbctl planbctl\n");
  return text;
}

// In single quotes, for fish.
std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string Fish() {
  std::string text;
  for (const Command* command : AllCommands()) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(command->name, ' ');
    std::string condition = "__fish_use_subcommand";
    if (words.size() == 2) {
      absl::StrAppend(&text, "complete -c planbctl -n ", condition, " -a ",
                      words[0], "\n");
      condition = absl::StrCat("__fish_seen_subcommand_from ", words[0]);
    }
    absl::StrAppend(&text, "complete -c planbctl -n ", Quoted(condition),
                    " -a ", words.back(), " -d ", Quoted(command->summary),
                    "\n");
    for (const absl::string_view flag : command->flags) {
      absl::StrAppend(
          &text, "complete -c planbctl -n ",
          Quoted(absl::StrCat("__fish_seen_subcommand_from ", words.back())),
          " -l ", flag, "\n");
    }
  }
  for (const absl::string_view flag : GlobalFlags()) {
    absl::StrAppend(&text, "complete -c planbctl -l ", flag, "\n");
  }
  return text;
}

ExitCode Complete(const Arguments& arguments) {
  std::string text;
  if (arguments[0] == "bash") {
    text = Bash();
  } else if (arguments[0] == "zsh") {
    text = absl::StrCat(
        "autoload -U +X compinit && compinit\n"
        "autoload -U +X bashcompinit && bashcompinit\n",
        Bash());
  } else if (arguments[0] == "fish") {
    text = Fish();
  } else {
    return FailUsage(
        absl::StrCat("\"", arguments[0], "\" is none of bash, zsh and fish"));
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

// For roff: no line begins with a dot, and dashes are those of the keyboard.
std::string Roff(absl::string_view text) {
  std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  std::string roff;
  for (const absl::string_view line : absl::StrSplit(escaped, '\n')) {
    if (absl::StartsWith(line, ".") || absl::StartsWith(line, "'")) {
      roff += "\\&";
    }
    absl::StrAppend(&roff, line, "\n");
  }
  return absl::StrReplaceAll(roff, {{"\n\n", "\n.PP\n"}});
}

std::string RoffFlags(absl::Span<const absl::string_view> names) {
  std::string text;
  for (const absl::string_view name : names) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    absl::StrAppend(&text, ".TP\n.B ", Roff(absl::StrCat("--", name)),
                    Roff(flag->Help()));
  }
  return text;
}

ExitCode PrintManual(const Arguments&) {
  std::string text = absl::StrCat(
      ".TH PLANBCTL 1 \"\" \"planbctl ", kVersion,
      "\"\n.SH NAME\nplanbctl \\- look up addresses in, and change, the "
      "routing "
      "tables of a PlanB Lookup server\n.SH SYNOPSIS\n.B planbctl\n[FLAGS] "
      "COMMAND [ARGUMENTS]\n.SH COMMANDS\n");
  for (const Command* command : AllCommands()) {
    absl::StrAppend(&text, ".SS ",
                    Roff(absl::StrCat(command->name, " ", command->arguments)),
                    Roff(command->description), RoffFlags(command->flags));
  }
  absl::StrAppend(
      &text, ".SH FLAGS OF EVERY COMMAND\n", RoffFlags(GlobalFlags()),
      ".SH EXIT STATUS\n0: done. 1: the answer is negative. 2: the "
      "command line or a local file is wrong. 3: the server refused "
      "or failed. 4: it cannot be reached.\n");
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

}  // namespace

const Command kCompletionCommand = {
    .name = "completion",
    .arguments = "SHELL",
    .summary = "print what completes commands and flags in a shell",
    .description =
        "Prints a script for bash, zsh or fish. In bash: source <(planbctl "
        "completion bash).",
    .run = Complete,
    .needs_server = false,
};

const Command kManCommand = {
    .name = "man",
    .summary = "print the manual page",
    .description = "Prints all commands and flags as a page for man(1).",
    .run = PrintManual,
    .needs_server = false,
};

}  // namespace planb::client
