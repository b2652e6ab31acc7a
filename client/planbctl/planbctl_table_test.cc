// SPDX-License-Identifier: Apache-2.0

// The real binary with a fake server: whole tables, next hops and snapshots.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using testing::Spoil;
using ::testing::StartsWith;
using testing::Write;

class PlanbctlTableTest : public testing::PlanbctlFixture {};

TEST_F(PlanbctlTableTest, LoadSendsChunks) {
  std::string text;
  for (int i = 0; i < 250; ++i)
    absl::StrAppend(&text, "192.0.", i, ".0/24 4\n");
  const std::string file = Write("routes", text);
  const Ended ended = Ctl("load --json --chunk=100 " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(
      ended.out,
      StartsWith(R"({"routes":250,"next_hops":0,"chunks":3,"added":250,)"
                 R"("changed":0,"unchanged":0,"generation":4,)"
                 R"("visible_generation":4,"malformed":0,)"));
  EXPECT_EQ(server_.table().routes().size(), 253U);
  EXPECT_EQ(server_.updates().back().ack(), v1::ACK_VISIBLE);
  // The file has only their ids, so the objects of the table stay.
  for (const v1::UpdateRoutesRequest& update : server_.updates()) {
    EXPECT_TRUE(update.next_hops().empty());
  }
  const Ended again = Ctl("load " + file);
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, AllOf(StartsWith("250 routes"),
                               HasSubstr("250 unchanged; generation 4")));
}

TEST_F(PlanbctlTableTest, ErrorsNameTheFileOnce) {
  const std::string spoilt = Write("spoilt.gz", "\x1f\x8b\x08 no gzip at all");
  for (const std::string& path : {std::string("/nonexistent"), spoilt}) {
    for (const char* command : {"load ", "routes diff ", "replay "}) {
      const std::string err = Ctl(command + path).err;
      EXPECT_THAT(err, StartsWith(absl::StrCat("planbctl: ", path, ":")));
      const std::string line = err.substr(0, err.find('\n'));
      EXPECT_EQ(line.find(path), line.rfind(path)) << err;
    }
  }
}

TEST_F(PlanbctlTableTest, LoadReportsMalformedLines) {
  const std::string file =
      Write("routes", "192.0.2.0/24 4\nnonsense\n198.51.100.0/24 4\n");
  Ended ended = Ctl("load " + file);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("1 records malformed"));
  EXPECT_THAT(ended.err, HasSubstr("line 2"));
  EXPECT_EQ(server_.table().routes().size(), 5U);
  ended = Ctl("load --strict " + file);
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("nonsense"));
}

TEST_F(PlanbctlTableTest, GenerateWritesWhatLoadReads) {
  const std::string file = Scratch("made_up");
  const std::string words = "generate --routes=300 --ipv4=50 --seed=4";
  EXPECT_EQ(Ctl(absl::StrCat(words, " --output=", file)).code, 0);
  const std::string text = Slurp(file);
  EXPECT_EQ(Ctl("--server=nonsense " + words).out, text);  // asks no server
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(text, '\n')).size(), 351U);
  EXPECT_NE(Ctl(words + "2").out, text);
  EXPECT_EQ(Ctl("load " + file).code, 0);
  EXPECT_EQ(server_.table().routes().size(), 353U);
  EXPECT_EQ(Ctl(words + " >/dev/full").code, 2);
}

TEST_F(PlanbctlTableTest, VerifyFindsEveryDifference) {
  const std::string same =
      Write("same", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/8 6\n");
  Ended ended = Ctl("verify --json --samples=2000 --batch=100 " + same);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              StartsWith(R"({"routes":3,"addresses":2018,"samples":2000,)"
                         R"("mismatches":0,)"));
  const std::string other =
      Write("other", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/9 6\n");
  ended = Ctl("verify --samples=0 " + other);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("18 addresses"));
  EXPECT_THAT(ended.out, HasSubstr("2 mismatches"));
  EXPECT_THAT(ended.err, HasSubstr("10.128.0.0: the server says 6 in "
                                   "generation 1, the file says 0"));
  server_.SpoilReplies(Spoil::kWrongNextHop);
  EXPECT_EQ(Ctl("verify --samples=0 " + same).code, 1);
}

TEST_F(PlanbctlTableTest, BenchMeasuresAndChecks) {
  const std::string routes =
      Write("routes", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/8 6\n");
  Ended ended = Ctl(absl::StrCat(
      "bench --seconds=0.5 --warmup=0s --batch=100 --streams=2 --check ",
      "--trace=match --routes=", routes));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("M lookups/s"), HasSubstr("p99.9"),
                               HasSubstr("\n0 answers differ")));
  const std::string addresses = Write("addresses", "10.0.0.1\n11.0.0.1\n");
  ended = Ctl(absl::StrCat(
      "bench --json --seconds=0.5 --warmup=0s --batch=10 --family=ipv4 ",
      "--addresses=", addresses));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(
      ended.out,
      AllOf(HasSubstr(R"("batch":10,"depth":4)"),
            HasSubstr(R"("loop":"closed")"), HasSubstr("lookups_per_second"),
            Not(HasSubstr("mismatches")), Not(HasSubstr("send_delay")),
            Not(HasSubstr("server_cpu"))));
  server_.SpoilReplies(Spoil::kWrongNextHop);
  ended = Ctl(absl::StrCat("bench --json --seconds=0.5 --warmup=0s ",
                           "--batch=100 --check --routes=", routes));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("mismatches"));
}

TEST_F(PlanbctlTableTest, BenchOffersARate) {
  const std::string bench = absl::StrCat(
      "bench --json --rate=2000 --batch=10 --seconds=1.5 --warmup=100ms ",
      "--streams=3 --connections=2 --arrivals=even --client_cpus=0 ",
      "--synthetic=100 --trace=zipf --server_pid=", getpid());
  for (const char* spin : {" --nospin", " --spin"}) {
    const Ended ended = Ctl(bench + spin);
    EXPECT_EQ(ended.code, 0) << ended.err;
    // One line of progress, for the first second.
    EXPECT_THAT(ended.err, AllOf(StartsWith("1 s: "), HasSubstr("p99"),
                                 Not(HasSubstr("2 s: "))));
    EXPECT_THAT(
        ended.out,
        AllOf(
            HasSubstr(R"("loop":"open",)"), HasSubstr(R"("rate":2000,)"),
            HasSubstr(R"("arrivals":"even",)"), HasSubstr(R"("connections":2)"),
            HasSubstr(R"("trace":"zipf")"), HasSubstr(R"("seconds":1.5)"),
            HasSubstr(R"("offered_batches":300,)"),
            HasSubstr(R"("unanswered_batches":0,)"),
            HasSubstr(R"("quantile":0.9999,)"), HasSubstr("send_delay_us_p99"),
            HasSubstr("client_cpu_seconds_per_million"),
            HasSubstr("server_cpu_seconds_per_million")));
  }
  EXPECT_THAT(Ctl(bench + " --quiet").err, IsEmpty());
  const Ended unknown =
      Ctl("bench --batch=10 --seconds=0.1 --warmup=0s --server_pid=999999999");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("no process 999999999"));
}

TEST_F(PlanbctlTableTest, BenchLooksUpUpperHalves) {
  const std::string routes =
      Write("routes", "2001:db8::/32 5\n2001:db8:1:0:8000::/65 7\n");
  ASSERT_EQ(Ctl("announce 2001:db8:1:0:8000::/65 7").code, 0);
  ASSERT_EQ(Ctl("withdraw 2001:db8:1::/48").code, 0);
  const std::string addresses =
      Write("addresses", "2001:db8::1\n2001:db8:1::1\n2001:db9::1\n");
  const Ended ended = Ctl(absl::StrCat(
      "bench --json --form=upper --seconds=0.3 --warmup=0s --batch=3 ",
      "--depth=1 --check --routes=", routes, " --addresses=", addresses));
  EXPECT_EQ(ended.code, 0) << ended.err << ended.out;
  EXPECT_THAT(ended.out, AllOf(HasSubstr(R"("form":"upper")"),
                               HasSubstr(R"("mismatches":0)"),
                               Not(HasSubstr(R"("misses":0,)")),
                               Not(HasSubstr(R"("undecided":0,)"))));
}

// The fake server does not answer a billion lookups a second.
TEST_F(PlanbctlTableTest, BenchShowsSaturationAndEnds) {
  const Ended ended = Ctl(
      "bench --rate=1e9 --batch=1000 --seconds=0.5 --warmup=0s --drain=100ms");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("MORE THAN WAS CARRIED"),
                               HasSubstr("offered 1000 M"),
                               Not(HasSubstr(" 0 unanswered"))));
}

using testing::MakeError;

class PlanbctlObjectsTest : public testing::PlanbctlFixture {};

TEST_F(PlanbctlObjectsTest, NextHops) {
  EXPECT_THAT(Ctl("nexthop list").out, IsEmpty());
  Ended ended =
      Ctl("nexthop set 7 --gateway=192.0.2.1 --interface=eth0 --weight=3 "
          "--label='the transit'");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "generation 2 (visible: 2): 1 added, 0 changed, 0 removed\n");
  EXPECT_EQ(Ctl("nexthop set 8").code, 0);
  EXPECT_EQ(Ctl("nexthop list").out,
            "nexthop  gateway    interface  weight  label\n"
            "7        192.0.2.1  eth0       3       the transit\n"
            "8        -          -          1       -\n");
  EXPECT_EQ(Ctl("nexthop list --json").out,
            R"({"id":7,"interface":"eth0","weight":3,"label":"the transit",)"
            R"("gateway":"192.0.2.1"})"
            "\n"
            R"({"id":8,"interface":"","weight":1,"label":""})"
            "\n");
  ended = Ctl("nexthop delete 7");  // a route names it
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("NEXT_HOP_IN_USE"));
  ended = Ctl("nexthop delete --json --dry_run 8");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            R"({"generation":3,"visible_generation":3,"added":0,"changed":0,)"
            R"("removed":1,"dry_run":true,"persisted_generation":0})"
            "\n");
  EXPECT_EQ(Ctl("nexthop delete 8").code, 0);
  EXPECT_EQ(Ctl("nexthop delete 8").code, 3);
  EXPECT_EQ(server_.table().next_hops().size(), 1U);
}

TEST_F(PlanbctlObjectsTest, Groups) {
  EXPECT_EQ(Ctl("group set 9 7\\*3 8 --label=both").code, 0);
  EXPECT_EQ(Ctl("group set 10 7 --writer_epoch=5").code, 0);
  EXPECT_EQ(Ctl("group set 10 8 --writer_epoch=4").code, 3);
  EXPECT_EQ(Ctl("group list").out,
            "group  label  members\n"
            "9      both   7*3 8\n"
            "10     -      7\n");
  EXPECT_EQ(Ctl("group list --json").out,
            R"({"id":9,"members":[{"next_hop":7,"weight":3},)"
            R"({"next_hop":8,"weight":1}],"label":"both"})"
            "\n"
            R"({"id":10,"members":[{"next_hop":7,"weight":1}],"label":""})"
            "\n");
  const Ended ended = Ctl("group delete 9 10 --writer_epoch=5");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("2 removed"));
  EXPECT_TRUE(server_.table().groups().empty());
}

TEST_F(PlanbctlObjectsTest, Tables) {
  Ended ended = Ctl("table create blue");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "blue created, generation 0\n");
  EXPECT_EQ(Ctl("table create blue").code, 3);
  EXPECT_EQ(Ctl("--table=blue announce ::/0 1").code, 0);
  EXPECT_EQ(
      Ctl("table list").out,
      "table    accepted  visible  persisted  IPv6  IPv4  next hops  groups\n"
      "blue     1         1        0          1     0     0          0\n"
      "default  1         1        0          2     1     0          0\n");
  EXPECT_THAT(Ctl("table list --json").out,
              AllOf(StartsWith(R"({"table":"blue","accepted_generation":1,)"),
                    HasSubstr("\n{\"table\":\"default\",")));
  ended = Ctl("table show blue");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, Ctl("--table=blue table show").out);
  EXPECT_THAT(ended.out, AllOf(StartsWith("table          blue\n"),
                               HasSubstr("\nroutes         1 IPv6, 0 IPv4"),
                               HasSubstr("\nIPv6 lengths   /0: 1\n"),
                               Not(HasSubstr("server "))));
  EXPECT_THAT(Ctl("table show --json").out,
              AllOf(StartsWith(R"({"table":"default",)"),
                    HasSubstr(R"("writer_epoch":0,"store_path":"",)"),
                    Not(HasSubstr("health"))));
  ended = Ctl("table delete blue");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_EQ(Ctl("table show blue").code, 3);
  ended = Ctl("table delete default");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("TABLE_PERMANENT"));
}

TEST_F(PlanbctlObjectsTest, Snapshots) {
  const std::string file = Scratch("snapshot");
  Ended ended = Ctl("snapshot export " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string contents = Slurp(file);
  EXPECT_EQ(ended.out, absl::StrCat(file, ": ", contents.size(), " bytes\n"));
  EXPECT_EQ(Ctl("snapshot export --json " + file).out,
            absl::StrCat("{\"file\":\"", file, "\",\"bytes\":", contents.size(),
                         "}\n"));
  ended = Ctl("snapshot export -");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, contents);
  EXPECT_THAT(Ctl("snapshot import -", contents).out, HasSubstr(" 0 changed"));
  EXPECT_EQ(Ctl("snapshot export /dev/null").code, 2);
  ASSERT_EQ(Ctl("announce 10.0.0.0/8 1 ::/0 2").code, 0);
  ended = Ctl("snapshot import --dry_run " + file);
  EXPECT_THAT(ended.out, HasSubstr("dry run"));
  ended = Ctl("snapshot import " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "generation 3 (visible: 3): 0 added, 1 changed, 1 removed, 2 "
            "unchanged\n");
  ended = Ctl("snapshot import " + Write("broken", contents.substr(0, 9)));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("SNAPSHOT_CORRUPT"));

  server_.EndStreams(1,
                     MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING", "x"));
  EXPECT_EQ(Ctl("snapshot export " + file).code, 4);
  EXPECT_EQ(Slurp(file), contents);
}

}  // namespace
}  // namespace planb::client
