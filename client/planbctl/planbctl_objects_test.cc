// SPDX-License-Identifier: Apache-2.0

// The real planbctl with the real server: next hops of files and of announce
// are found by what they mean, and no object is changed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/call.h"
#include "client/table_client.h"
#include "client/testing/planbctl_fixture.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"
#include "lpm/routes/table_digest.h"

namespace planb::client {
namespace {

using ::testing::AllOf;
using testing::Do;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

std::string Number(size_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

std::string Record(int type, int subtype, const std::string& body) {
  return absl::StrCat(Number(0, 4), Number(static_cast<size_t>(type), 2),
                      Number(static_cast<size_t>(subtype), 2),
                      Number(body.size(), 4), body);
}

std::string Attribute(int type, const std::string& value) {
  return absl::StrCat(Number(0x40, 1), Number(static_cast<size_t>(type), 1),
                      Number(value.size(), 1), value);
}

// ORIGIN and an AS_PATH of AS65001, and the gateway: NEXT_HOP of IPv4,
// MP_REACH_NLRI as in a RIB of IPv6.
std::string Attributes(const std::string& gateway) {
  const std::string packed = Address::Parse(gateway)->ToPacked();
  return absl::StrCat(
      Attribute(1, Number(0, 1)),
      Attribute(2, absl::StrCat(Number(0x0201, 2), Number(65001, 4))),
      packed.size() == 4
          ? Attribute(3, packed)
          : Attribute(14, absl::StrCat(Number(packed.size(), 1), packed)));
}

std::string Nlri(const std::string& text) {
  const Prefix prefix = *Prefix::Parse(text);
  const auto length = static_cast<size_t>(prefix.length());
  return absl::StrCat(Number(length, 1),
                      prefix.address().ToPacked().substr(0, (length + 7) / 8));
}

using Routes = std::vector<std::pair<std::string, std::string>>;

// A TABLE_DUMP_V2 file of prefixes and gateways.
std::string Dump(const std::string& name, const Routes& routes) {
  std::string text = Record(
      13, 1,
      absl::StrCat(Number(0, 4), Number(0, 2), Number(1, 2), Number(2, 1),
                   Number(1, 4), Number(0xc0000201, 4), Number(65001, 4)));
  for (const auto& [prefix, gateway] : routes) {
    const std::string attributes = Attributes(gateway);
    const bool v4 = Prefix::Parse(prefix)->family() == Family::kIpv4;
    absl::StrAppend(
        &text, Record(13, v4 ? 2 : 4,
                      absl::StrCat(Number(0, 4), Nlri(prefix), Number(1, 2),
                                   Number(0, 2), Number(0, 4),
                                   Number(attributes.size(), 2), attributes)));
  }
  return Write(name, text);
}

// A BGP4MP file of a withdrawal of an IPv4 prefix.
std::string Withdrawal(const std::string& name, const std::string& peer,
                       const std::string& prefix) {
  const std::string nlri = Nlri(prefix);
  const std::string update =
      absl::StrCat(Number(nlri.size(), 2), nlri, Number(0, 2));
  return Write(
      name, Record(16, 4,
                   absl::StrCat(
                       Number(65001, 4), Number(65000, 4), Number(0, 2),
                       Number(1, 2), Address::Parse(peer)->ToPacked(),
                       Number(0xc0000202, 4), std::string(16, '\xff'),
                       Number(update.size() + 19, 2), Number(2, 1), update)));
}

// A BGP4MP file of announcements of IPv4.
std::string Updates(const std::string& name, const Routes& routes) {
  std::string text;
  for (const auto& [prefix, gateway] : routes) {
    const std::string attributes = Attributes(gateway);
    const std::string update = absl::StrCat(
        Number(0, 2), Number(attributes.size(), 2), attributes, Nlri(prefix));
    absl::StrAppend(
        &text,
        Record(
            16, 4,
            absl::StrCat(Number(65001, 4), Number(65000, 4), Number(0, 2),
                         Number(1, 2), Number(0xc0000201, 4),
                         Number(0xc0000202, 4), std::string(16, '\xff'),
                         Number(update.size() + 19, 2), Number(2, 1), update)));
  }
  return Write(name, text);
}

// The "via ..." of an address's next hop; empty without an object.
std::string Via(const std::string& address) {
  for (absl::string_view line :
       absl::StrSplit(testing::Ctl("routes explain " + address).out, '\n')) {
    if (!absl::ConsumePrefix(&line, "object")) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    return words.size() < 2 ? "" : words[1];
  }
  return "";
}

size_t Count(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

class PlanbctlObjectsTest : public testing::RealServerFixture {};

TEST_F(PlanbctlObjectsTest, ReplayWithdrawsWhatOnlyTheTableHad) {
  // The peer of the dump is 192.0.2.1.
  Do("load " + Dump("rib.mrt", {{"11.0.0.0/8", "192.0.2.1"},
                                {"12.0.0.0/8", "192.0.2.9"}}));
  Do("replay --speed=0 " + Withdrawal("other", "192.0.2.7", "11.0.0.0/8"));
  EXPECT_EQ(Via("11.0.0.1"), "192.0.2.1");
  Do("replay --speed=0 " + Withdrawal("its", "192.0.2.1", "11.0.0.0/8"));
  EXPECT_EQ(Via("11.0.0.1"), "");
  // The peer of 192.0.2.9 cannot be told.
  Do("replay --speed=0 " + Withdrawal("any", "192.0.2.7", "12.0.0.0/8"));
  EXPECT_EQ(Via("12.0.0.1"), "");
}

TEST_F(PlanbctlObjectsTest, FilesDoNotChangeWhatOthersMade) {
  Do("nexthop set 1 --gateway=192.0.2.254 --interface=eth0 --label=mine");
  Do("announce 10.0.0.0/8 1 10.0.0.0/9 2");
  const std::string v4 = Dump(
      "v4.mrt", {{"11.0.0.0/8", "192.0.2.1"}, {"12.0.0.0/8", "192.0.2.2"}});
  const std::string v6 = Dump("v6.mrt", {{"2001:db8::/32", "2001:db8::1"}});
  Do("load " + v4);
  Do("load " + v6);
  Do("replay --speed=0 " +
     Updates("updates.mrt",
             {{"13.0.0.0/8", "192.0.2.77"}, {"14.0.0.0/8", "192.0.2.1"}}));
  EXPECT_EQ(Via("10.128.0.1"), "192.0.2.254");
  EXPECT_EQ(Via("10.0.0.1"), "");  // an id without an object gets none
  EXPECT_EQ(Via("11.0.0.1"), "192.0.2.1");
  EXPECT_EQ(Via("12.0.0.1"), "192.0.2.2");
  EXPECT_EQ(Via("2001:db8::1"), "2001:db8::1");
  EXPECT_EQ(Via("13.0.0.1"), "192.0.2.77");
  EXPECT_EQ(Via("14.0.0.1"), "192.0.2.1");
  EXPECT_EQ(Count(Do("nexthop list")), 6U);  // with the header
  // Now the table has all of it.
  EXPECT_THAT(Do("load " + v4), HasSubstr("2 unchanged"));
  EXPECT_EQ(Count(Do("nexthop list")), 6U);
  // What announce finds is what the file made.
  EXPECT_THAT(Do("announce 11.0.0.0/8 via 192.0.2.1"),
              HasSubstr("1 unchanged"));
}

TEST_F(PlanbctlObjectsTest, ObjectsOfAChunkComeWithItsRoutes) {
  EXPECT_THAT(
      Do("load --chunk=2 " + Dump("dump.mrt", {{"11.0.0.0/8", "192.0.2.1"},
                                               {"12.0.0.0/8", "192.0.2.2"},
                                               {"13.0.0.0/8", "192.0.2.3"},
                                               {"14.0.0.0/8", "192.0.2.1"}})),
      StartsWith("4 routes and 3 next hops"));
  for (const auto& [address, gateway] : Routes{{"11.0.0.1", "192.0.2.1"},
                                               {"12.0.0.1", "192.0.2.2"},
                                               {"13.0.0.1", "192.0.2.3"},
                                               {"14.0.0.1", "192.0.2.1"}}) {
    EXPECT_EQ(Via(address), gateway);
  }
  EXPECT_THAT(Do("status"), HasSubstr("generation     2"));
}

TEST_F(PlanbctlObjectsTest, ALoadCanBeRepeatedByItsRequestId) {
  const std::string words = "load --request_id=night " +
                            Dump("dump.mrt", {{"11.0.0.0/8", "192.0.2.1"}});
  EXPECT_THAT(Do(words), HasSubstr("1 added"));
  EXPECT_THAT(Do(words), HasSubstr("1 added"));
  const std::string replace = "routes replace --request_id=day " +
                              Dump("next.mrt", {{"11.0.0.0/8", "192.0.2.2"}});
  EXPECT_THAT(Do(replace), HasSubstr("1 changed"));
  EXPECT_THAT(Do(replace), HasSubstr("1 changed"));
  EXPECT_EQ(Via("11.0.0.1"), "192.0.2.2");
}

TEST_F(PlanbctlObjectsTest, AttributesOfADumpMakeNextHops) {
  const auto record = [](const std::string& prefix, size_t community) {
    const std::string path =
        absl::StrCat(Attributes("192.0.2.1"),
                     Attribute(8, Number(64500, 2) + Number(community, 2)));
    return Record(13, 2,
                  absl::StrCat(Number(0, 4), Nlri(prefix), Number(1, 2),
                               Number(0, 6), Number(path.size(), 2), path));
  };
  const std::string file = Write(
      "communities.mrt", record("11.0.0.0/8", 7) + record("12.0.0.0/8", 8) +
                             record("13.0.0.0/8", 7));
  EXPECT_THAT(Do("load " + file), StartsWith("3 routes and 1 next hops"));
  EXPECT_THAT(Do("load --attributes=gateway " + file),
              HasSubstr("3 unchanged"));
  EXPECT_EQ(Count(Do("nexthop list")), 2U);  // with the header
  EXPECT_THAT(Do("load --attributes=origin " + file),
              StartsWith("3 routes and 1 next hops"));
  EXPECT_THAT(Do("routes explain 11.0.0.1"), HasSubstr("AS65001"));
  Fails(1, "routes diff --attributes=full " + file, "");
  EXPECT_THAT(Do("routes replace --attributes=full " + file),
              HasSubstr("3 changed"));
  Do("routes diff --attributes=full " + file);
  const std::string hops = Do("nexthop list");
  EXPECT_EQ(Count(hops), 5U);
  EXPECT_THAT(hops, HasSubstr("64500:7"));
  EXPECT_THAT(hops, HasSubstr("64500:8"));
  Fails(2, "load --attributes=path " + file,
        "must be one of: gateway, origin, full");
}

TEST_F(PlanbctlObjectsTest, ALoadSaysHowManyPathsWereCut) {
  std::string segments;
  for (size_t as = 1; as <= 17; ++as) {  // of one AS: sets and sequences
    absl::StrAppend(&segments, Number(as % 2 + 1, 1), Number(1, 1),
                    Number(as, 4));
  }
  const std::string path =
      absl::StrCat(Attribute(1, Number(0, 1)), Attribute(2, segments),
                   Attribute(3, Address::Parse("192.0.2.1")->ToPacked()));
  const std::string file = Write(
      "long.mrt",
      Slurp(Dump("short.mrt", {{"11.0.0.0/8", "192.0.2.1"}})) +
          Record(13, 2,
                 absl::StrCat(Number(0, 4), Nlri("12.0.0.0/8"), Number(1, 2),
                              Number(0, 6), Number(path.size(), 2), path)));
  EXPECT_THAT(Do("load --json --attributes=full " + file),
              HasSubstr(R"("paths_cut":1)"));
  EXPECT_THAT(Do("load --json --attributes=origin " + file),
              HasSubstr(R"("paths_cut":0)"));
}

// A path that cannot be read is no matter while its prefix has another.
TEST_F(PlanbctlObjectsTest, ALostRouteIsReportedAndASkippedPathIsCounted) {
  const std::string bad = Attribute(1, Number(9, 1));  // no ORIGIN is 9
  const std::string good = Attributes("192.0.2.1");
  const auto record = [](const std::string& prefix,
                         const std::vector<std::string>& paths) {
    std::string body =
        absl::StrCat(Number(0, 4), Nlri(prefix), Number(paths.size(), 2));
    for (const std::string& path : paths) {
      absl::StrAppend(&body, Number(0, 2), Number(0, 4), Number(path.size(), 2),
                      path);
    }
    return Record(13, 2, body);
  };
  const std::string skipped =
      Write("skipped.mrt", record("11.0.0.0/8", {bad, good}));
  EXPECT_THAT(Do("load " + skipped), HasSubstr("; 1 paths skipped"));
  EXPECT_THAT(Do("load --strict " + skipped), HasSubstr("; 1 paths skipped"));
  const std::string lost = Write(
      "lost.mrt", record("11.0.0.0/8", {good}) + record("12.0.0.0/8", {bad}));
  EXPECT_THAT(Fails(1, "load " + lost, "no path to 12.0.0.0/8 could be read"),
              HasSubstr("1 paths skipped, 1 routes lost"));
  Fails(1, "load --json " + lost, "1 routes lost");
  Fails(2, "load --strict " + lost, "no path to 12.0.0.0/8 could be read");
  Fails(2, "routes replace " + lost, "no path to 12.0.0.0/8 could be read");
  EXPECT_THAT(Do("routes list"), HasSubstr("11.0.0.0/8"));
}

// A snapshot of an earlier version. Its server took any text.
std::string OldSnapshot() {
  const NextHop hop = {.id = 7,
                       .gateway = {},
                       .interface = "eth0\n9 192.0.2.66 eth0",
                       .weight = 1,
                       .label =
                           "x\n3 withdraw ::/0\x1b[2J\xc2\x9b"
                           "2J"};
  const NextHopGroup group = {
      .id = 8, .members = {{.next_hop = 7}}, .label = "\x1b[31m\nred"};
  const Route routes[] = {{*Prefix::Parse("10.0.0.0/8"), 7},
                          {*Prefix::Parse("11.0.0.0/8"), 8}};
  TableDigest digest;
  digest.Add(hop);
  digest.Add(group);
  for (const Route& route : routes) digest.Add(route);
  std::string file;
  TableFileWriter writer([&](absl::string_view bytes) {
    absl::StrAppend(&file, bytes);
    return absl::OkStatus();
  });
  EXPECT_TRUE(writer.Begin({.digest = digest.ToString()}).ok());
  EXPECT_TRUE(writer.Add(hop).ok());
  EXPECT_TRUE(writer.Add(group).ok());
  for (const Route& route : routes) EXPECT_TRUE(writer.Add(route).ok());
  EXPECT_TRUE(writer.Finish().ok());
  return Write("old.snapshot", file);
}

TEST_F(PlanbctlObjectsTest, ControlCharactersAreShownEscaped) {
  Do("snapshot import " + OldSnapshot());
  for (const char* words :
       {"nexthop list", "group list", "routes explain 10.0.0.1",
        "routes explain 11.0.0.1", "lookup 10.0.0.1 11.0.0.1",
        "lookup --json 10.0.0.1 11.0.0.1", "routes watch --start=0 --count=1",
        "nexthop list --output=csv", "nexthop list --output=yaml",
        "nexthop list --json", "group list --output=csv"}) {
    const std::string text = Do(words);
    EXPECT_THAT(text, Not(HasSubstr("\n3 "))) << words;
    EXPECT_THAT(text, Not(HasSubstr("\n9 "))) << words;
    EXPECT_THAT(text, Not(HasSubstr("\nred"))) << words;
    EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << words;
    EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b"))) << words;
  }
  EXPECT_THAT(Do("nexthop list"),
              HasSubstr(R"(eth0\n9 192.0.2.66 eth0  1       x\n3 withdraw)"));
  EXPECT_THAT(testing::Ctl("\"no$(printf '\\033[2J')such\"").err,
              Not(HasSubstr("\x1b")));
}

// Each condition on a generation is met only between two of them.
TEST_F(PlanbctlObjectsTest, AnnounceViaSucceedsBesideAFastWriter) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> generation = 0;
  std::thread writer([&] {
    const TableClient client(Channel());
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_ACCEPTED);
    *request.add_updates() = ToUpdate({*Prefix::Parse("203.0.113.0/24"), 1});
    while (!stop) {
      request.mutable_updates(0)->set_next_hop_id(1 + generation % 2);
      const auto response = client.UpdateRoutes(request);
      if (response.ok()) generation = response->generation();
    }
  });
  while (generation == 0) absl::SleepFor(absl::Milliseconds(1));
  const absl::Time start = absl::Now();
  const uint64_t first = generation;
  // More on a machine on which the writer is slow.
  for (int i = 1; i <= 4 || (i < 250 && generation < first + 100); ++i) {
    Do(absl::StrCat("--timeout=1m announce 10.", i, ".0.0/16 via 192.0.2.", i));
    EXPECT_EQ(Via(absl::StrCat("10.", i, ".0.1")), absl::StrCat("192.0.2.", i));
  }
  const double rate = static_cast<double>(generation - first) /
                      absl::ToDoubleSeconds(absl::Now() - start);
  stop = true;
  writer.join();
  EXPECT_GE(generation, first + 100);
  RecordProperty("generations_a_second", static_cast<int>(rate));
}

TEST_F(PlanbctlObjectsTest, TheNextDumpIsComparedAndReplacedByMeaning) {
  const Routes routes = {{"11.0.0.0/8", "192.0.2.1"},
                         {"12.0.0.0/8", "192.0.2.2"}};
  Do("load " + Dump("today.mrt", routes));
  const std::string list = Do("nexthop list");
  // The gateways appear in another order.
  const std::string same = Dump("same.mrt", {routes[1], routes[0]});
  EXPECT_THAT(Do("routes diff " + same), IsEmpty());
  Do("verify --samples=100 " + same);
  EXPECT_THAT(Do("routes replace " + same), HasSubstr("2 unchanged"));
  EXPECT_EQ(Do("nexthop list"), list);
  // Another gateway with the same ids.
  const std::string other = Dump(
      "other.mrt", {{"11.0.0.0/8", "192.0.2.1"}, {"12.0.0.0/8", "192.0.2.3"}});
  EXPECT_THAT(Fails(1, "routes diff " + other), StartsWith("~ 12.0.0.0/8 2 "));
  Fails(1, "verify --samples=0 " + other, "12.0.0.0");
  EXPECT_THAT(Do("routes replace --dry_run " + other), HasSubstr("1 changed"));
  EXPECT_EQ(Do("nexthop list"), list);
  EXPECT_THAT(Do("routes replace " + other), HasSubstr("1 changed"));
  EXPECT_EQ(Via("12.0.0.1"), "192.0.2.3");
  Do("verify --samples=100 " + other);
  // The ids are those of the file, their meaning is not.
  const std::string now = Dump(
      "now.mrt", {{"11.0.0.0/8", "192.0.2.1"}, {"12.0.0.0/8", "192.0.2.3"}});
  Do("nexthop set 1 --gateway=192.0.2.99");
  Fails(1, "verify --samples=0 " + now, "11.0.0.0");
  Fails(1, "routes diff " + now);
}

TEST_F(PlanbctlObjectsTest, SnapshotsBringObjectsAndGroups) {
  Do("table create other");
  Do("nexthop set 1 --gateway=192.0.2.1 --table=other");
  Do("nexthop set 2 --gateway=192.0.2.2 --table=other");
  Do("group set 3 1 2*5 --table=other");
  Do("announce 11.0.0.0/8 3 12.0.0.0/8 1 --table=other");
  const std::string file = Scratch("other.snapshot");
  Do("snapshot export --table=other " + file);
  Do("nexthop set 1 --gateway=192.0.2.9");
  Do("nexthop set 7 --gateway=192.0.2.1");
  Do("announce 10.0.0.0/8 1 10.0.0.0/9 3");
  Do("load " + file);
  EXPECT_EQ(Via("10.128.0.1"), "192.0.2.9");
  EXPECT_EQ(Via("12.0.0.1"), "192.0.2.1");
  EXPECT_EQ(Do("routes get 12.0.0.0/8"), "12.0.0.0/8               7\n");
  // Its own id, which is free; the group's id has a route.
  EXPECT_THAT(Do("nexthop list"), HasSubstr("\n2        192.0.2.2"));
  const std::string groups = Do("group list");
  EXPECT_THAT(groups, HasSubstr("7 2*5"));
  EXPECT_THAT(groups, Not(HasSubstr("\n3 ")));
  Do("load " + file);
  EXPECT_EQ(Do("group list"), groups);
}

// Each command that takes a file for a table.
constexpr const char* kOfFiles[] = {"load ", "routes replace ", "routes diff ",
                                    "verify --samples=0 ", "snapshot import "};

TEST_F(PlanbctlObjectsTest, AFileWithoutRoutesChangesNothing) {
  Do("announce 10.0.0.0/8 via 192.0.2.1 ::/0 7");
  const std::string routes = Do("routes list");
  const std::string peers = Slurp(Dump("peers.mrt", {}));
  const std::string multicast = Record(
      13, 3, absl::StrCat(Number(0, 4), Nlri("10.0.0.0/8"), Number(0, 2)));
  struct {
    std::string file;
    const char* says;
    int code;
  } const cases[] = {
      {Updates("updates.mrt", {{"11.0.0.0/8", "192.0.2.1"}}),
       "BGP4MP updates: try planbctl replay; no route: 1 records ignored", 2},
      {Write("ospf.mrt", Record(11, 0, "x")), "1 OSPFv2", 2},
      {Write("peers.mrt", peers), "an MRT peer index without RIB records", 2},
      {Write("multicast.mrt", peers + multicast), "TABLE_DUMP_V2 multicast", 2},
      {Write("page.html", "<html>404</html>"), "HTML or XML", 2},
      {Write("empty", ""), "--allow_empty", 1},
      {"/dev/null", "--allow_empty", 1},
      {Write("comments", "# none\n\n"), "--allow_empty", 1},
  };
  for (const char* command : kOfFiles) {
    for (const auto& [file, says, code] : cases) {
      Fails(code, command + file, says);
      if (code == 2) Fails(code, absl::StrCat(command, "--allow_empty ", file));
    }
  }
  for (const char* strict : {"", "--strict "}) {
    Fails(2, absl::StrCat("load ", strict, cases[0].file), cases[0].says);
    Fails(1, absl::StrCat("load ", strict, "/dev/null"));
  }
  const std::string lines = Write("lines", "10.0.0.0\n# a\n::/0 0\n");
  Fails(1, "load " + lines, "lines:1: all 2 lines are malformed: ");
  Fails(1, "verify " + lines, "lines:1: all 2 lines are malformed: ");
  Fails(2, "routes replace " + lines, "lines:1: ");
  EXPECT_EQ(Do("routes list"), routes);
  EXPECT_THAT(Do("status"), HasSubstr("generation     1"));
  // What is meant is said.
  EXPECT_THAT(Do("load --allow_empty /dev/null"), StartsWith("0 routes"));
  Fails(1, "routes diff --allow_empty /dev/null");
  EXPECT_THAT(Do("routes replace --allow_empty /dev/null"),
              HasSubstr("2 removed"));
  Do("verify --samples=10 --allow_empty /dev/null");
}

TEST_F(PlanbctlObjectsTest, WhatIsNotUsedIsCountedByType) {
  const Routes route = {{"11.0.0.0/8", "192.0.2.1"}};
  const std::string mixed =
      Write("mixed.mrt", absl::StrCat(Slurp(Dump("dump.mrt", route)),
                                      Slurp(Updates("updates.mrt", route)),
                                      Record(11, 0, "x"), Record(11, 0, "y")));
  const std::string counts = "3 records ignored (1 BGP4MP, 2 OSPFv2)";
  EXPECT_THAT(Do("load " + mixed), HasSubstr("; " + counts));
  EXPECT_THAT(Do("load --json " + mixed),
              AllOf(HasSubstr(R"("ignored":3,)"), HasSubstr(R"("BGP4MP":1)"),
                    HasSubstr(R"("OSPFv2":2)")));
  for (const char* command : kOfFiles) {
    Fails(0, command + mixed, counts);
  }
  Fails(0, "replay --speed=0 " + mixed,
        "4 records ignored (2 OSPFv2, 2 TABLE_DUMP_V2)");
  EXPECT_THAT(
      Do("replay --json --speed=0 " + mixed),
      AllOf(HasSubstr(R"("ignored":4,"ignored_by":{)"),
            HasSubstr(R"("OSPFv2":2)"), HasSubstr(R"("TABLE_DUMP_V2":2)")));
  Fails(2, "replay --speed=0 " + Dump("dump.mrt", route),
        "a table dump: try planbctl load; no BGP4MP record: 2 records ignored");
}

TEST_F(PlanbctlObjectsTest, EachCommandReadsTheStandardInput) {
  const std::string text = "10.0.0.0/8 1\n";
  EXPECT_THAT(Do("load -", text), StartsWith("1 routes"));
  EXPECT_THAT(Do("routes diff -", text), IsEmpty());
  EXPECT_THAT(Do("routes replace -", "10.0.0.0/8 2\n"), HasSubstr("1 changed"));
  Fails(1, "routes diff -", "", text);
  Fails(1, "verify --samples=0 -", "", text);
  EXPECT_THAT(Do("snapshot import -", text), HasSubstr("1 changed"));
  for (const char* command : kOfFiles) {
    Fails(1, absl::StrCat(command, "-"), "-: no routes in it");
  }
}

TEST_F(PlanbctlObjectsTest, SnapshotImportTakesWhatLoadTakes) {
  Do("nexthop set 5 --gateway=192.0.2.5");
  Do("announce 10.0.0.0/8 5");
  const std::string file = Scratch("snapshot");
  Do("snapshot export " + file);
  const std::string gz = Scratch("snapshot.gz");
  ASSERT_EQ(system(absl::StrCat("gzip -c ", file, " > ", gz).c_str()), 0);
  Do("nexthop set 5 --gateway=192.0.2.6");
  EXPECT_THAT(Do("snapshot import " + gz), HasSubstr("1 unchanged"));
  EXPECT_EQ(Via("10.0.0.1"), "192.0.2.5");
  EXPECT_THAT(Do("snapshot import -", Slurp(gz)), HasSubstr("1 unchanged"));
  // A file without objects of its own changes none.
  EXPECT_THAT(Do("snapshot import " + Write("text", "10.0.0.0/8 5\n::/0 5\n")),
              HasSubstr("1 added"));
  EXPECT_EQ(Via("10.0.0.1"), "192.0.2.5");
  EXPECT_THAT(
      Do("snapshot import " + Dump("dump.mrt", {{"11.0.0.0/8", "192.0.2.5"}})),
      HasSubstr("2 removed"));
  EXPECT_EQ(Via("11.0.0.1"), "192.0.2.5");
  const std::string contents = Slurp(gz);
  Fails(2,
        "snapshot import " +
            Write("cut.gz", contents.substr(0, contents.size() - 9)),
        "cut.gz: the gzip data end");
  // What is no snapshot is not read to its end, and so not held in memory.
  EXPECT_EQ(system("bash -c 'head -c 1G /dev/zero 2> /dev/null |"
                   " client/planbctl/planbctl snapshot import - 2> /dev/null;"
                   " [[ ${PIPESTATUS[0]} != 0 && ${PIPESTATUS[1]} == 2 ]]'"),
            0);
  // An empty table is meant only if it is said.
  Do("table create empty");
  Do("snapshot export --table=empty " + file);
  Fails(1, "snapshot import " + file, "--allow_empty");
  EXPECT_THAT(Do("snapshot import --allow_empty " + file),
              HasSubstr("1 removed"));
}

TEST_F(PlanbctlObjectsTest, TwoLoadsAtOnceKeepTheirGateways) {
  Routes a, b;
  for (int i = 0; i < 60; ++i) {
    a.emplace_back(absl::StrCat("11.", i, ".0.0/16"),
                   absl::StrCat("192.0.2.", i));
    b.emplace_back(absl::StrCat("12.", i, ".0.0/16"),
                   absl::StrCat("198.51.100.", i));
  }
  const std::string load = "client/planbctl/planbctl load --chunk=5 ";
  ASSERT_EQ(system(absl::StrCat("(", load, Dump("a.mrt", a), " & ", load,
                                Dump("b.mrt", b), " && wait $!) >/dev/null")
                       .c_str()),
            0);
  a.insert(a.end(), b.begin(), b.end());
  Do("verify --samples=0 " + Dump("both.mrt", a));
  for (size_t i = 0; i < a.size(); i += 17) {
    const std::string prefix = a[i].first;
    EXPECT_EQ(Via(prefix.substr(0, prefix.find('/'))), a[i].second);
  }
  EXPECT_EQ(Count(Do("nexthop list")), 121U);
}

// The objects of the table are listed once: a change beside that is noticed by
// its generation, also where the chunk after it changes nothing.
TEST_F(PlanbctlObjectsTest, ALoadNoticesWhatAnotherClientMakesMeanwhile) {
  const std::string first = "10.0.0.0/8 via 192.0.2.1\n";
  const std::string second = "11.0.0.0/8 via 192.0.2.1\n";
  const std::string third = "12.0.0.0/8 via 192.0.2.2\n";
  // The id that the load gives to the other gateway.
  Do("table create other");
  Do("load --chunk=1 --table=other -", first + third);
  const std::vector<std::string> route =
      absl::StrSplit(Do("routes get 12.0.0.0/8 --table=other"),
                     absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ASSERT_EQ(route.size(), 2U);
  const std::string ctl = "client/planbctl/planbctl ";
  // The first chunk is sent when the second route is read, from a pipe with the
  // block after it.
  const std::string script = Write(
      "load.sh",
      absl::StrCat("exec ", ctl, "load --chunk=1 - < <(printf '", first, second,
                   "'; yes '#' | head -c 2000000; until ", ctl,
                   "routes get 10.0.0.0/8; do sleep 0.01; done >&2; ", ctl,
                   "nexthop set ", route[1], " --gateway=192.0.2.99 >&2; ",
                   "printf '", third, "')"));
  for (const bool changes : {true, false}) {
    Do("load -", changes ? "13.0.0.0/8 via 192.0.2.1" : second);
    ASSERT_EQ(system(absl::StrCat("bash ", script, " >/dev/null 2>&1").c_str()),
              0);
    EXPECT_EQ(Via("12.0.0.1"), "192.0.2.2");
    EXPECT_THAT(Do("nexthop list"), HasSubstr("192.0.2.99"));
    Do("routes replace --allow_empty /dev/null");
    Do("nexthop prune");
  }
}

TEST_F(PlanbctlObjectsTest, UnusedObjectsAreListedAndPruned) {
  for (int id = 1; id <= 4; ++id) {
    Do(absl::StrCat("nexthop set ", id, " --gateway=192.0.2.", id));
  }
  Do("announce 10.0.0.0/8 1");
  Do("group set 9 2");
  const std::string unused = Do("nexthop list --unused");
  EXPECT_EQ(Count(unused), 3U);
  EXPECT_THAT(unused, HasSubstr("\n3 "));
  EXPECT_THAT(unused, HasSubstr("\n4 "));
  Do("announce 11.0.0.0/8 9");
  EXPECT_THAT(Do("nexthop prune --dry_run"), HasSubstr("2 removed"));
  EXPECT_THAT(Do("nexthop prune --chunk=1"), HasSubstr("2 removed"));
  EXPECT_THAT(Do("nexthop list --unused"), IsEmpty());
  EXPECT_THAT(Do("nexthop prune"), HasSubstr("0 removed"));
  EXPECT_EQ(Count(Do("nexthop list")), 3U);
  // A group that no route names, and the member that only it has.
  Do("withdraw 11.0.0.0/8");
  Do("group set 9 1 2");
  EXPECT_THAT(Do("nexthop prune --chunk=1"), HasSubstr("2 removed"));
  EXPECT_THAT(Do("group list"), IsEmpty());
  EXPECT_EQ(Count(Do("nexthop list")), 2U);
}

TEST_F(PlanbctlObjectsTest, AnnounceMakesRoomOfItsOwnUnusedObjects) {
  Start("none", "", {"--max_next_hops=5"});
  Do("nexthop set 1 --gateway=192.0.2.200");  // unused, but not announce's
  for (int i = 1; i <= 8; ++i) {
    Do(absl::StrCat("announce 10.0.0.0/8 via 192.0.2.", i));
    EXPECT_EQ(Via("10.0.0.1"), absl::StrCat("192.0.2.", i));
    Do("withdraw 10.0.0.0/8");
  }
  EXPECT_THAT(Do("nexthop list"), HasSubstr("192.0.2.200"));
  // All are in use.
  for (int i = 1; i <= 4; ++i) {
    Do(absl::StrCat("announce 10.", i, ".0.0/16 via 192.0.2.", i));
  }
  Fails(3, "announce 11.0.0.0/8 via 192.0.2.9", "NEXT_HOPS_FULL");
  EXPECT_EQ(Via("10.1.0.1"), "192.0.2.1");
}

TEST_F(PlanbctlObjectsTest, TextsWithGatewaysMeetTheObjectsOfTheTable) {
  Do("nexthop set 1 --gateway=192.0.2.254 --interface=eth0");
  Do("announce 10.0.0.0/8 via 192.0.2.1");
  const std::string path =
      Write("ip_route",
            "default via 192.0.2.254 dev eth0\n"
            "11.0.0.0/8 via 192.0.2.1 metric 2\n"
            "12.0.0.0/8\n\tnexthop via 192.0.2.1 weight 1\n"
            "\tnexthop via 192.0.2.3 weight 2\n");
  EXPECT_THAT(Do("load " + path), HasSubstr("3 added"));
  EXPECT_EQ(Via("13.0.0.1"), "192.0.2.254");
  EXPECT_EQ(Via("11.0.0.1"), "192.0.2.1");
  EXPECT_THAT(Do("routes explain 12.0.0.1"), HasSubstr("*2"));
  // Again, by each command, with nothing to do.
  EXPECT_THAT(Do("load " + path), HasSubstr("3 unchanged"));
  Do("withdraw 10.0.0.0/8");
  EXPECT_THAT(Do("routes diff " + path), IsEmpty());
  Do("verify " + path);
  EXPECT_THAT(Do("routes replace " + path), HasSubstr("3 unchanged"));
}

TEST_F(PlanbctlObjectsTest, NothingIsReachedViaTheUnspecifiedAddress) {
  for (const std::string gateway : {"0.0.0.0", "::"}) {
    const std::string says = gateway + " is no gateway";
    Fails(2, "announce 10.0.0.0/8 via " + gateway, says);
    const std::string file = Write("file", "10.0.0.0/8 via " + gateway);
    Fails(1, "load " + file, says);
    Fails(3, "nexthop set 7 --gateway=" + gateway, says);
  }
  EXPECT_THAT(Do("nexthop list"), IsEmpty());
}

TEST_F(PlanbctlObjectsTest, TheNextHopOfPrefixesAloneIsAnId) {
  const std::string list = Write("list", "10.0.0.0/8\n");
  for (const char* id : {"007", "+7", "-7", "0x7", "7x", "4294967295"}) {
    for (const char* command : {"load ", "routes list "}) {
      Fails(2,
            absl::StrCat(command, "--next_hop=", id,
                         command[0] == 'l' ? " " + list : ""),
            "4294967294");
    }
  }
  Fails(1, "load --next_hop=0 " + list, "--next_hop");
  Do("load --next_hop=4294967294 " + list);
  EXPECT_THAT(Do("routes list --next_hop=0"), StartsWith("10.0.0.0/8"));
}

TEST_F(PlanbctlObjectsTest, PrefixesAloneAndCsvTakeFlags) {
  const std::string list = Write("list", "10.0.0.0/8\n2001:db8::/32");
  Fails(2, "routes replace " + list, "--next_hop");
  EXPECT_THAT(Do("load --next_hop=5 " + list), HasSubstr("2 added"));
  EXPECT_THAT(Do("routes list --next_hop=5"), HasSubstr("2001:db8::/32"));
  Do("verify --next_hop=5 " + list);
  const std::string csv = Write("csv", "asn,net\n7,11.0.0.0/8\n");
  Fails(2, "load " + csv, "CSV: give --csv_columns");
  Fails(2, "load --csv_columns=net " + csv, "--next_hop");
  Do("routes replace --csv_columns=net,asn " + csv);
  EXPECT_THAT(Do("routes diff --csv_columns=net,asn " + csv), IsEmpty());
  EXPECT_THAT(Do("routes list"), StartsWith("11.0.0.0/8"));
}

}  // namespace
}  // namespace planb::client
