// The real binary against a fake server: next hops, groups, tables, snapshots.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeError;
using ::testing::Not;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

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
  EXPECT_EQ(ended.out, absl::StrCat(file, ": ", contents.size(), " octets\n"));
  EXPECT_EQ(Ctl("snapshot export --json " + file).out,
            absl::StrCat("{\"file\":\"", file,
                         "\",\"octets\":", contents.size(), "}\n"));
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
