// SPDX-License-Identifier: Apache-2.0

// The real binary with a real server: exit codes and output, which scripts use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/testing/test_clock.h"
#include "client/testing/planbctl_fixture.h"
#include "version.h"

namespace planb::client {

namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Do;
using testing::Ended;
using testing::Fails;
using testing::FailsInTime;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeError;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

// These need no server.

TEST(Planbctl, TheManualHasEveryCommand) {
  const std::string manual = Do("man");
  EXPECT_EQ(manual.find(".TH PLANBCTL 1"), 0U);
  for (const char* part : {".SS routes list", ".SS table copy", ".B \\-\\-json",
                           ".SH EXIT STATUS"}) {
    EXPECT_THAT(manual, HasSubstr(part));
  }
}

void ExpectColumns(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(Planbctl, HelpFitsAScreen) {
  for (const char* words : {"--help", "help", "-h"}) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 0) << words;
    EXPECT_THAT(ended.err, IsEmpty());
    EXPECT_LE(std::count(ended.out.begin(), ended.out.end(), '\n'), 50);
    ExpectColumns(ended.out);
    EXPECT_THAT(ended.out,
                AllOf(HasSubstr("\n  lookup  "), HasSubstr("Exit codes:"),
                      HasSubstr("\n  table       complete, copy, create, "
                                "delete, list, show\n")));
    // Each flag is one of every command.
    const std::string flags = Do("help flags");
    int found = 0;
    for (absl::string_view line : absl::StrSplit(ended.out, '\n')) {
      if (!absl::ConsumePrefix(&line, "  --")) continue;
      ++found;
      EXPECT_THAT(flags, HasSubstr(absl::StrCat(
                             "\n  --", line.substr(0, line.find('=')), " ")));
    }
    EXPECT_GE(found, 5);
  }
}

TEST(Planbctl, WholeHelpHasEachCommand) {
  const std::string whole = Do("help all");
  EXPECT_THAT(whole, AllOf(HasSubstr(Do("help flags")), HasSubstr("Examples:"),
                           HasSubstr("\nExit codes:\n  0  ")));
  ExpectColumns(whole);
  std::string commands = whole;
  commands.erase(0, commands.find("Commands:\n") + 10);
  commands.resize(commands.find("\n\n"));
  const std::vector<std::string> lines = absl::StrSplit(commands, '\n');
  EXPECT_GT(lines.size(), 30U);
  for (const std::string& line : lines) {
    const std::string command(
        absl::StripAsciiWhitespace(line.substr(0, line.find("  ", 2))));
    const std::string help = Do(absl::StrCat("help ", command));
    EXPECT_THAT(help,
                StartsWith(absl::StrCat("Usage: planbctl [FLAGS] ", command)));
    EXPECT_EQ(Do(absl::StrCat(command, " --help")), help);
    ExpectColumns(help);
  }
}

TEST(Planbctl, VersionIsOneLine) {
  EXPECT_EQ(Do("--version"), absl::StrCat("planbctl ", kVersion, "\n"));
}

TEST(Planbctl, GroupsOfCommandsHaveHelp) {
  for (const char* words : {"help routes", "routes --help"}) {
    EXPECT_THAT(
        Do(words),
        AllOf(StartsWith("Usage: planbctl [FLAGS] routes COMMAND"),
              HasSubstr("\n  routes list "), HasSubstr("\n  routes watch "),
              Not(HasSubstr("nexthop"))));
  }
  for (const char* words : {"routes", "routes frobnicate", "help routes x"}) {
    EXPECT_THAT(Ctl(words).err, HasSubstr("there are: routes diff, ")) << words;
  }
}

constexpr char kWrong[] =
    "frobnicate, help frobnicate, --frob, lookup --chunk=3 ::1, "
    "--timeout=soon status, --timeout=-1s status, --timeout, status extra, "
    "health extra, "
    "lookup 1.2.3, lookup ::1 -, announce, announce ::/0, announce ::/0 0, "
    "announce ::/0 x, announce ::1/64 5, announce ::/0 5 --ack=maybe, "
    "withdraw, withdraw ::1/64, replay, replay /nonexistent, "
    "replay --speed=-1 /nonexistent, replay --speed=nan /nonexistent, routes, "
    "routes frobnicate, help routes frobnicate, routes list ::/0 ::/0, "
    "routes list ::1/64, routes list --match=exact, "
    "routes list ::/0 --match=fuzzy, routes get, routes get ::1, "
    "routes explain, routes explain ::/0, routes watch extra, "
    "routes watch --start=x, routes replace, routes replace /nonexistent, "
    "routes diff, routes diff /nonexistent, nexthop list extra, nexthop set, "
    "nexthop set 0, nexthop set 7 --gateway=nowhere, nexthop delete, "
    "nexthop delete x, group set 9, group set 9 7*, group set 9 7*0, "
    "group set 9 7*1*1, group set 9 7*+1, group set 9 7*01, group set 9 07, "
    "announce ::/0 007, announce ::/0 +7, announce ::/0 0x7, "
    "announce ::/0 7.0, "
    "nexthop set 007, nexthop delete +7, nexthop set 4294967296, "
    "group delete, table list extra, table show a b, "
    "table create, table delete, snapshot export, "
    "snapshot export /nonexistent/file, snapshot import, "
    "snapshot import /nonexistent, snapshot import /, load, load a b, "
    "load /nonexistent, verify, verify /nonexistent, bench extra, "
    "bench --check, bench --trace=match, bench --depth=0, "
    "bench --addresses=/nonexistent, bench --family=ipx, bench --trace=zipf, "
    "bench --trace=fast, bench --rate=-1, bench --rate=nan, "
    "bench --rate=3e6 --batch=1, bench --arrivals=odd, bench --form=lower, "
    "bench --form=upper --family=ipv4, bench --streams=2 --connections=3, "
    "bench --warmup=-1s, bench --client_cpus=x, bench --client_cpus=1023, "
    "generate one two, generate --routes=many, "
    "generate /nonexistent/file, convert, convert /nonexistent, "
    "--server=localhost status, "
    "--server=unix://x status";

class PlanbctlTest : public testing::PlanbctlFixture {};

TEST_F(PlanbctlTest, UsageErrorsEndWith2) {
  std::vector<std::string> wrong = absl::StrSplit(kWrong, ", ");
  wrong.emplace_back();  // no command
  for (const std::string& words : wrong) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 2) << words << "\n" << ended.err;
    EXPECT_THAT(ended.out, IsEmpty()) << words;
    EXPECT_THAT(ended.err, StartsWith("planbctl: ")) << words;
  }
}

TEST(Planbctl, MadeUpTablesAreBounded) {
  const std::string kept = Write("kept", "as it was");
  for (const std::string& words :
       {absl::StrCat("generate --routes=99999999999999 ", kept),
        absl::StrCat("generate --routes=0 --ipv4=10000001 ", kept),
        absl::StrCat("generate --routes=18446744073709551615 --ipv4=2 ", kept),
        std::string("bench --synthetic=9999999 --ipv4=2")}) {
    Fails(2, words, ": 10000000 together are the most");
  }
  EXPECT_EQ(Slurp(kept), "as it was");
}

TEST(Planbctl, UnreachableServersEndWith4) {
  for (const char* words :
       {"lookup ::1", "lookup -", "status", "health", "announce ::/0 1",
        "withdraw ::/0", "bench --seconds=0.1", "routes list",
        "routes get ::/0", "routes explain ::1", "routes watch", "nexthop list",
        "nexthop set 1", "group delete 1", "table list", "table show",
        "table create x", "table delete x",
        "snapshot export /tmp/planb_none"}) {
    Fails(4, absl::StrCat("--server=unix:///nonexistent/socket ", words),
          "UNAVAILABLE: cannot connect to unix:///nonexistent/socket");
  }
  const std::string file = Write("routes", "::/0 1\n");
  for (const char* words : {"load ", "verify ", "routes replace ",
                            "routes diff ", "snapshot import "}) {
    Fails(4, absl::StrCat("--server=127.0.0.1:1 ", words, file));
  }
}

TEST_F(PlanbctlTest, ServersThatDoNotAnswerEndWith3) {
  proxy_.Hold();
  FailsInTime(3, "--timeout=1s lookup -", "DEADLINE_EXCEEDED", "::1\n");
}

TEST_F(PlanbctlTest, DrainingServersEndWith4) {
  proxy_.EndCalls(0, MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING"));
  FailsInTime(4, "--timeout=1s lookup -", "DRAINING", "::1\n");
}

TEST_F(PlanbctlTest, LookupSurvivesBrokenStreams) {
  proxy_.EndCalls(1, MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING"));
  EXPECT_EQ(Do("lookup --nodescribe --batch=1 -",
               "10.0.0.1\n10.1.0.1\n2001:db8::1\n"),
            "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
            "10.1.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
            "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 1\n");
  EXPECT_EQ(proxy_.calls(), 3U);
}

TEST_F(PlanbctlTest, LookupShowsRoutes) {
  EXPECT_EQ(Do("lookup 2001:db8:1::1 10.1.2.3"),
            "2001:db8:1::1\tnext hop 7\t2001:db8:1::/48\tgeneration 1\n"
            "10.1.2.3\tnext hop 6\t10.0.0.0/8\tgeneration 1\n");
  EXPECT_EQ(Fails(1, "lookup --noprefixes 2001:db8::1 ::1"),
            "2001:db8::1\tnext hop 5\t-\tgeneration 1\n"
            "::1\tno route\t-\tgeneration 1\n");
  EXPECT_EQ(proxy_.requests(), 0U);
}

TEST_F(PlanbctlTest, LookupForAFlowShowsMembers) {
  Do("group set 1000000 42");
  Do("announce 192.0.2.0/24 1000000");
  EXPECT_THAT(Do("lookup 192.0.2.1"), HasSubstr("\tnext hop 1000000\t"));
  const std::string one = Do("lookup --flow_hash=41 192.0.2.1 10.0.0.1");
  EXPECT_EQ(one,
            "192.0.2.1\tnext hop 42\t192.0.2.0/24\tgeneration 3\n"
            "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 3\n");
  // A group is described by a list, and a member by its answer.
  EXPECT_EQ(proxy_.calls("ListNextHops"), 2U);
  Do("lookup --flow_hash=41 192.0.2.1");
  EXPECT_EQ(proxy_.calls("ListNextHops"), 2U);
  EXPECT_EQ(Do("lookup --flow_hash=41 -", "192.0.2.1\n10.0.0.1\n"), one);
  Fails(2, "lookup --flow_hash=x ::1");
}

TEST_F(PlanbctlTest, JsonIsAFormOfOutput) {
  EXPECT_EQ(Fails(1, "lookup --output=json ::1"),
            Fails(1, "lookup --json ::1"));
  Fails(2, "lookup --output=xml ::1", "table, json, yaml, csv");
}

TEST_F(PlanbctlTest, LookupAnswersEachLineBeforeTheNextComes) {
  const std::string out = Scratch("dialogue");
  EXPECT_EQ(
      system(absl::StrCat("bash -c 'coproc client/planbctl/planbctl lookup -\n"
                          "for address in 10.0.0.1 bad 2001:db8::1; do\n"
                          "  echo $address >&${COPROC[1]}\n"
                          "  [[ $address == bad ]] ||\n"
                          "    read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                          "  echo \"$line\"\n"
                          "done' > ",
                          out)
                 .c_str()),
      0);
  EXPECT_EQ(Slurp(out),
            "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
            "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
            "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 1\n");
}

TEST_F(PlanbctlTest, LookupWaitsOnceAGenerationForObjects) {
  // The watch ends at the first change, and planbctl stays behind.
  proxy_.EndCalls(1, testing::RetryLater(absl::Minutes(1)), 1, "WatchRoutes");
  const std::string out = Scratch("behind");
  EXPECT_EQ(
      system(absl::StrCat("bash -c 'ctl=client/planbctl/planbctl\n"
                          "coproc $ctl lookup\n"
                          "echo 10.0.0.1 >&${COPROC[1]}\n"
                          "read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                          "$ctl announce ::/0 9 >/dev/null || exit 1\n"
                          "begin=$SECONDS\n"
                          "for i in {1..20}; do\n"
                          "  echo 10.0.0.1 >&${COPROC[1]}\n"
                          "  read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                          "done\n"
                          "echo \"$line\"\n"
                          "(( SECONDS - begin < 15 )) || echo slow' > ",
                          out)
                 .c_str()),
      0);
  EXPECT_EQ(Slurp(out), "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 2\n");
}

TEST_F(PlanbctlTest, LookupReadsLines) {
  for (const char* words : {"lookup", "lookup -", "lookup --batch=1",
                            "lookup --batch=2 --depth=1"}) {
    EXPECT_EQ(Fails(2, words,
                    "stdin:4: ", "10.0.0.1\n# c\n\nbad\n2001:db8::1\n::1\n"),
              "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
              "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 1\n"
              "::1\tno route\t-\tgeneration 1\n");
  }
  EXPECT_EQ(proxy_.calls("Lookup"), 0U);
  Do("lookup", "10.0.0.1\n");
  Fails(1, "lookup", "", "10.0.0.1\n11.0.0.1\n");
  Do("lookup", "");
}

TEST_F(PlanbctlTest, LookupTakesManyArguments) {
  std::string words = "lookup";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&words, " 10.0.0.", i);
  const std::vector<std::string> lines = absl::StrSplit(Do(words), '\n');
  ASSERT_EQ(lines.size(), 201U);
  EXPECT_THAT(lines[199], StartsWith("10.0.0.199\tnext hop 6\t"));
}

TEST_F(PlanbctlTest, AnnounceAndWithdraw) {
  EXPECT_EQ(Do("announce 2001:db8::/32 9 192.0.2.0/24 3"),
            "generation 2 (visible: 2): 1 added, 1 changed, 0 removed, 0 "
            "unchanged\n");
  EXPECT_EQ(Updates().back().ack(), v1::ACK_VISIBLE);

  EXPECT_THAT(
      Do("withdraw --json --ack=accepted 192.0.2.0/24 198.51.100.0/24"),
      // Perhaps it is not yet visible.
      AllOf(StartsWith(R"({"generation":3,"visible_generation":)"),
            HasSubstr(R"(,"added":0,"changed":0,"removed":1,"unchanged":1,)"
                      R"("persisted_generation":0,"dry_run":false,)"),
            HasSubstr(R"(,"digest":")")));
  EXPECT_EQ(Updates().back().ack(), v1::ACK_ACCEPTED);
  EXPECT_EQ(ServedRoutes().size(), 3U);
}

TEST_F(PlanbctlTest, StatusAndHealth) {
  EXPECT_THAT(Do("status"),
              AllOf(HasSubstr("(SERVING)"), HasSubstr("2 IPv6, 1 IPv4"),
                    HasSubstr("never")));
  EXPECT_THAT(
      Do("status --json"),
      AllOf(StartsWith(R"({"table":"default","accepted_generation":1,)"),
            HasSubstr(R"("health":"SERVING")")));
  EXPECT_EQ(Do("health"), "SERVING\n");
  EXPECT_EQ(Do("health --json"), "{\"service\":\"\",\"status\":\"SERVING\"}\n");
  Fails(3, "health --service=no.such.Service", "NOT_FOUND");
}

// planbctl while its wall clock is set an hour forward and back: no call gives
// up early or sleeps for that hour. The server, in this process, has the right
// clock.

using testing::Scratch;
using testing::Slurp;

class ClockJump : public testing::PlanbctlFixture {
 protected:
  // Runs planbctl with its own clock. `name` is part of its files' names. Only
  // one run can begin at a time.
  std::thread Start(const std::string& name, const std::string& arguments) {
    const TestClock::Affecting affecting(clock_);
    // A wait of an hour ends as a failure, by the right clock.
    const std::string command = absl::StrCat(
        "timeout -s KILL 120 client/planbctl/planbctl ", arguments, " >",
        Scratch(name + ".out"), " 2>", Scratch(name + ".err"),
        " </dev/null & echo $! >", Scratch(name + ".pid"),
        "; wait $!; echo $? >", Scratch(name + ".code"));
    // Waits until it has this environment.
    unlink(Scratch(name + ".pid").c_str());
    std::thread run([command] { EXPECT_EQ(system(command.c_str()), 0); });
    while (Slurp(Scratch(name + ".pid")).empty()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return run;
  }

  static void ExpectSuccess(const std::string& name) {
    EXPECT_EQ(Slurp(Scratch(name + ".code")), "0\n")
        << name << ": " << Slurp(Scratch(name + ".out"))
        << Slurp(Scratch(name + ".err"));
  }

  const std::string routes_ =
      Write("routes", "10.0.0.0/8 6\n2001:db8::/32 5\n2001:db8:1::/48 7\n");
  TestClock clock_;
};

// The clock is set back while a client waits to retry. (This is BatchLookup
// with its own channels. A RouteWatcher waits by gRPC's timers, which in 1.51
// use the wall clock.)
TEST_F(ClockJump, RetriesAreNotAnHourLate) {
  std::thread soak =
      Start("soak", absl::StrCat("soak --seconds=4 --timeout=100s ", routes_));
  while (proxy_.requests() < 10) absl::SleepFor(absl::Milliseconds(10));
  proxy_.Die();
  absl::SleepFor(absl::Milliseconds(1500));  // until pauses are long
  const uint64_t before = proxy_.requests();
  clock_.Set(-TestClock::kHour);
  proxy_.Restart();
  soak.join();
  ExpectSuccess("soak");
  EXPECT_THAT(Slurp(Scratch("soak.out")), HasSubstr(" batches failed: none;"));
  EXPECT_GT(proxy_.requests(), before);
}

// The clock is set repeatedly while commands run.
TEST_F(ClockJump, NothingFails) {
  clock_.StartJumping(absl::Milliseconds(1));
  std::vector<std::string> names;
  std::vector<std::thread> runs;
  const auto run = [&](const std::string& name, const std::string& arguments) {
    runs.push_back(Start(name, arguments));
    names.push_back(name);
  };
  run("soak", absl::StrCat("soak --seconds=3 ", routes_));
  run("bench", "bench --seconds=3 --batch=64");
  run("verify", absl::StrCat("verify ", routes_));
  run("load", absl::StrCat("load ", routes_));
  for (std::thread& each : runs) each.join();
  for (const std::string& name : names) ExpectSuccess(name);
  EXPECT_GT(clock_.jumps(), 20);
}

}  // namespace
}  // namespace planb::client
