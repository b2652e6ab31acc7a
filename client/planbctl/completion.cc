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

// "--a --b".
std::string FlagWords(absl::Span<const absl::string_view> names) {
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

// The flags that take a value, even without "=": "--a|--b", if that is between.
std::string FlagsWithValues(absl::string_view between) {
  std::set<absl::string_view> names(GlobalFlags().begin(), GlobalFlags().end());
  for (const Command* command : AllCommands()) {
    names.insert(command->flags.begin(), command->flags.end());
  }
  std::erase_if(names, [](absl::string_view name) {
    return absl::FindCommandLineFlag(name)->IsOfType<bool>();
  });
  return absl::StrCat("--", absl::StrJoin(names, absl::StrCat(between, "--")));
}

// Sets `choices`, in bash and in zsh. `words` are the first two words so far,
// flags and a first "help" left out; `topics` are those of "help", and `cur` is
// the word being typed.
std::string Choices(absl::string_view words) {
  std::string text =
      absl::StrCat("  case \"", words, "\" in\n    '') choices=\"$topics ",
                   absl::StrJoin(FirstWords(), " "), "\" ;;\n");
  for (const absl::string_view group : FirstWords()) {
    const auto names = NamesIn(group);
    if (names.empty()) continue;
    absl::StrAppend(&text, "    ", group, ") choices='",
                    absl::StrJoin(names, " "), "' ;;\n");
  }
  for (const Command* command : AllCommands()) {
    if (command->flags.empty()) continue;
    absl::StrAppend(
        &text, "    '", command->name, "'",
        WordsIn(*command) == 1 ? absl::StrCat("|'", command->name, " '*") : "",
        ") [[ $cur == -* ]] && choices='", FlagWords(command->flags), "' ;;\n");
  }
  absl::StrAppend(&text, "  esac\n  [[ $cur == -* ]] && choices=\"$choices ",
                  FlagWords(GlobalFlags()), "\"\n");
  return text;
}

// Values of flags are no words of the command. Bash makes words of the = and
// the : within one, after which it goes on.
std::string Bash() {
  return absl::StrCat(
      "_planbctl() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} words=() word choices= topics= "
      "value=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in\n      ",
      FlagsWithValues("|"),
      ") value=1 ;;\n"
      "      -*) value= ;;\n"
      "      *[!:=]*) [[ $value ]] || words+=(\"$word\"); value= ;;\n"
      "      *) value=1 ;;\n"
      "    esac\n"
      "  done\n"
      "  [[ ${words[0]} == help ]] && words=(\"${words[@]:1}\") && "
      "topics='all flags'\n",
      Choices("${words[*]:0:2}"),
      "  [[ $value && $cur != -* ]] && choices=\n"
      "  COMPREPLY=($(compgen -W \"$choices\" -- \"$cur\"))\n"
      "  [[ $choices ]] && return\n"
      "  mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
      "  compopt -o filenames 2> /dev/null\n"
      "}\n"
      "complete -o bashdefault -F _planbctl planbctl\n");
}

// A file of the function path, which is loaded when it is first needed;
// sourced, it does the same at once.
std::string Zsh() {
  return absl::StrCat(
      "#compdef planbctl\n"
      "_planbctl() {\n"
      "  local cur=${words[CURRENT]} word choices= topics= value=\n"
      "  local -a seen\n"
      "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
      "    case $word in\n      ",
      FlagsWithValues("|"),
      ") value=1 ;;\n"
      "      -*) value= ;;\n"
      "      *) [[ -n $value ]] || seen+=(\"$word\"); value= ;;\n"
      "    esac\n"
      "  done\n"
      "  [[ ${seen[1]} == help ]] && shift seen && topics='all flags'\n",
      Choices("${seen[1,2]}"),
      "  [[ -n $value && $cur != -* ]] && choices=\n"
      "  if [[ -n $choices ]]; then\n"
      "    compadd -- ${=choices}\n"
      "  else\n"
      "    _files\n"
      "  fi\n"
      "}\n"
      "if [[ ${funcstack[1]} == _planbctl ]]; then\n"
      "  _planbctl\n"
      "else\n"
      "  (( $+functions[compdef] )) || { autoload -U compinit && compinit }\n"
      "  compdef _planbctl planbctl\n"
      "fi\n");
}

// In single quotes, for fish.
std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// A line that completes with `what` after `words`: exactly these
// (__planbctl_after) or more (__planbctl_in).
std::string FishLine(absl::string_view condition, absl::string_view words,
                     absl::string_view what) {
  return absl::StrCat("complete -c planbctl -n ",
                      Quoted(absl::StrCat(condition, " ", words)), " ", what,
                      "\n");
}

std::string Fish() {
  std::string text = absl::StrReplaceAll(
      "# The words so far, without flags, their values and a first \"help\".\n"
      "function __planbctl_words\n"
      "  set -l words\n"
      "  set -l value\n"
      "  for word in (commandline -opc)[2..]\n"
      "    if contains -- $word @FLAGS@\n"
      "      set value 1\n"
      "    else if string match -q -- '-*' $word\n"
      "      set value\n"
      "    else if test -n \"$value\"\n"
      "      set value\n"
      "    else\n"
      "      set -a words $word\n"
      "    end\n"
      "  end\n"
      "  test \"$words[1]\" = help; and set -e words[1]\n"
      "  printf '%s\\n' $words\n"
      "end\n"
      "function __planbctl_after\n"
      "  set -l words (__planbctl_words)\n"
      "  test \"$words\" = \"$argv\"\n"
      "end\n"
      "function __planbctl_in\n"
      "  set -l words (__planbctl_words)\n"
      "  test \"$words[1..$(count $argv)]\" = \"$argv\"\n"
      "end\n",
      {{"@FLAGS@", FlagsWithValues(" ")}});
  absl::StrAppend(
      &text, FishLine("__planbctl_after", "", "-f -a help"),
      FishLine("__fish_seen_subcommand_from help; and __planbctl_after", "",
               "-a 'all flags'"));
  for (const Command* command : AllCommands()) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(command->name, ' ');
    const absl::string_view group = words.size() == 2 ? words[0] : "";
    if (!group.empty()) {
      absl::StrAppend(&text, FishLine("__planbctl_after", "",
                                      absl::StrCat("-f -a ", group)));
    }
    absl::StrAppend(&text, FishLine("__planbctl_after", group,
                                    absl::StrCat("-f -a ", words.back(), " -d ",
                                                 Quoted(command->summary))));
    for (const absl::string_view flag : command->flags) {
      absl::StrAppend(&text, FishLine("__planbctl_in", command->name,
                                      absl::StrCat("-l ", flag)));
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
    text = Zsh();
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

const RegisteredCommand kCompletionCommand({
    .name = "completion",
    .arguments = "SHELL",
    .summary = "print what completes commands and flags in a shell",
    .description =
        "Prints a script for bash, zsh or fish. In bash: source <(planbctl "
        "completion bash).",
    .run = Complete,
    .needs_server = false,
});

const RegisteredCommand kManCommand({
    .name = "man",
    .summary = "print the manual page",
    .description = "Prints all commands and flags as a page for man(1).",
    .run = PrintManual,
    .needs_server = false,
});

}  // namespace
}  // namespace planb::client
