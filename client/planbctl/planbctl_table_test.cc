// SPDX-License-Identifier: Apache-2.0

// The real binary with a real server: files, benchmarks, watches and replays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/call.h"
#include "client/table_client.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using testing::Ctl;
using testing::Do;
using testing::Ended;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

// An MRT record BGP4MP_MESSAGE_AS4 (RFC 6396) of `seconds`: an UPDATE from
// AS65001 at 192.0.2.1 that withdraws and announces prefixes, given as NLRI.
std::string Update(uint8_t seconds, const std::string& withdrawn,
                   const std::string& announced) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::string text;
    for (int value : values) text.push_back(static_cast<char>(value));
    return text;
  };
  const auto size = [&](size_t n) {
    return bytes({static_cast<int>(n >> 8), static_cast<int>(n & 255)});
  };
  const std::string attributes =
      announced.empty() ? "" : bytes({0x40, 1, 1, 0,  // ORIGIN
                                      0x40, 2, 6, 2,   1, 0, 0, 0xfd,
                                      0xe9,                        // AS_PATH
                                      0x40, 3, 4, 192, 0, 2, 1});  // NEXT_HOP
  const std::string body =
      absl::StrCat(size(withdrawn.size()), withdrawn, size(attributes.size()),
                   attributes, announced);
  const std::string message =
      absl::StrCat(bytes({0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xe8}),  // peer, local
                   bytes({0, 0, 0, 1}),                          // IPv4
                   bytes({192, 0, 2, 1, 192, 0, 2, 2}), std::string(16, '\xff'),
                   size(body.size() + 19), bytes({2}), body);
  return absl::StrCat(bytes({0x60, 0, 0, seconds, 0, 16, 0, 4, 0, 0}),
                      size(message.size()), message);
}

class PlanbctlTableTest : public testing::PlanbctlFixture {
 protected:
  std::vector<NextHop> NextHops() const {
    return TableClient(Channel()).ListNextHops("")->next_hops;
  }
  // The first answer of each batch is off by one.
  void SpoilAnswers() {
    proxy_.EditReplies<v1::BatchLookupResponse>(
        [](uint64_t, uint64_t, v1::BatchLookupResponse& reply) {
          ++reply.mutable_next_hops()->at(0);
          return 1;
        });
  }
};

TEST_F(PlanbctlTableTest, LoadSendsChunks) {
  std::string text;
  for (int i = 0; i < 250; ++i)
    absl::StrAppend(&text, "192.0.", i, ".0/24 4\n");
  const std::string file = Write("routes", text);
  EXPECT_THAT(
      Do("load --json --chunk=100 " + file),
      StartsWith(R"({"routes":250,"next_hops":0,"chunks":3,"added":250,)"
                 R"("changed":0,"unchanged":0,"generation":4,)"
                 R"("visible_generation":4,"malformed":0,)"));
  EXPECT_EQ(ServedRoutes().size(), 253U);
  EXPECT_EQ(Updates().back().ack(), v1::ACK_VISIBLE);
  // The file has only their ids, so the objects of the table stay.
  for (const v1::UpdateRoutesRequest& update : Updates()) {
    EXPECT_TRUE(update.next_hops().empty());
  }
  EXPECT_THAT(Do("load " + file),
              AllOf(StartsWith("250 routes"),
                    HasSubstr("250 unchanged; generation 4")));
}

TEST_F(PlanbctlTableTest, ALoadListsNextHopsOnce) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    // Some chunks have routes to known next hops only, or change nothing.
    absl::StrAppend(&text, "192.0.", i, ".0/24 via 198.51.100.", i % 30, "\n");
  }
  const std::string file = Write("gateways", text + text);
  EXPECT_THAT(Do("load --chunk=4 " + file), HasSubstr("40 added"));
  EXPECT_EQ(proxy_.calls("ListNextHops"), 1U);
  std::set<NextHopId> ids;
  for (const NextHop& each : NextHops()) ids.insert(each.id);
  EXPECT_EQ(ids.size(), 30U);
  for (const auto& [prefix, next_hop] : ServedRoutes()) {
    EXPECT_TRUE(ids.contains(next_hop) || prefix.length() != 24);
  }
  // Each --chunk of objects goes before the routes that use them.
  std::string group = "11.0.0.0/8\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&group, "\tnexthop via 203.0.113.", i, " weight 1\n");
  }
  Do("load --chunk=4 " + Write("group", group));
  EXPECT_EQ(proxy_.calls("ListNextHops"), 2U);
  EXPECT_EQ(NextHops().size(), 60U);
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
  EXPECT_THAT(Fails(1, "load " + file, file + ":2: "),
              HasSubstr("1 records malformed"));
  EXPECT_EQ(ServedRoutes().size(), 5U);
  Fails(2, "load --strict " + file, "nonsense");
}

TEST_F(PlanbctlTableTest, GenerateWritesWhatLoadReads) {
  const std::string file = Scratch("made_up");
  const std::string words = "generate --routes=300 --ipv4=50 --seed=4";
  Do(absl::StrCat(words, " ", file));
  const std::string text = Slurp(file);
  EXPECT_EQ(Do("--server=nonsense " + words), text);  // asks no server
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(text, '\n')).size(), 351U);
  EXPECT_NE(Do(words + "2"), text);
  Do("load " + file);
  EXPECT_EQ(ServedRoutes().size(), 353U);
  Fails(2, words + " >/dev/full");
}

TEST_F(PlanbctlTableTest, ConvertPrintsATableOfAnyFormAsRows) {
  const std::string header =
      "prefix,id,gateway,interface,weight,label,as,path,community,extended,"
      "local_pref,med";
  const std::string convert = "--server=nonsense convert ";  // asks none
  EXPECT_EQ(Do(convert + Write("ids", "::/0 7\n10.0.0.0/8 8\n")),
            header + "\n10.0.0.0/8,8,,,,,,,,,,\n::/0,7,,,,,,,,,,\n");
  EXPECT_EQ(
      Do(convert + Write("ip",
                         "10.0.0.0/8\n\tnexthop via 192.0.2.1 dev e weight 3\n"
                         "\tnexthop via 192.0.2.2 dev e weight 1\n"
                         "blackhole 10.1.0.0/16\n")),
      header +
          "\n10.0.0.0/8,,192.0.2.1,e,3,,,,,,,\n"
          "10.0.0.0/8,,192.0.2.2,e,1,,,,,,,\n"
          "10.1.0.0/16,,,,,blackhole,,,,,,\n");
  Do("nexthop set 7 --gateway=fe80::1 --interface=eth0 --label='a, b' "
     "--origin_as=64496 --as_path='64500 {1,2}' --communities=64500:1,64500:2 "
     "--extended_communities=0x0002fbf400000064 "
     "--large_communities=64500:1:2 --local_preference=0 --med=3 "
     "--tag=site=fra,rack=");
  Do("routes replace " + Write("one", "::/0 7\n10.0.0.0/8 9\n"));
  const std::string table = Scratch("table.plb");
  Do("snapshot export " + table);
  EXPECT_EQ(Do(convert + table),
            header +
                ",tag,tag\n10.0.0.0/8,9,,,,,,,,,,,,\n"
                "::/0,,fe80::1,eth0,,\"a, b\",64496,"
                "\"64500 {1,2}\",64500:1 64500:2 64500:1:2,"
                "0x0002fbf400000064,0,3,site=fra,rack=\n");
  // What does not say where packets go stays an id.
  Do("nexthop set 8 --origin_as=64496");
  Do("group set 20 7 8");
  Do("routes replace " + Write("bare", "::/0 8\n10.0.0.0/8 20\n"));
  Do("snapshot export " + table);
  EXPECT_EQ(Do(convert + table), header +
                                     ",tag,tag\n"
                                     "10.0.0.0/8,20,,,,,,,,,,,,\n"
                                     "::/0,8,,,,,,,,,,,,\n");
  const std::string broken = Write("broken", "::/0 7\nx\n");
  EXPECT_EQ(Fails(1, convert + broken, "1 records malformed"),
            header + "\n::/0,7,,,,,,,,,,\n");
  EXPECT_EQ(Fails(2, convert + "--strict " + broken, ":2: "), "");
  Fails(2, convert + Write("ids", "::/0 7\n") + " >/dev/full");
}

TEST_F(PlanbctlTableTest, VerifyFindsEveryDifference) {
  const std::string same =
      Write("same", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/8 6\n");
  EXPECT_THAT(Do("verify --json --samples=2000 --batch=100 " + same),
              StartsWith(R"({"routes":3,"addresses":2018,"samples":2000,)"
                         R"("mismatches":0,)"));
  const std::string part =
      Write("part", "2001:db8::/32 5\nx\n2001:db8:1::/48 7\n10.0.0.0/8 6\n");
  EXPECT_THAT(Fails(1, "verify " + part, "1 records malformed"),
              HasSubstr("0 mismatches"));
  const std::string other =
      Write("other", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/9 6\n");
  EXPECT_THAT(Fails(1, "verify --samples=0 " + other,
                    "10.128.0.0: the server says 6 in generation 1, the file "
                    "says 0"),
              AllOf(HasSubstr("18 addresses"), HasSubstr("2 mismatches"),
                    HasSubstr("2 routes differ")));
  // A route that only the server has is found wherever it is and leads, also
  // where the file's answer is the same.
  const std::string fewer = Write("fewer", "2001:db8::/32 5\n10.0.0.0/8 6\n");
  Fails(1, "verify --samples=0 " + fewer,
        "2001:db8:1::/48: the server has a route to 7, the file has no route");
  Do("announce 10.200.0.0/24 6");
  EXPECT_THAT(Fails(1, "verify --samples=0 " + same,
                    "10.200.0.0/24: the server has a route to 6, the file has "
                    "no route"),
              AllOf(HasSubstr(" 0 mismatches"), HasSubstr("1 routes differ")));
  Do("withdraw 10.200.0.0/24");
  SpoilAnswers();
  Fails(1, "verify --samples=0 " + same);
}

TEST_F(PlanbctlTableTest, BenchMeasuresAndChecks) {
  const std::string routes =
      Write("routes", "2001:db8::/32 5\n2001:db8:1::/48 7\n10.0.0.0/8 6\n");
  EXPECT_THAT(
      Do(absl::StrCat("bench --seconds=0.5 --warmup=0s --batch=100 ",
                      "--streams=2 --check --trace=match --routes=", routes)),
      AllOf(HasSubstr("M lookups/s"), HasSubstr("p99.9"),
            HasSubstr("\n0 answers differ")));
  const std::string addresses = Write("addresses", "10.0.0.1\n11.0.0.1\n");
  EXPECT_THAT(
      Do(absl::StrCat(
          "bench --json --seconds=0.5 --warmup=0s --batch=10 --family=ipv4 ",
          "--addresses=", addresses)),
      AllOf(HasSubstr(R"("batch":10,"depth":4)"),
            HasSubstr(R"("loop":"closed")"), HasSubstr("lookups_per_second"),
            Not(HasSubstr("mismatches")), Not(HasSubstr("send_delay")),
            Not(HasSubstr("server_cpu"))));
  SpoilAnswers();
  EXPECT_THAT(Fails(1, absl::StrCat("bench --json --seconds=0.5 --warmup=0s ",
                                    "--batch=100 --check --routes=", routes)),
              HasSubstr("mismatches"));
}

TEST_F(PlanbctlTableTest, BenchOffersARate) {
  const std::string bench = absl::StrCat(
      "bench --json --rate=2000 --batch=10 --seconds=1.5 --warmup=100ms ",
      "--streams=3 --connections=2 --arrivals=even --client_cpus=0 ",
      "--synthetic=100 --trace=zipf --server_pid=", getpid());
  for (const char* spin : {" --nospin", " --spin"}) {
    const Ended ended = Ctl(bench + spin);
    EXPECT_EQ(ended.code, 0) << ended.err;
    // One line of progress, for the first second. On a busy machine no batch
    // may be answered by then.
    EXPECT_THAT(ended.err,
                AllOf(StartsWith("1 s: "),
                      AnyOf(HasSubstr("p99"), HasSubstr("so far in us: none")),
                      Not(HasSubstr("2 s: "))));
    EXPECT_THAT(
        ended.out,
        AllOf(
            HasSubstr(R"("loop":"open",)"), HasSubstr(R"("rate":2000,)"),
            HasSubstr(R"("arrivals":"even",)"), HasSubstr(R"("connections":2)"),
            HasSubstr(R"("trace":"zipf")"), HasSubstr(R"("seconds":1.5)"),
            HasSubstr(R"("offered_batches":300,)"),
            // On a busy machine the last ones may be late.
            HasSubstr(R"("unanswered_batches":)"),
            HasSubstr(R"("quantile":0.9999,)"), HasSubstr("send_delay_us_p99"),
            HasSubstr("client_cpu_seconds_per_million"),
            HasSubstr("server_cpu_seconds_per_million")));
  }
  EXPECT_THAT(Ctl(bench + " --quiet").err, IsEmpty());
  Fails(3, "bench --batch=10 --seconds=0.1 --warmup=0s --server_pid=999999999",
        "no process 999999999");
}

TEST_F(PlanbctlTableTest, BenchLooksUpUpperHalves) {
  const std::string routes =
      Write("routes", "2001:db8::/32 5\n2001:db8:1:0:8000::/65 7\n");
  Do("announce 2001:db8:1:0:8000::/65 7");
  Do("withdraw 2001:db8:1::/48");
  const std::string addresses =
      Write("addresses", "2001:db8::1\n2001:db8:1::1\n2001:db9::1\n");
  EXPECT_THAT(
      Do(absl::StrCat(
          "bench --json --form=upper --seconds=0.3 --warmup=0s --batch=3 ",
          "--depth=1 --check --routes=", routes, " --addresses=", addresses)),
      AllOf(HasSubstr(R"("form":"upper")"), HasSubstr(R"("mismatches":0)"),
            Not(HasSubstr(R"("misses":0,)")),
            Not(HasSubstr(R"("undecided":0,)"))));
}

// The server does not answer a billion lookups a second.
TEST_F(PlanbctlTableTest, BenchShowsSaturationAndEnds) {
  EXPECT_THAT(
      Do("bench --rate=1e9 --batch=1000 --seconds=0.5 --warmup=0s "
         "--drain=100ms"),
      AllOf(HasSubstr("MORE THAN WAS CARRIED"), HasSubstr("offered 1000 M"),
            Not(HasSubstr(" 0 unanswered"))));
}

TEST_F(PlanbctlTableTest, WatchBeginsNow) {
  Do("announce 192.0.2.0/24 9");
  // Waits until the watch is open.
  std::thread writer([this] {
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (proxy_.calls("WatchRoutes") == 0 && absl::Now() < give_up) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    // Does not use Ctl, because the watch uses its scratch files.
    v1::UpdateRoutesRequest request;
    *request.add_updates() = ToUpdate({*Prefix::Parse("10.0.0.0/8"), kNoRoute});
    EXPECT_TRUE(TableClient(Channel()).UpdateRoutes(request).ok());
  });
  const std::string out = Do("routes watch --count=1");
  writer.join();
  EXPECT_THAT(out, StartsWith("3 withdraw 10.0.0.0/8\n3 complete "));
}

TEST_F(PlanbctlTableTest, WatchReportsCompactedHistory) {
  Start("none", "", {"--history_bytes=1"});
  Do("announce 192.0.2.0/24 9");
  Do("announce 192.0.2.0/24 8");
  Do("announce 192.0.2.0/24 7");
  Fails(3, "routes watch --start=1", "HISTORY_COMPACTED");
}

TEST_F(PlanbctlTableTest, WatchEndsBySignal) {
  Fails(143, "routes watch --start=1 & sleep 0.5; kill -TERM $!; wait $!");
}

TEST_F(PlanbctlTableTest, ReplayAppliesRecordedUpdates) {
  const std::string a("\x18\xc0\x00\x02", 4);  // 192.0.2.0/24
  const std::string b("\x18\xc6\x33\x64", 4);  // 198.51.100.0/24
  const std::string first = Write("first", Update(1, "", a + b));
  const std::string second = Write("second", Update(11, a, ""));
  EXPECT_THAT(
      Do(absl::StrCat("replay --json --speed=50 ", first, " ", second)),
      AllOf(StartsWith(R"({"updates":2,"malformed":0,)"
                       R"("truncated":false,"changes":3,)"
                       R"("next_hops":1,"batches":2,"refused":0,)"),
            ContainsRegex(
                R"("recorded_seconds":10,"seconds":(0\.[2-9]|[1-9]))")));
  EXPECT_EQ(Generation(), 4U);  // one with the next hop
  const auto routes = ServedRoutes();
  EXPECT_EQ(routes.at(*Prefix::Parse("198.51.100.0/24")), 1U);
  EXPECT_FALSE(routes.contains(*Prefix::Parse("192.0.2.0/24")));
  Fails(3, "replay --speed=0 --ack=persisted " + first, "STORE_VOLATILE");
  const std::string broken =
      Write("broken", Update(1, "", a) + Update(2, a, "").substr(0, 20));
  Fails(1, "replay --speed=0 " + broken, "breaks off");
  Fails(2, "replay --strict --speed=0 " + broken);
  Fails(3, "--table=none replay " + first);
  Start("none", "", {"--max_routes=1"});
  EXPECT_THAT(Fails(3, "replay --speed=0 " + first, "RESOURCE_EXHAUSTED"),
              HasSubstr("1 batches, 1 refused"));
}

TEST_F(PlanbctlTableTest, ABrokenExportLeavesTheOldFile) {
  const std::string file = Write("snapshot", "old");
  proxy_.EndCalls(1, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"), 1,
                  "ExportSnapshot");
  Fails(4, "snapshot export " + file);
  EXPECT_EQ(Slurp(file), "old");
}

}  // namespace
}  // namespace planb::client
