// SPDX-License-Identifier: Apache-2.0

// The real binary with a fake server: exit codes and output, which scripts use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/testing/test_clock.h"
#include "client/testing/planbctl_fixture.h"
#include "version.h"

namespace planb::client {

namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeError;
using ::testing::Not;
using ::testing::StartsWith;
using testing::Write;

constexpr const char* kCommands[] = {
    "lookup",          "announce",        "withdraw",       "load",
    "routes list",     "routes get",      "routes explain", "routes watch",
    "routes replace",  "routes diff",     "nexthop list",   "nexthop set",
    "nexthop delete",  "group list",      "group set",      "group delete",
    "table list",      "table show",      "table create",   "table delete",
    "snapshot export", "snapshot import", "status",         "health",
    "replay",          "bench",           "verify",         "generate"};

class PlanbctlTest : public testing::PlanbctlFixture {};

TEST_F(PlanbctlTest, HelpIsNoError) {
  for (const char* words : {"--help", "help", "-h"}) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 0) << words;
    EXPECT_THAT(ended.out, HasSubstr("Exit codes:"));
    EXPECT_THAT(ended.err, IsEmpty());
  }
  const std::string all = Ctl("--help").out;
  for (const char* command : kCommands) {
    EXPECT_THAT(all, HasSubstr(absl::StrCat("\n  ", command, " ")));
    const Ended ended = Ctl(absl::StrCat("help ", command));
    EXPECT_EQ(ended.code, 0) << command;
    EXPECT_THAT(ended.out,
                StartsWith(absl::StrCat("Usage: planbctl [FLAGS] ", command)));
    EXPECT_EQ(Ctl(absl::StrCat(command, " --help")).out, ended.out);
    for (absl::string_view line : absl::StrSplit(ended.out, '\n')) {
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST_F(PlanbctlTest, VersionIsOneLine) {
  const Ended ended = Ctl("--version");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, absl::StrCat("planbctl ", kVersion, "\n"));
  EXPECT_THAT(ended.err, IsEmpty());
}

TEST_F(PlanbctlTest, GroupsOfCommandsHaveHelp) {
  for (const char* words : {"help routes", "routes --help"}) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 0) << words;
    EXPECT_THAT(
        ended.out,
        AllOf(StartsWith("Usage: planbctl [FLAGS] routes COMMAND"),
              HasSubstr("\n  routes list "), HasSubstr("\n  routes watch "),
              Not(HasSubstr("nexthop"))));
  }
  for (const char* words : {"routes", "routes frobnicate", "help routes x"}) {
    EXPECT_THAT(Ctl(words).err, HasSubstr("there are: routes list, ")) << words;
  }
}

TEST_F(PlanbctlTest, UsageErrorsEndWith2) {
  for (const char* words : {"",
                            "frobnicate",
                            "help frobnicate",
                            "--frob",
                            "lookup --chunk=3 ::1",
                            "--timeout=soon status",
                            "--timeout",
                            "status extra",
                            "health extra",
                            "lookup 1.2.3",
                            "lookup ::1 -",
                            "announce",
                            "announce ::/0",
                            "announce ::/0 0",
                            "announce ::/0 x",
                            "announce ::1/64 5",
                            "announce ::/0 5 --ack=maybe",
                            "withdraw",
                            "withdraw ::1/64",
                            "replay",
                            "replay /nonexistent",
                            "replay --speed=-1 /nonexistent",
                            "replay --speed=nan /nonexistent",
                            "routes",
                            "routes frobnicate",
                            "help routes frobnicate",
                            "routes list ::/0 ::/0",
                            "routes list ::1/64",
                            "routes list --match=exact",
                            "routes list ::/0 --match=fuzzy",
                            "routes get",
                            "routes get ::1",
                            "routes explain",
                            "routes explain ::/0",
                            "routes watch extra",
                            "routes watch --start=x",
                            "routes replace",
                            "routes replace /nonexistent",
                            "routes diff",
                            "routes diff /nonexistent",
                            "nexthop list extra",
                            "nexthop set",
                            "nexthop set 0",
                            "nexthop set 7 --gateway=nowhere",
                            "nexthop delete",
                            "nexthop delete x",
                            "group set 9",
                            "group set 9 7*",
                            "group set 9 7*0",
                            "group set 9 7*1*1",
                            "group delete",
                            "table list extra",
                            "table show a b",
                            "table create",
                            "table delete",
                            "snapshot export",
                            "snapshot export /nonexistent/file",
                            "snapshot import",
                            "snapshot import /nonexistent",
                            "snapshot import /",
                            "load",
                            "load a b",
                            "load /nonexistent",
                            "verify",
                            "verify /nonexistent",
                            "bench extra",
                            "bench --check",
                            "bench --trace=match",
                            "bench --depth=0",
                            "bench --addresses=/nonexistent",
                            "bench --family=ipx",
                            "bench --trace=zipf",
                            "bench --trace=fast",
                            "bench --rate=-1",
                            "bench --rate=nan",
                            "bench --rate=3e6 --batch=1",
                            "bench --arrivals=odd",
                            "bench --form=lower",
                            "bench --form=upper --family=ipv4",
                            "bench --streams=2 --connections=3",
                            "bench --warmup=-1s",
                            "bench --client_cpus=x",
                            "bench --client_cpus=1023",
                            "generate extra",
                            "generate --routes=many",
                            "generate --output=/nonexistent/file",
                            "--server=localhost status",
                            "--server=unix://x status"}) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 2) << words << "\n" << ended.err;
    EXPECT_THAT(ended.out, IsEmpty()) << words;
    EXPECT_THAT(ended.err, StartsWith("planbctl: ")) << words;
  }
}

TEST_F(PlanbctlTest, UnreachableServersEndWith4) {
  for (const char* words :
       {"lookup ::1", "lookup -", "status", "health", "announce ::/0 1",
        "withdraw ::/0", "bench --seconds=0.1", "routes list",
        "routes get ::/0", "routes explain ::1", "routes watch", "nexthop list",
        "nexthop set 1", "group delete 1", "table list", "table show",
        "table create x", "table delete x",
        "snapshot export /tmp/planb_none"}) {
    const Ended ended =
        Ctl(absl::StrCat("--server=unix:///nonexistent/socket ", words));
    EXPECT_EQ(ended.code, 4) << words << "\n" << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("UNAVAILABLE"),
                                 HasSubstr("unix:///nonexistent/socket")));
  }
  const std::string file = Write("routes", "::/0 1\n");
  EXPECT_EQ(Ctl("--server=127.0.0.1:1 load " + file).code, 4);
  EXPECT_EQ(Ctl("--server=127.0.0.1:1 verify " + file).code, 4);
  EXPECT_EQ(Ctl("--server=127.0.0.1:1 routes replace " + file).code, 4);
  EXPECT_EQ(Ctl("--server=127.0.0.1:1 routes diff " + file).code, 4);
  EXPECT_EQ(Ctl("--server=127.0.0.1:1 snapshot import " + file).code, 4);
}

TEST_F(PlanbctlTest, RefusalsEndWith3) {
  for (const char* words :
       {"lookup ::1", "lookup -", "status", "announce ::/0 1", "withdraw ::/0",
        "bench --seconds=0.1", "routes list", "routes get ::/0",
        "routes explain ::1", "routes watch", "routes watch --start=1",
        "nexthop list", "nexthop set 1", "group list", "group delete 1",
        "table show", "table show none", "table delete none",
        "snapshot export /tmp/planb_none"}) {
    const Ended ended = Ctl(absl::StrCat("--table=none ", words), "::1\n");
    EXPECT_EQ(ended.code, 3) << words << "\n" << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("TABLE_NOT_FOUND")) << words;
  }
  const std::string file = Write("routes", "::/0 1\n");
  EXPECT_EQ(Ctl("--table=none load " + file).code, 3);
  EXPECT_EQ(Ctl("--table=none verify --samples=1 " + file).code, 3);
  EXPECT_EQ(Ctl("--table=none routes replace " + file).code, 3);
  EXPECT_EQ(Ctl("--table=none routes diff " + file).code, 3);
  EXPECT_EQ(Ctl("snapshot import " + file).code, 3);  // it is none
}

TEST_F(PlanbctlTest, ServersThatDoNotAnswerEndWith3) {
  server_.Hold();
  const Ended ended = Ctl("--timeout=1s lookup -", "::1\n");
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(PlanbctlTest, DrainingServersEndWith4) {
  server_.EndStreams(
      0, MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING", "going down"));
  const Ended ended = Ctl("--timeout=1s lookup -", "::1\n");
  EXPECT_EQ(ended.code, 4);
  EXPECT_THAT(ended.err, HasSubstr("DRAINING"));
}

TEST_F(PlanbctlTest, LookupSurvivesBrokenStreams) {
  server_.EndStreams(
      1, MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING", "going down"));
  const Ended ended =
      Ctl("lookup --batch=1 -", "10.0.0.1\n10.0.0.2\n10.0.0.3\n");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(server_.streams_opened(), 3U);
}

TEST_F(PlanbctlTest, LookupShowsRoutes) {
  const Ended ended = Ctl("lookup 2001:db8:1::1 10.1.2.3");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "2001:db8:1::1\tnext hop 7\t2001:db8:1::/48\tgeneration 1\n"
            "10.1.2.3\tnext hop 6\t10.0.0.0/8\tgeneration 1\n");
  const Ended missed = Ctl("lookup --noprefixes 2001:db8::1 ::1");
  EXPECT_EQ(missed.code, 1);
  EXPECT_EQ(missed.out,
            "2001:db8::1\tnext hop 5\t-\tgeneration 1\n"
            "::1\tno route\t-\tgeneration 1\n");
  EXPECT_EQ(server_.batches_read(), 0U);
}

TEST_F(PlanbctlTest, LookupForAFlowShowsMembers) {
  ASSERT_EQ(Ctl("announce 192.0.2.0/24 1000000").code, 0);
  const Ended group = Ctl("lookup 192.0.2.1");
  EXPECT_THAT(group.out, HasSubstr("\tnext hop 1000000\t"));
  const Ended one = Ctl("lookup --flow_hash=41 192.0.2.1 10.0.0.1");
  EXPECT_EQ(one.out,
            "192.0.2.1\tnext hop 42\t192.0.2.0/24\tgeneration 2\n"
            "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 2\n");
  EXPECT_EQ(Ctl("lookup --flow_hash=41 -", "192.0.2.1\n10.0.0.1\n").out,
            one.out);
  EXPECT_EQ(Ctl("lookup --flow_hash=x ::1").code, 2);
}

TEST_F(PlanbctlTest, LookupPrintsJsonLines) {
  const Ended ended = Ctl("lookup --json 2001:db8:1::1 ::1");
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, R"({"address":"2001:db8:1::1","next_hop":7,)"
                       R"("generation":1,"prefix":"2001:db8:1::/48"})"
                       "\n"
                       R"({"address":"::1","next_hop":0,"generation":1})"
                       "\n");
}

TEST_F(PlanbctlTest, LookupReadsLines) {
  for (const char* words : {"lookup", "lookup -", "lookup --batch=1",
                            "lookup --batch=2 --depth=1"}) {
    const Ended ended = Ctl(words, "10.0.0.1\n# c\n\nbad\n2001:db8::1\n::1\n");
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.out,
              "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n"
              "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 1\n"
              "::1\tno route\t-\tgeneration 1\n");
    EXPECT_THAT(ended.err, HasSubstr("line 4: "));
  }
  EXPECT_EQ(server_.lookups_called(), 0U);
  EXPECT_EQ(Ctl("lookup", "10.0.0.1\n").code, 0);
  EXPECT_EQ(Ctl("lookup", "10.0.0.1\n11.0.0.1\n").code, 1);
  EXPECT_EQ(Ctl("lookup", "").code, 0);
}

TEST_F(PlanbctlTest, LookupTakesManyArguments) {
  std::string words = "lookup";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&words, " 10.0.0.", i);
  const Ended ended = Ctl(words);
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::vector<std::string> lines = absl::StrSplit(ended.out, '\n');
  ASSERT_EQ(lines.size(), 201U);
  EXPECT_THAT(lines[199], StartsWith("10.0.0.199\tnext hop 6\t"));
}

TEST_F(PlanbctlTest, AnnounceAndWithdraw) {
  Ended ended = Ctl("announce 2001:db8::/32 9 192.0.2.0/24 3");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "generation 2 (visible: 2): 1 added, 1 changed, 0 removed, 0 "
            "unchanged\n");
  EXPECT_EQ(server_.updates().back().ack(), v1::ACK_VISIBLE);

  ended = Ctl("withdraw --json --ack=accepted 192.0.2.0/24 198.51.100.0/24");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            R"({"generation":3,"visible_generation":3,"added":0,"changed":0,)"
            R"("removed":1,"dry_run":false,"persisted_generation":0,)"
            R"("unchanged":1})"
            "\n");
  EXPECT_EQ(server_.updates().back().ack(), v1::ACK_ACCEPTED);
  EXPECT_EQ(server_.table().routes().size(), 3U);
}

TEST_F(PlanbctlTest, ChangesMayBeConditional) {
  Ended ended = Ctl("announce --strict 2001:db8::/32 9");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("ROUTE_EXISTS"));
  ended = Ctl("withdraw --strict 192.0.2.0/24");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("ROUTE_NOT_FOUND"));
  ended = Ctl("announce --expected_generation=0 ::/0 9");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("GENERATION_MISMATCH"));
  ended = Ctl("announce --dry_run ::/0 9");
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("1 added"), HasSubstr("dry run")));
  EXPECT_EQ(server_.table().generation(), 1U);
  EXPECT_EQ(Ctl("announce --expected_generation=1 ::/0 9").code, 0);
  EXPECT_EQ(server_.table().generation(), 2U);
}

TEST_F(PlanbctlTest, ChangesSayWhoMakesThem) {
  ASSERT_EQ(Ctl("announce --writer_epoch=2 --request_id=abc ::/0 9").code, 0);
  EXPECT_EQ(server_.updates().back().writer_epoch(), 2U);
  EXPECT_EQ(server_.updates().back().request_id(), "abc");
  Ended ended = Ctl("announce --writer_epoch=1 ::/0 8");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("WRITER_FENCED"));
  ended = Ctl("withdraw --writer_epoch=2 --ack=persisted ::/0");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("STORE_VOLATILE"));
  const testing::FakeServer durable({.durable = true});
  ended = Ctl(absl::StrCat("--server=", durable.target(),
                           " announce --ack=persisted ::/0 8"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("persisted: 1"));
}

TEST_F(PlanbctlTest, StatusAndHealth) {
  Ended ended = Ctl("status");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("(SERVING)"), HasSubstr("2 IPv6, 1 IPv4"),
                    HasSubstr("/32: 1, /48: 1"), HasSubstr("never")));
  ended = Ctl("status --json");
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(
      ended.out,
      AllOf(StartsWith(R"({"table":"default","accepted_generation":1,)"),
            HasSubstr(R"("health":"SERVING")"),
            HasSubstr(R"("lengths_v4":{"8":1})"),
            Not(HasSubstr("last_build_time"))));
  EXPECT_EQ(Ctl("health").out, "SERVING\n");
  EXPECT_EQ(Ctl("health --json").out,
            "{\"service\":\"\",\"status\":\"SERVING\"}\n");
  EXPECT_EQ(Ctl("health --service=no.such.Service").code, 3);
  server_.SetServing(false);
  ended = Ctl("health");
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, "NOT_SERVING\n");
  EXPECT_EQ(Ctl("status").code, 1);
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
  while (server_.batches_read() < 10) absl::SleepFor(absl::Milliseconds(10));
  server_.Die();
  absl::SleepFor(absl::Milliseconds(1500));  // until pauses are long
  const uint64_t before = server_.batches_read();
  clock_.Set(-TestClock::kHour);
  server_.Restart();
  soak.join();
  ExpectSuccess("soak");
  EXPECT_THAT(Slurp(Scratch("soak.out")), HasSubstr(" batches failed: none;"));
  EXPECT_GT(server_.batches_read(), before + 10);
}

// The clock is set repeatedly while commands run.
TEST_F(ClockJump, NothingFails) {
  // Not as often as possible: deadlines use the wall clock until the library
  // gets them.
  clock_.StartJumping(absl::Milliseconds(10));
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
