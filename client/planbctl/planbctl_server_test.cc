// SPDX-License-Identifier: Apache-2.0

// The real planbctl with the real server: each command of the control path.

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "client/batch_lookup.h"
#include "client/channel.h"
#include "client/lookup_client.h"
#include "client/testing/planbctl_fixture.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {

namespace {

using ::testing::AllOf;
using testing::Do;
using ::testing::EndsWith;
using testing::Fails;
using testing::FailsInTime;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

constexpr const char* kTable =
    "10.0.0.0/8 6\n2001:db8::/32 5\n2001:db8:1::/48 7\n";

class PlanbctlServerTest : public testing::RealServerFixture {};

TEST_F(PlanbctlServerTest, Soak) {
  const std::string file = Write("soaked", kTable);
  Do("load " + file);
  EXPECT_THAT(Do("soak --seconds=0.5 --batch=16 --rate=1600 " + file),
              AllOf(HasSubstr(": 0 wrong answers; batches failed: none;"),
                    HasSubstr("0 reconnects; longest wait ")));
  EXPECT_THAT(Do("soak --json --seconds=0.2 --family=ipv4 " + file),
              AllOf(HasSubstr("\"mismatches\":0,\"failures\":{},"),
                    HasSubstr("\"latency_us_max\":")));
  const std::string other = Write("other", "10.0.0.0/8 6\n::/0 1\n");
  EXPECT_THAT(Fails(1, "soak --seconds=0.2 " + other),
              HasSubstr("; batches failed: none;"));
  Fails(2, "soak " + Write("empty", ""));
  Fails(2, "soak --batch=0 " + file);
  Fails(4, "soak --server=unix:///nonexistent " + file);
}

TEST_F(PlanbctlServerTest, VerifyComparesAnswersForACallerThatMayOnlyLookUp) {
  const std::string policy = Write("policy", R"({"name": "p", "allow_rules": [
      {"name": "lookups", "request": {"paths": ["/planb.v1.RouteLookup/*"]}}]})");
  const std::string file = Write("routes", kTable);
  Kill();
  Start("none", file, {absl::StrCat("--authorization_policy=", policy)});
  const std::string says = "this caller may not list routes: ";
  EXPECT_THAT(Fails(0, "verify --samples=0 " + file, says),
              HasSubstr(" 0 mismatches; the routes are not compared"));
  EXPECT_THAT(Fails(0, "verify --json --samples=0 " + file, says),
              Not(HasSubstr("different_routes")));
  const std::string other = Write("other", "10.0.0.0/8 6\n::/0 1\n");
  Fails(1, "verify --samples=0 " + other, says);
}

TEST_F(PlanbctlServerTest, RefusalsEndWith3) {
  for (const char* words :
       {"lookup ::1", "lookup -", "status", "announce ::/0 1", "withdraw ::/0",
        "bench --seconds=0.1", "routes list", "routes get ::/0",
        "routes explain ::1", "routes watch", "routes watch --start=1",
        "nexthop list", "nexthop set 1", "group list", "group delete 1",
        "table show", "table show none", "table delete none",
        "snapshot export /tmp/planb_none"}) {
    Fails(3, absl::StrCat("--table=none ", words), "TABLE_NOT_FOUND", "::1\n");
  }
  const std::string file = Write("table", kTable);
  for (const char* words :
       {"load ", "verify --samples=1 ", "routes replace ", "routes diff "}) {
    Fails(3, absl::StrCat("--table=none ", words, file), "TABLE_NOT_FOUND");
  }
  const std::string snapshot = Scratch("snapshot");
  Do("snapshot export " + snapshot);
  Fails(3, "--table=none snapshot import --allow_empty " + snapshot,
        "TABLE_NOT_FOUND");
}

TEST_F(PlanbctlServerTest, ALoadThatFailsSaysHowFarItCame) {
  Start("none", "", {"--max_routes=2"});
  Fails(3, "load --chunk=2 " + Write("far", "::/1 1\n::/2 1\n::/3 1\n::/4 1\n"),
        "; 2 of 4 routes that were read were acknowledged before that\n");
}

TEST_F(PlanbctlServerTest, RoutesAreShown) {
  Do("load " + Write("table", kTable));
  const std::string list = Do("routes list");
  EXPECT_EQ(list,
            "10.0.0.0/8               6\n"
            "2001:db8::/32            5\n"
            "2001:db8:1::/48          7\n");
  Do("table create copy");
  Do("--table=copy load " + Write("listed", list));
  EXPECT_EQ(Do("--table=copy routes list"), list);
  const std::string v6 = R"({"prefix":"2001:db8::/32","next_hop":5})"
                         "\n";
  const std::string longer = R"({"prefix":"2001:db8:1::/48","next_hop":7})"
                             "\n";
  for (const auto& [words, lines] :
       {std::pair("2001:db8::/32", v6 + longer),
        {"2001:db8::/33", longer},
        {"2001:db8::/32 --match=exact", v6},
        {"2001:db8:1::/48 --match=covering", v6 + longer},
        {"2001:db8:1::/48 --match=covering --next_hop=5", v6},
        {"--next_hop=7", longer},
        {"--match=subtree ::/0 --next_hop=6", std::string()}}) {
    EXPECT_EQ(Do(absl::StrCat("routes list --json ", words)), lines) << words;
  }
  EXPECT_EQ(Do("routes get 10.0.0.0/8"), "10.0.0.0/8               6\n");
  EXPECT_EQ(Fails(1, "routes get 10.0.0.0/9"),
            "10.0.0.0/9               no route\n");
  EXPECT_EQ(Fails(1, "routes get --json 10.0.0.0/9"),
            R"({"prefix":"10.0.0.0/9","next_hop":0})"
            "\n");
}

TEST_F(PlanbctlServerTest, TablesAreCopiedToAnotherServer) {
  const std::string socket = absl::StrCat("unix://", TempPath("other.sock"));
  ServerProcess other({absl::StrCat("--listen=", socket), "--store=none",
                       "--metrics_address="});
  ASSERT_TRUE(other.AwaitServing()) << other.Log();
  Do("load " + Write("table", kTable));
  Do("nexthop set 5 --gateway=fe80::1");
  Do("table create blue --prefix_lengths");
  Do("--table=blue announce 10.0.0.0/8 3");
  EXPECT_EQ(Do("table copy " + socket),
            "blue: generation 1 (visible: 1): 1 added, 0 changed, 0 removed, 0 "
            "unchanged\n"
            "default: generation 1 (visible: 1): 3 added, 0 changed, 0 "
            "removed, 0 unchanged\n");
  const std::string there = absl::StrCat("--server=", socket, " ");
  EXPECT_EQ(Do(there + "routes list"), Do("routes list"));
  EXPECT_EQ(Do(there + "nexthop list"), Do("nexthop list"));
  EXPECT_THAT(Do(there + "--table=blue status"), HasSubstr("prefix lengths"));
  // One of them again, without a change.
  EXPECT_THAT(Do("table copy " + socket + " blue"),
              HasSubstr("blue: generation 1 "));
  Fails(3, "table copy " + socket + " green", "green");
  Fails(4, "table copy unix:///nowhere --timeout=1s");
}

TEST_F(PlanbctlServerTest, LookupsWaitUntilATableIsComplete) {
  Do("load " + Write("table", kTable));
  const std::string few = "lookup --await_complete 10.0.0.1";
  const std::string many = "lookup --await_complete -";
  const std::string enrich =
      "enrich --await_complete --columns=a --add=next_hop";
  const std::string address = "10.0.0.1\n", record = "a\n10.0.0.1\n";
  const std::string soon = " --timeout=300ms";
  EXPECT_THAT(Do("table show"), HasSubstr("complete since never\n"));
  FailsInTime(4, few + soon, "no writer has said");
  FailsInTime(4, many + soon, "no writer has said", address);
  FailsInTime(3, enrich + soon, "a complete one is wanted", record);
  Fails(2, "table complete yes", "is not \"no\"");
  EXPECT_THAT(Do("table complete"), HasSubstr("generation 2 (visible: 2)"));
  EXPECT_THAT(Do("table complete"), HasSubstr("generation 2 "));
  EXPECT_THAT(Do("table show"), HasSubstr("complete since 20"));
  EXPECT_THAT(Do(few), HasSubstr("next hop 6"));
  EXPECT_THAT(Do(many, address), HasSubstr("next hop 6"));
  EXPECT_THAT(Do(enrich, record), HasSubstr("10.0.0.1,6"));
  Do("table complete no");
  // While they wait a writer says it.
  std::thread writer([] {
    absl::SleepFor(absl::Milliseconds(100));
    Do("table complete");
  });
  EXPECT_THAT(Do(few), HasSubstr("next hop 6"));
  writer.join();
}

TEST_F(PlanbctlServerTest, ReloadSaysWhatCameOfIt) {
  const std::string file = Write("reload.yaml", "max_routes: 5\n");
  const std::string socket = absl::StrCat("unix://", TempPath("reload.sock"));
  ServerProcess other({absl::StrCat("--listen=", socket), "--store=none",
                       "--metrics_address=", "--config=" + file});
  ASSERT_TRUE(other.AwaitServing()) << other.Log();
  const std::string reload = absl::StrCat("reload --server=", socket);
  EXPECT_EQ(Do(reload), "reloaded\n");
  Write("reload.yaml", "max_routes: 6\nlog_level: debug\n");
  EXPECT_EQ(Do(reload), "reloaded; at the next start: --max_routes\n");
  EXPECT_EQ(Do(reload + " --json"), "{\"need_restart\":[\"max_routes\"]}\n");
  Write("reload.yaml", "log_level: loud\n");
  Fails(3, reload, "loud");
}

TEST_F(PlanbctlServerTest, ExplainShowsEveryMatch) {
  Do("load " + Write("table", kTable));
  Do("nexthop set 5 --gateway=fe80::1 --interface=eth0");
  Do("group set 7 5\\*3 --label=single");
  EXPECT_EQ(Do("routes explain 2001:db8:1::1 --flow_hash=2"),
            "address        2001:db8:1::1\n"
            "generation     3\n"
            "next hop       7\n"
            "group          5*3 label single\n"
            "member         5\n"
            "member object  via fe80::1 dev eth0\n"
            "* 2001:db8:1::/48        7\n"
            "  2001:db8::/32          5\n");
  EXPECT_THAT(Fails(1, "routes explain ::1"),
              HasSubstr("next hop       no route\n"));
}

TEST_F(PlanbctlServerTest, LookupSaysWhatNextHopsMean) {
  Do("load " + Write("table", kTable));
  Do("nexthop set 5 --gateway=fe80::1 --interface=eth0 --label=transit");
  Do("group set 7 5\\*3 6 --label=both");
  const std::string lines =
      "2001:db8::1\tnext hop 5\t2001:db8::/32\tgeneration 3\t"
      "via fe80::1 dev eth0 label transit\n"
      "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 3\n"
      "2001:db8:1::1\tnext hop 7\t2001:db8:1::/48\tgeneration 3\t"
      "5*3 6 label both (5 via fe80::1 dev eth0 label transit)\n";
  EXPECT_EQ(Do("lookup 2001:db8::1 10.0.0.1 2001:db8:1::1"), lines);
  const std::string input = "2001:db8::1\n10.0.0.1\n2001:db8:1::1\n";
  EXPECT_EQ(Do("lookup", input), lines);
  for (const char* words : {"lookup 2001:db8:1::1 --flow_hash=2", "lookup"}) {
    EXPECT_THAT(Do(words, "2001:db8::1\n"), HasSubstr("\tvia fe80::1"))
        << words;
    EXPECT_THAT(Do(absl::StrCat(words, " --nodescribe"), "2001:db8::1\n"),
                Not(HasSubstr("via")));
    EXPECT_THAT(Do(absl::StrCat(words, " --json"), "2001:db8::1\n"),
                HasSubstr(R"("object":{"id":5,"interface":"eth0","weight":1,)"
                          R"("label":"transit","gateway":"fe80::1"}})"));
  }
  EXPECT_THAT(Do("lookup --json 2001:db8:1::1"),
              HasSubstr(R"("group":{"id":7,"members":[{)"));
  Do("nexthop set 5 --gateway=fe80::1 --interface=eth0 --label=transit "
     "--origin_as=64496 --as_path='64500 {64496,64497}'");
  for (const char* words : {"lookup 2001:db8::1", "lookup"}) {
    EXPECT_THAT(Do(words, "2001:db8::1\n"),
                EndsWith("\tvia fe80::1 dev eth0 label transit "
                         "AS64496 path 64500 {64496,64497}\n"))
        << words;
  }
  // What changes while planbctl waits for input.
  const std::string out = Scratch("dialogue");
  EXPECT_EQ(
      system(absl::StrCat(
                 "bash -c 'ctl=client/planbctl/planbctl\ncoproc $ctl lookup -\n"
                 "for label in one two; do\n"
                 "  $ctl nexthop set 6 --label=$label >/dev/null || exit 1\n"
                 "  echo 10.0.0.1 >&${COPROC[1]}\n"
                 "  read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                 "  echo \"$line\"\ndone' > ",
                 out)
                 .c_str()),
      0);
  EXPECT_THAT(testing::Slurp(out),
              AllOf(HasSubstr("\tlabel one\n"), HasSubstr("\tlabel two\n")));
}

TEST_F(PlanbctlServerTest, LookupAnswersACallerThatMayOnlyLookUp) {
  const std::string policy = Write("policy", R"({"name": "p", "allow_rules": [
      {"name": "lookups", "request": {"paths": ["/planb.v1.RouteLookup/*"]}}]})");
  Kill();
  Start("none", Write("routes", kTable),
        {absl::StrCat("--authorization_policy=", policy)});
  const std::string line = "10.0.0.1\tnext hop 6\t10.0.0.0/8\tgeneration 1\n";
  EXPECT_EQ(Do("lookup 10.0.0.1"), line);
  EXPECT_EQ(Do("lookup", "10.0.0.1\n"), line);
}

TEST_F(PlanbctlServerTest, DiffShowsWhatReplaceDoes) {
  Do("load " + Write("table", kTable));
  const std::string file =
      Write("routes", "10.0.0.0/8 6\n2001:db8::/32 9\n192.0.2.0/24 4\n");
  EXPECT_EQ(Fails(1, "routes diff " + file),
            "+ 192.0.2.0/24 4\n"
            "~ 2001:db8::/32 5 -> 9\n"
            "- 2001:db8:1::/48 7\n");
  EXPECT_THAT(Do("routes replace --dry_run " + file),
              HasSubstr("1 added, 1 changed, 1 removed, 1 unchanged (dry run: "
                        "nothing was changed)"));
  Fails(1, "routes diff " + file);
  Fails(3, "routes replace --expected_generation=7 " + file,
        "GENERATION_MISMATCH");
  EXPECT_EQ(Do("routes replace --expected_generation=1 " + file),
            "generation 2 (visible: 2): 1 added, 1 changed, 1 removed, 1 "
            "unchanged\n");
  EXPECT_THAT(Do("routes diff " + file), IsEmpty());
  for (const char* text : {"10.0.0.0/8 6\nnonsense\n", "10.0.0.0/8 6\n::/0"}) {
    const std::string broken = Write("broken", text);
    Fails(2, "routes replace " + broken);
    Fails(2, "routes diff " + broken);
  }
  EXPECT_THAT(Do("routes diff " + file), IsEmpty());
}

TEST_F(PlanbctlServerTest, ChangesAreConditional) {
  EXPECT_EQ(Do("announce ::/0 1 --request_id=a --writer_epoch=3"),
            Do("announce ::/0 1 --request_id=a --writer_epoch=3"));
  Fails(3, "announce ::/0 2 --request_id=a --writer_epoch=3",
        "REQUEST_ID_REUSED");
  Fails(3, "announce ::/0 2 --writer_epoch=2", "WRITER_FENCED");
  Fails(3, "withdraw ::/0 --writer_epoch=3 --ack=persisted", "STORE_VOLATILE");
  EXPECT_THAT(Do("table show"), HasSubstr("\nwriter epoch   3\n"));
  EXPECT_THAT(Do("load --writer_epoch=3 --chunk=1 --request_id=b " +
                 Write("table", kTable)),
              HasSubstr("3 added"));
  const std::string epoch = " --writer_epoch=3";
  Fails(3, "announce --strict ::/0 9" + epoch, "ROUTE_EXISTS");
  Fails(3, "withdraw --strict 192.0.2.0/24" + epoch, "ROUTE_NOT_FOUND");
  Fails(3, "announce --expected_generation=0 ::/0 9" + epoch,
        "GENERATION_MISMATCH");
  EXPECT_THAT(Do("announce --dry_run 192.0.2.0/24 9" + epoch),
              AllOf(HasSubstr("generation 4 "), HasSubstr("1 added"),
                    HasSubstr("dry run")));
  EXPECT_THAT(Do("announce --expected_generation=4 192.0.2.0/24 9" + epoch),
              HasSubstr("generation 5 "));
}

TEST_F(PlanbctlServerTest, ARepeatedReplacementChangesNothing) {
  const std::string replace = "routes replace --request_id=a ";
  const std::string file = Write("table", kTable);
  EXPECT_THAT(Do(replace + file), HasSubstr("generation 1 (visible: 1): 3"));
  Do("withdraw 10.0.0.0/8");
  EXPECT_THAT(Do(replace + file), HasSubstr("generation 1 (visible: 2): 3"));
  Fails(3, replace + Write("other", "::/0 1\n"), "REQUEST_ID_REUSED");
  const std::string snapshot = Scratch("snapshot");
  Do("snapshot export " + snapshot);
  const std::string import = "snapshot import --request_id=b " + snapshot;
  Do("announce ::/0 1");
  EXPECT_THAT(Do(import), HasSubstr("generation 4 (visible: 4): 0 added"));
  Do("announce ::/0 1");
  EXPECT_THAT(Do(import), HasSubstr("generation 4 (visible: 5): 0 added"));
}

TEST_F(PlanbctlServerTest, PersistedChangesSurvive) {
  const std::string store = Scratch("store.db");
  for (const char* end : {"", "-wal", "-shm"}) {
    unlink(absl::StrCat(store, end).c_str());
  }
  ASSERT_NO_FATAL_FAILURE(Kill());
  ASSERT_NO_FATAL_FAILURE(Start(store));
  Do("table create blue");
  EXPECT_THAT(Do("announce ::/0 1 --ack=persisted --request_id=a"),
              HasSubstr("persisted: "));
  Do("--table=blue load --ack=persisted " + Write("table", kTable));
  Do("nexthop set 5 --interface=eth0 --ack=persisted");
  EXPECT_THAT(Do("table show blue"), HasSubstr("sqlite"));
  ASSERT_NO_FATAL_FAILURE(Kill());
  ASSERT_NO_FATAL_FAILURE(Start(store));
  EXPECT_EQ(Do("routes list"), "::/0                     1\n");
  Do("--table=blue routes diff " + Write("table", kTable));
  EXPECT_THAT(Do("nexthop list"), HasSubstr("eth0"));
}

TEST_F(PlanbctlServerTest, NextHopsAndGroups) {
  EXPECT_THAT(Do("nexthop list"), IsEmpty());
  EXPECT_EQ(Do("nexthop set 5 --gateway=fe80::1 --interface=eth0 --weight=3 "
               "--label='the transit'"),
            "generation 1 (visible: 1): 1 added, 0 changed, 0 removed\n");
  Do("nexthop set 6");
  EXPECT_EQ(Do("nexthop list"),
            "nexthop  gateway  interface  weight  label\n"
            "5        fe80::1  eth0       3       the transit\n"
            "6        -        -          1       -\n");
  Do("nexthop set 6 --origin_as=64496 --as_path='64500 64496 {64510,64511} 7' "
     "--communities=64500:1,64500:2 --large_communities=64500:1:2 "
     "--extended_communities=0x0002fbf400000064 --local_preference=0 "
     "--med=5 --tag='site=ams,why=a=b c'");
  EXPECT_EQ(
      Do("nexthop list"),
      "nexthop  gateway  interface  weight  label        attributes\n"
      "5        fe80::1  eth0       3       the transit  -\n"
      "6        -        -          1       -            AS64496 path 64500 "
      "64496 {64510,64511} 7 communities 64500:1 64500:2 extended "
      "0x0002fbf400000064 large 64500:1:2 local_preference 0 med 5 tag "
      "site=ams why=a=b c\n");
  EXPECT_THAT(
      Do("nexthop list --json"),
      HasSubstr(
          R"("as_path":[{"set":false,"numbers":[64500,64496]},)"
          R"({"set":true,"numbers":[64510,64511]},{"set":false,"numbers":[7]}],)"
          R"("communities":["64500:1","64500:2"])"));
  for (const std::string bad :
       {"--as_path=64500,64496", "--as_path='{1,2'", "--as_path={}",
        "--communities=64500", "--communities=65536:1", "--communities=1:2:3",
        "--large_communities=1:2", "--extended_communities=12",
        "--gateway=192.0.2"}) {
    Fails(2, "nexthop set 6 " + bad, bad.substr(0, bad.find('=')) + ": ");
  }
  Fails(2, "nexthop set 6 --local_preference=x", "local_preference");
  Fails(3, "nexthop set 6 --tag=x=1,x=2", "upserts[0].attributes.tags[1].key");
  Do("nexthop set 6");
  // A weight of its own, or that of the next hop.
  Do("group set 9 5 6\\*2 --label=both");
  Do("group set 10 5\\*1");
  EXPECT_EQ(Do("group list"),
            "group  label  members\n"
            "9      both   5*3 6*2\n"
            "10     -      5\n");
  Do("announce 2001:db8::/32 9");
  Fails(3, "group delete 9", "NEXT_HOP_IN_USE");
  Fails(3, "nexthop delete 5", "NEXT_HOP_IN_USE");
  Fails(3, "nexthop delete 77", "NEXT_HOP_NOT_FOUND");
  Do("withdraw 2001:db8::/32");
  EXPECT_THAT(Do("group delete --dry_run 9 10"), HasSubstr("dry run"));
  EXPECT_THAT(Do("group delete 9 10"), HasSubstr("2 removed"));
  EXPECT_THAT(Do("nexthop delete 5 6"), HasSubstr("2 removed"));
}

TEST_F(PlanbctlServerTest, AnnounceMakesNextHopsOfGatewaysAndInterfaces) {
  // The lowest id of several, with a label and weight or without.
  Do("nexthop set 6 --gateway=fe80::1 --interface=eth0");
  Do("nexthop set 5 --gateway=fe80::1 --interface=eth0 --label=x --weight=3");
  EXPECT_THAT(Do("announce 2001:db8::/32 via fe80::1 dev eth0 ::/0 9 "
                 "10.0.0.0/8 via 192.0.2.1 10.1.0.0/16 dev eth1 "
                 "10.2.0.0/16 via 192.0.2.1"),
              HasSubstr("5 added"));
  EXPECT_EQ(Do("routes get 2001:db8::/32"), "2001:db8::/32            5\n");
  const std::string list = Do("nexthop list");
  EXPECT_THAT(list, HasSubstr("192.0.2.1  -          1"));
  EXPECT_THAT(list, HasSubstr("-          eth1       1"));
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 5);  // and the header
  // Known by now: no object is made.
  EXPECT_THAT(Do("announce 10.0.0.0/8 via 192.0.2.1"),
              HasSubstr("1 unchanged"));
  EXPECT_EQ(Do("nexthop list"), list);
  Fails(2, "announce 10.0.0.0/8 via", "");
  Fails(2, "announce 10.0.0.0/8 via eth0", "eth0");
  Fails(2, "announce 10.0.0.0/8 7 11.0.0.0/8", "via GATEWAY");
}

TEST_F(PlanbctlServerTest, TopShowsRatesTablesAndErrors) {
  const std::string socket = TempPath("top.sock");
  ServerProcess server({absl::StrCat("--listen=unix://", socket),
                        "--store=none", "--metrics_address=127.0.0.1:0",
                        "--generate=1000"});
  ASSERT_TRUE(server.AwaitServing());
  const int port = server.AwaitPortOf("metrics");
  std::atomic<bool> done = false;
  std::thread load([&] {
    const LookupClient client(*MakeChannel(absl::StrCat("unix://", socket)));
    const std::vector<Address> addresses(100, *Address::Parse("::1"));
    while (!done.load()) {
      EXPECT_TRUE(client.Lookup(addresses).ok());
      EXPECT_FALSE(client.Lookup(addresses, {.table = "none"}).ok());
    }
  });
  const std::string at = absl::StrCat(" --metrics=127.0.0.1:", port);
  const std::string text = Do("top --interval=500ms --rounds=2" + at);
  done = true;
  EXPECT_THAT(text, Not(HasSubstr("lookups        0/s")));
  EXPECT_THAT(text, HasSubstr("default  1000    1         1"));
  EXPECT_THAT(text, HasSubstr("TABLE_NOT_FOUND"));
  load.join();
  EXPECT_THAT(Do("top --interval=10ms --rounds=2 --output=csv" + at),
              StartsWith("seconds,lookups_per_second,"));
  Fails(4, "top --metrics=127.0.0.1:1", "no metrics");
  Fails(2, "top --metrics=nowhere", "HOST:PORT");
  Fails(2, "top --interval=0s" + at, "--interval");
}

// Counters begin at 0 again with another server.
TEST_F(PlanbctlServerTest, TopCountsFromZeroAfterARestart) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* const generic = reinterpret_cast<sockaddr*>(&at);
  ASSERT_EQ(bind(listener, generic, size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, generic, &size), 0);
  std::thread server([&] {
    for (const char* count : {"5000", "1"}) {
      const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      std::string request(4096, '\0');
      EXPECT_GT(read(peer, request.data(), request.size()), 0);
      const std::string body = absl::StrCat(
          "planb_lookups_total ", count,
          "\nplanb_lookup_batch_errors_total{reason=\"X\"} ", count, "\n");
      const std::string reply = absl::StrCat(
          "HTTP/1.1 200 OK\r\nConnection: close\r\n"
          "Content-Length: ",
          body.size(), "\r\n\r\n", body);
      EXPECT_EQ(write(peer, reply.data(), reply.size()), std::ssize(reply));
      close(peer);
    }
  });
  const std::string text =
      Do(absl::StrCat("top --interval=10ms --rounds=1 --metrics=127.0.0.1:",
                      ntohs(at.sin_port)));
  server.join();
  close(listener);
  EXPECT_THAT(text, Not(HasSubstr("-"))) << text;
  EXPECT_THAT(text, HasSubstr("failed batches"));
}

TEST_F(PlanbctlServerTest, LoadReadsTheStandardInputFromWhereItStands) {
  const std::string file = Write("left", "10.0.0.0/8 1\n10.1.0.0/16 2\n");
  EXPECT_EQ(
      system(absl::StrCat("(read line; client/planbctl/planbctl load -) < ",
                          file, " > /dev/null")
                 .c_str()),
      0);
  EXPECT_EQ(Do("routes list"), "10.1.0.0/16              2\n");
}

TEST_F(PlanbctlServerTest, Tables) {
  EXPECT_EQ(Do("table create blue"), "blue created, generation 0\n");
  Fails(3, "table create blue", "TABLE_EXISTS");
  Fails(3, "table create Blue", "TABLE_NAME_INVALID");
  EXPECT_THAT(Do("table create --prefix_lengths --json red"),
              HasSubstr(R"("prefix_lengths":true)"));
  EXPECT_THAT(Do("table show red"), HasSubstr("prefix lengths"));
  EXPECT_THAT(Do("table show blue"), Not(HasSubstr("prefix lengths")));
  Do("table delete red");
  Do("--table=blue announce ::/0 1");
  EXPECT_EQ(
      Do("table list"),
      "table    accepted  visible  persisted  IPv6  IPv4  next hops  groups\n"
      "blue     1         1        0          1     0     0          0\n"
      "default  0         0        0          0     0     0          0\n");
  EXPECT_THAT(Do("table list --json"),
              AllOf(StartsWith(R"({"table":"blue","accepted_generation":1,)"),
                    HasSubstr("\n{\"table\":\"default\",")));
  const std::string shown = Do("table show blue");
  EXPECT_EQ(shown, Do("--table=blue table show"));
  EXPECT_THAT(shown, AllOf(StartsWith("table          blue\n"),
                           HasSubstr("\nroutes         1 IPv6, 0 IPv4"),
                           HasSubstr("\nIPv6 lengths   /0: 1\n"),
                           Not(HasSubstr("server "))));
  EXPECT_THAT(Do("table show --json"),
              AllOf(StartsWith(R"({"table":"default",)"),
                    HasSubstr(R"("writer_epoch":0,"store_path":"",)"),
                    Not(HasSubstr("health"))));
  EXPECT_THAT(Do("routes list"), IsEmpty());
  EXPECT_THAT(Do("table delete blue"), IsEmpty());
  Fails(3, "table show blue", "TABLE_NOT_FOUND");
  Fails(3, "table delete default", "TABLE_PERMANENT");
}

TEST_F(PlanbctlServerTest, WatchesShowEveryChange) {
  Do("nexthop set 5 --interface=eth0");
  Do("group set 9 5 6");
  Do("announce ::/0 9");
  Do("withdraw ::/0");
  Do("group delete 9");
  Do("nexthop delete 5");
  EXPECT_THAT(Do("routes watch --start=0 --count=6"),
              MatchesRegex("1 set_nexthop 5 dev eth0\n"
                           "1 complete [0-9a-f]+\n"
                           "2 set_group 9 5 6\n"
                           "2 complete [0-9a-f]+\n"
                           "3 announce ::/0 9\n"
                           "3 complete [0-9a-f]+\n"
                           "4 withdraw ::/0\n"
                           "4 complete [0-9a-f]+\n"
                           "5 delete_group 9\n"
                           "5 complete [0-9a-f]+\n"
                           "6 delete_nexthop 5\n"
                           "6 complete 0+\n"));
  EXPECT_THAT(Do("routes watch --json --start=2 --count=1"),
              StartsWith(R"({"generation":3,"change":"announce",)"
                         R"("prefix":"::/0","next_hop":9})"
                         "\n"
                         R"({"generation":3,"change":"complete","digest":")"));
  Fails(3, "routes watch --start=99", "HISTORY_");
}

TEST_F(PlanbctlServerTest, WatchesShowCompleteness) {
  Do("announce ::/0 9");
  Do("table complete");
  Do("table complete no");
  Do("table complete");
  Do("withdraw ::/0");
  const std::string since = "2[0-9T:.+-]+\n";
  EXPECT_THAT(Do("routes watch --start=0 --count=5"),
              MatchesRegex("1 announce ::/0 9\n"
                           "1 complete [0-9a-f]+\n"
                           "2 complete_since " +
                           since +
                           "2 complete [0-9a-f]+\n"
                           "3 complete_since never\n"
                           "3 complete [0-9a-f]+\n"
                           "4 complete_since " +
                           since +
                           "4 complete [0-9a-f]+\n"
                           "5 withdraw ::/0\n"
                           "5 complete 0+\n"));
  EXPECT_THAT(Do("routes watch --start=2 --count=1"),
              StartsWith("3 complete_since never\n"));
  EXPECT_THAT(Do("routes watch --json --start=1 --count=1"),
              StartsWith(R"({"generation":2,"change":"complete_since",)"
                         R"("complete_since_time":"2)"));
  EXPECT_THAT(Do("routes watch --json --start=2 --count=1"),
              StartsWith(R"({"generation":3,"change":"complete_since"})"));
}

TEST_F(PlanbctlServerTest, Snapshots) {
  Do("routes replace " + Write("table", kTable));
  Do("nexthop set 5 --interface=eth0");
  Do("group set 9 5 6");
  const std::string file = Scratch("snapshot");
  const std::string out = Do("snapshot export " + file);
  const std::string contents = Slurp(file);
  EXPECT_EQ(out, absl::StrCat(file, ": ", contents.size(), " bytes\n"));
  EXPECT_EQ(Do("snapshot export --json " + file),
            absl::StrCat("{\"file\":\"", file, "\",\"bytes\":", contents.size(),
                         "}\n"));
  EXPECT_EQ(Do("snapshot export -"), contents);
  EXPECT_THAT(Do("snapshot import -", contents), HasSubstr(" 0 changed"));
  Fails(2, "snapshot export /dev/null");
  Do("announce 10.0.0.0/8 1 ::/0 2");
  Do("table create copy");
  EXPECT_THAT(Do("--table=copy snapshot import " + file), HasSubstr("3 added"));
  EXPECT_THAT(Do("snapshot import --dry_run " + file), HasSubstr("dry run"));
  EXPECT_THAT(Do("snapshot import " + file),
              HasSubstr("): 0 added, 1 changed, 1 removed, 2 unchanged\n"));
  for (const char* list : {"routes list", "nexthop list", "group list"}) {
    EXPECT_EQ(Do(list), Do(absl::StrCat("--table=copy ", list)));
  }
  Fails(3,
        "snapshot import " +
            Write("cut", contents.substr(0, contents.size() - 1)),
        "SNAPSHOT_CORRUPT");
}

// planbctl and the library against the real server, by TLS.

class PlanbctlTls : public ::testing::Test {
 protected:
  PlanbctlTls() {
    ours_.SetAuthority(authority_.certificate());
    ours_.SetIdentity(authority_.Issue());
    theirs_.SetAuthority(authority_.certificate());
    theirs_.SetIdentity(authority_.Issue());
  }

  // Starts a server with the certificate `theirs_`, which asks for the client's
  // certificate if `mutual`.
  void Start(bool mutual) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=127.0.0.1:0", "--metrics_address=", "--store=none",
        "--generate=100", absl::StrCat("--tls_cert=", theirs_.cert()),
        absl::StrCat("--tls_key=", theirs_.key()),
        absl::StrCat("--tls_client_ca=", mutual ? theirs_.ca() : "")});
    ASSERT_TRUE(server_->AwaitServing()) << server_->Log();
    target_ = absl::StrCat("127.0.0.1:", server_->PortOf("127.0.0.1:0"));
  }

  // The words of a command that connects to the server.
  std::string With(const std::string& flags,
                   const std::string& command = "status") const {
    return absl::StrCat("--timeout=1m --server=", target_, " ", flags, " ",
                        command);
  }
  std::string Ca() const { return absl::StrCat(" --tls_ca=", ours_.ca()); }
  std::string Identity() const {
    return absl::StrCat(" --tls_cert=", ours_.cert(),
                        " --tls_key=", ours_.key());
  }

  TestAuthority authority_;
  TestTlsFiles ours_;
  TestTlsFiles theirs_;
  std::unique_ptr<ServerProcess> server_;
  std::string target_;
};

TEST_F(PlanbctlTls, ConnectsToATrustedServer) {
  Start(/*mutual=*/false);
  Do(With(Ca()));
  Do(With(Ca(), "announce 2001:db8::/32 7"));
  // Also the commands that open their own channels.
  for (const char* words : {"lookup 2001:db8::1", "lookup -"}) {
    EXPECT_THAT(Do(With(Ca(), words), "2001:db8::1\n"), HasSubstr("hop 7\t"));
  }
  // Plaintext does not work with this server.
  Fails(4, With(""));
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherAuthority) {
  Start(/*mutual=*/false);
  ours_.SetAuthority(TestAuthority().certificate());
  Fails(4, With(Ca()), "certificate verify failed");
  // The host does not trust this authority.
  Fails(4, With("--tls_server_name=localhost"), "certificate verify failed");
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherName) {
  theirs_.SetIdentity(authority_.Issue({.names = "DNS:planb.example"}));
  Start(/*mutual=*/false);
  Fails(4, With(Ca()), "127.0.0.1 is not in peer certificate");
  Do(With(Ca() + " --tls_server_name=planb.example"));
  Fails(4, With(Ca() + " --tls_server_name=other.example"),
        "other.example is not in peer certificate");
}

TEST_F(PlanbctlTls, RefusesAnExpiredCertificate) {
  // planb_server would refuse to start with these files.
  const TestIdentity expired =
      authority_.Issue({.begins = absl::Now() - absl::Hours(2),
                        .ends = absl::Now() - absl::Hours(1)});
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({expired.key, expired.certificate});
  grpc::CallbackGenericService nothing;
  int port = 0;
  const std::unique_ptr<grpc::Server> bare =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options),
                            &port)
          .RegisterCallbackGenericService(&nothing)
          .BuildAndStart();
  ASSERT_NE(bare, nullptr);
  target_ = absl::StrCat("127.0.0.1:", port);
  Fails(4, With(Ca()), "certificate verify failed");
  bare->Shutdown();
}

TEST_F(PlanbctlTls, ShowsItsCertificateToAServerThatAsks) {
  Start(/*mutual=*/true);
  Do(With(Ca() + Identity()));
  Fails(4, With(Ca()), "cannot connect to 127.0.0.1");
  ours_.SetIdentity(TestAuthority().Issue());
  Fails(4, With(Ca() + Identity()), "cannot connect to 127.0.0.1");
}

TEST_F(PlanbctlTls, BadFilesAreUsageErrors) {
  target_ = "127.0.0.1:1";
  for (const auto& [flags, why] :
       {std::pair<std::string, std::string>(
            "--tls_ca=/nonexistent",
            "tls_ca /nonexistent: No such file or directory"),
        {"--tls_cert=" + ours_.cert(), "both or not at all"},
        {"--tls_cert=" + ours_.cert() + " --tls_key=" + theirs_.key(),
         "is not the key"},
        {Ca() + " --server=unix:///tmp/some.sock", "where no TLS is spoken"}}) {
    Fails(2, With(flags), why);
  }
  EXPECT_THAT(Do("help status"), HasSubstr("--tls_server_name"));
}

TEST_F(PlanbctlTls, NewChannelsUseTheNewestGoodFiles) {
  Start(/*mutual=*/true);
  const auto open = ChannelsTo(
      target_,
      {.tls = TlsOptions{
           .ca = ours_.ca(), .cert = ours_.cert(), .key = ours_.key()}});
  ASSERT_TRUE(open.ok()) << open.status();
  const auto connects = [&] {
    return Connect(*(*open)(), absl::Now() + absl::Minutes(1)).ok();
  };
  EXPECT_TRUE(connects());
  ours_.SetIdentity(TestAuthority().Issue());
  EXPECT_FALSE(connects());
  ours_.SetIdentity(authority_.Issue());
  EXPECT_TRUE(connects());
  ReplaceFile(ours_.key(), "half a k");
  EXPECT_TRUE(connects());
}

}  // namespace
}  // namespace planb::client
