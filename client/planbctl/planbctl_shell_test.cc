// SPDX-License-Identifier: Apache-2.0

// planbctl in shells and on a terminal: what bash, zsh and fish complete,
// colors and progress.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::ContainsRegex;
using testing::Do;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

// A line, and how its last word is completed; "" if it stays as it is.
struct Completed {
  std::string line;
  std::string word;
};

std::vector<Completed> Cases() {
  return {
      {"planbctl look", "lookup"},
      {"planbctl routes re", "replace"},
      {"planbctl help table d", "delete"},
      {"planbctl help fl", "flags"},
      {"planbctl fl", ""},
      {"planbctl --json table cop", "copy"},
      {"planbctl --table red loo", "lookup"},  // the value is no command
      {"planbctl --table=red loo", "lookup"},
      {"planbctl routes --table red lis", "list"},
      {"planbctl --js", "--json"},
      {"planbctl routes --js", "--json"},
      {"planbctl announce ::/0 --expec", "--expected_generation"},
      {"planbctl routes list --ma", "--match"},
      {"planbctl table list --ma", ""},  // of another command
      {"planbctl table create x --pre", "--prefix_lengths"},
      {"planbctl status --tls_s", "--tls_server_name"},
      {"planbctl load some", "some_routes.txt"},
      {"planbctl snapshot some", ""},  // not yet a file
      {"planbctl snapshot import some", "some_routes.txt"},
  };
}

// A new folder, with a file for the cases.
std::string Folder(const std::string& name) {
  const std::string folder = Scratch(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Write(absl::StrCat(name, "/some_routes.txt"), "::/0 1\n");
  return folder;
}

// In single quotes, for a shell.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", text, "'");
}

std::string QuotedLines() {
  std::string lines;
  for (const Completed& each : Cases()) {
    absl::StrAppend(&lines, " ", Quoted(each.line));
  }
  return lines;
}

bool Has(const std::string& shell) {
  return std::system(
             absl::StrCat("command -v ", shell, " > /dev/null").c_str()) == 0;
}

// What a shell command prints, line by line; expects status 0.
std::vector<std::string> Lines(const std::string& command) {
  const std::string out = Scratch("lines");
  EXPECT_EQ(std::system(absl::StrCat(command, " > ", out).c_str()), 0)
      << command;
  std::vector<std::string> lines = absl::StrSplit(Slurp(out), '\n');
  lines.pop_back();  // after the last newline
  return lines;
}

TEST(Completion, IsForThreeShells) { Fails(2, "completion csh"); }

TEST(Completion, OfBash) {
  const std::string folder = Folder("bash");
  Write("bash/completion", Do("completion bash"));
  Write("bash/two words.mrt", "");
  std::vector<std::string> expected;
  for (const Completed& each : Cases()) expected.push_back(each.word);
  // Bash makes words of = and : alone.
  std::string lines = QuotedLines();
  for (const Completed& each : std::vector<Completed>{
           {"planbctl --json = true loo", "lookup"},
           {"planbctl --server = unix : ///tmp/s loo", "lookup"},
           {"planbctl --server [ :: 1] : 1 routes re", "replace"},
           {"planbctl --table loo", ""},
           {"planbctl lookup 2001 : db8 :: --pre", "--prefixes"}}) {
    absl::StrAppend(&lines, " ", Quoted(each.line));
    expected.push_back(each.word);
  }
  // The function that bash calls, with what bash sets for it.
  Write("bash/driver", R"(
source completion
for line; do
  COMP_WORDS=($line)
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _planbctl
  echo "${COMPREPLY[@]}"
done
# A name with a blank is one. Bash quotes names, and marks folders.
compopt() { options=$*; }
COMP_WORDS=(planbctl load two)
COMP_CWORD=2
_planbctl
echo "${#COMPREPLY[@]} ${COMPREPLY[0]} $options"
complete -p planbctl
)");
  expected.emplace_back("1 two words.mrt -o filenames");
  expected.emplace_back("complete -o bashdefault -F _planbctl planbctl");
  EXPECT_THAT(Lines(absl::StrCat("cd ", folder, " && bash driver", lines)),
              ElementsAreArray(expected));
}

// A terminal with zsh, in which lines are typed, each with a tab. A key then
// writes the line to a file: none that others begin with, as zsh would wait 0.4
// s for more of them.
constexpr char kZshDriver[] = R"(
zmodload zsh/zpty
start=$1
shift
zpty shell TERM=dumb HOME=$PWD ZDOTDIR=$PWD zsh -f -i
await() {
  while [[ ! -e $1 ]] {
    zpty -rt shell ignored
    sleep 0.02
  }
}
zpty -w shell "PROMPT= ; $start"
zpty -w shell 'report() { print -r -- "$BUFFER" > made; mv made line; BUFFER= }'
zpty -w shell "zle -N report; bindkey '^T' report; touch ready"
await ready
for line; do
  zpty -w -n shell "$line"$'\t\x14'
  await line
  cat line
  rm line
done
zpty -d shell
)";

TEST(Completion, OfZsh) {
  if (!Has("zsh")) GTEST_SKIP() << "there is no zsh";
  // A completed word is followed by a blank.
  std::vector<std::string> expected;
  for (const Completed& each : Cases()) {
    expected.push_back(
        each.word.empty()
            ? each.line
            : absl::StrCat(each.line.substr(0, each.line.rfind(' ') + 1),
                           each.word, " "));
  }
  for (const char* start :
       {// As an installed package has it.
        "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D",
        // As a user's own start-up file has it, with and without the other
        // completions.
        "autoload -U compinit; compinit -u -D; source ./_planbctl",
        "source ./_planbctl"}) {
    const std::string folder = Folder("zsh");
    Write("zsh/_planbctl", Do("completion zsh"));
    Write("zsh/driver", kZshDriver);
    EXPECT_THAT(Lines(absl::StrCat("cd ", folder, " && zsh -f driver ",
                                   Quoted(start), QuotedLines())),
                ElementsAreArray(expected))
        << start;
  }
}

TEST(Completion, OfFish) {
  if (!Has("fish")) GTEST_SKIP() << "there is no fish";
  const std::string folder = Folder("fish");
  Write("fish/completion", Do("completion fish"));
  Write("fish/driver", R"(
source completion
for line in $argv
  echo (complete -C $line | string replace -r '\t.*' '')
end
)");
  const std::string fish = absl::StrCat(
      "cd ", folder, " && HOME=$PWD XDG_CONFIG_HOME=$PWD XDG_DATA_HOME=$PWD ",
      "fish --no-config driver ");
  std::vector<std::string> expected;
  for (const Completed& each : Cases()) expected.push_back(each.word);
  EXPECT_THAT(Lines(absl::StrCat(fish, QuotedLines())),
              ElementsAreArray(expected));
  EXPECT_THAT(Lines(absl::StrCat(fish, Quoted("planbctl table "))),
              ElementsAre("complete copy create delete list show"));
}

// What a shell command writes to its terminal.
std::string OnTerminal(const std::string& command) {
  const std::string all =
      absl::StrCat("export TERM=xterm; unset NO_COLOR; ", command);
  int terminal = -1;
  const pid_t shell = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (shell == 0) {
    execl("/bin/sh", "sh", "-c", all.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_GT(shell, 0);
  std::string text;
  char part[4096];
  // Fails when the last process has closed the terminal.
  for (ssize_t got; (got = read(terminal, part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  close(terminal);
  EXPECT_EQ(waitpid(shell, nullptr, 0), shell);
  return absl::StrReplaceAll(text, {{"\r\n", "\n"}});
}

constexpr char kEscape[] = "\x1b";
constexpr char kCtl[] = "client/planbctl/planbctl ";

class TerminalTest : public testing::PlanbctlFixture {};

TEST_F(TerminalTest, ColorsAreThereAndNowhereElse) {
  const std::string ctl = kCtl;
  const std::string lookup = ctl + "lookup ::1 2001:db8::1";
  const std::string plain =
      "::1\tno route\t-\tgeneration 1\n"
      "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 1\n";
  EXPECT_EQ(
      OnTerminal(lookup),
      absl::StrReplaceAll(plain, {{"no route", "\x1b[31mno route\x1b[0m"}}));
  EXPECT_THAT(OnTerminal(ctl + "status"),
              HasSubstr("(\x1b[32mSERVING\x1b[0m)\n"));
  const std::string fails = ctl + "--server=unix:///nonexistent/s health";
  EXPECT_THAT(OnTerminal(fails),
              StartsWith("\x1b[31mplanbctl: UNAVAILABLE:\x1b[0m cannot"));
  for (const std::string& command :
       {lookup + " | cat", "NO_COLOR=1 " + lookup, "TERM=dumb " + lookup,
        lookup + " --color=never"}) {
    EXPECT_EQ(OnTerminal(command), plain) << command;
  }
  for (const std::string& command :
       {"NO_COLOR=1 " + fails, fails + " 2>&1 | cat", "TERM=dumb " + fails,
        lookup + " --json", lookup + " --output=yaml", ctl + "help",
        ctl + "status | cat"}) {
    const std::string text = OnTerminal(command);
    EXPECT_THAT(text, Not(IsEmpty())) << command;
    EXPECT_THAT(text, Not(HasSubstr(kEscape))) << command;
  }
  EXPECT_THAT(OnTerminal(lookup + " --color=always | cat"),
              HasSubstr("\x1b[31mno route"));
}

// A file of routes that comes in two parts. The second one begins after the
// first is read (no pipe holds so much) and 0.6 s, so that progress is due.
TEST_F(TerminalTest, ProgressIsOneLineThatGoesAway) {
  std::string parts[2];
  constexpr int kRoutes = 10'000;
  for (int i = 0; i < 2 * kRoutes; ++i) {
    absl::StrAppendFormat(&parts[i / kRoutes], "2001:db8:%x::/48 1\n", i);
  }
  ASSERT_GT(parts[0].size(), size_t{128} << 10);
  const std::string load = absl::StrCat(
      "(cat ", Write("first", parts[0]), "; sleep 0.6; cat ",
      Write("second", parts[1]), ") | ", kCtl, "load --chunk=1000 /dev/stdin");
  constexpr char kDrawn[] = "\r\x1b\\[K[0-9]+ routes, [0-9]+/s, generation ";
  constexpr char kCleared[] = "\r\x1b[K20000 routes and 0 next hops in ";
  for (const char* environment : {"", "export NO_COLOR=1; "}) {
    const std::string text = OnTerminal(environment + load);
    EXPECT_THAT(text, ContainsRegex(kDrawn)) << environment;
    EXPECT_THAT(text, HasSubstr(kCleared)) << environment;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
  const std::string errors = Scratch("errors");
  // The answer is plain in a file, with progress on the terminal.
  EXPECT_THAT(OnTerminal(absl::StrCat(load, " > ", errors)),
              ContainsRegex(kDrawn));
  EXPECT_THAT(Slurp(errors), StartsWith("20000 routes and "));
  // Elsewhere progress is lines.
  for (const std::string& command :
       {absl::StrCat(load, " 2> ", errors, "; cat ", errors, " | cat"),
        load + " 2>&1 | cat", "export TERM=dumb; " + load}) {
    const std::string text = OnTerminal(command);
    EXPECT_THAT(text, Not(HasSubstr(kEscape))) << command;
    EXPECT_THAT(text, Not(HasSubstr("\r"))) << command;
    EXPECT_THAT(text, ContainsRegex("planbctl: [0-9]+ routes sent, generation"))
        << command;
  }
}

}  // namespace
}  // namespace planb::client
