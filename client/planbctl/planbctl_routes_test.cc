// SPDX-License-Identifier: Apache-2.0

// The real binary against a fake server: planbctl routes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

class PlanbctlRoutesTest : public testing::PlanbctlFixture {
 protected:
  std::string Digest() const {
    return absl::BytesToHexString(server_.table().digest());
  }
};

TEST_F(PlanbctlRoutesTest, ListPrintsWhatLoadReads) {
  const Ended ended = Ctl("routes list");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "10.0.0.0/8               6\n"
            "2001:db8::/32            5\n"
            "2001:db8:1::/48          7\n");
  testing::FakeServer other;
  EXPECT_EQ(Ctl(absl::StrCat("--server=", other.target(), " load ",
                             Write("routes", ended.out)))
                .code,
            0);
  EXPECT_EQ(other.table().routes(), server_.table().routes());
}

TEST_F(PlanbctlRoutesTest, ListSelects) {
  const std::string v6 = R"({"prefix":"2001:db8::/32","next_hop":5})"
                         "\n";
  const std::string longer = R"({"prefix":"2001:db8:1::/48","next_hop":7})"
                             "\n";
  EXPECT_EQ(Ctl("routes list --json 2001:db8::/32").out, v6 + longer);
  EXPECT_EQ(Ctl("routes list --json 2001:db8::/32 --match=exact").out, v6);
  EXPECT_EQ(Ctl("routes list --json 2001:db8:1::/48 --match=covering").out,
            v6 + longer);
  EXPECT_EQ(Ctl("routes list --json --next_hop=7").out, longer);
  EXPECT_EQ(Ctl("routes list --json --match=subtree ::/0 --next_hop=6").out,
            "");
}

TEST_F(PlanbctlRoutesTest, GetIsExact) {
  EXPECT_EQ(Ctl("routes get 2001:db8::/32").out,
            "2001:db8::/32            5\n");
  const Ended ended = Ctl("routes get 2001:db8::/33");
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_EQ(ended.out, "2001:db8::/33            no route\n");
  EXPECT_EQ(Ctl("routes get --json 2001:db8::/33").out,
            R"({"prefix":"2001:db8::/33","next_hop":0})"
            "\n");
}

TEST_F(PlanbctlRoutesTest, ExplainShowsEveryMatch) {
  ASSERT_EQ(Ctl("nexthop set 5 --gateway=fe80::1 --interface=eth0").code, 0);
  ASSERT_EQ(Ctl("group set 7 5 6\\*3 --label=both").code, 0);
  Ended ended = Ctl("routes explain 2001:db8:1::1 --flow_hash=2");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "address        2001:db8:1::1\n"
            "generation     3\n"
            "next hop       7\n"
            "group          5 6*3 label both\n"
            "member         5\n"
            "member object  via fe80::1 dev eth0\n"
            "* 2001:db8:1::/48        7\n"
            "  2001:db8::/32          5\n");
  ended = Ctl("routes explain --json 2001:db8::1");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            R"({"address":"2001:db8::1","generation":3,"next_hop":5,)"
            R"("matches":[{"prefix":"2001:db8::/32","next_hop":5}],)"
            R"("object":{"id":5,"interface":"eth0","weight":1,"label":"",)"
            R"("gateway":"fe80::1"}})"
            "\n");
  ended = Ctl("routes explain ::1");
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("next hop       no route\n"));
}

TEST_F(PlanbctlRoutesTest, WatchPrintsEveryChange) {
  ASSERT_EQ(Ctl("nexthop set 5 --interface=eth0").code, 0);
  ASSERT_EQ(Ctl("group set 9 5 6").code, 0);
  const std::string before = Digest();
  ASSERT_EQ(Ctl("announce 192.0.2.0/24 9").code, 0);
  const std::string announced = Digest();
  ASSERT_EQ(Ctl("withdraw 192.0.2.0/24").code, 0);
  ASSERT_EQ(Ctl("group delete 9").code, 0);
  Ended ended = Ctl("routes watch --start=1 --count=5");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            absl::StrCat("2 set_nexthop 5 dev eth0\n2 complete ", before,
                         "\n3 set_group 9 5 6\n3 complete ", before,
                         "\n4 announce 192.0.2.0/24 9\n4 complete ", announced,
                         "\n5 withdraw 192.0.2.0/24\n5 complete ", before,
                         "\n6 delete_group 9\n6 complete ", before, "\n"));
  ended = Ctl("routes watch --json --start=3 --count=1");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            absl::StrCat(R"({"generation":4,"change":"announce",)"
                         R"("prefix":"192.0.2.0/24","next_hop":9})"
                         "\n"
                         R"({"generation":4,"change":"complete","digest":")",
                         announced, "\"}\n"));
}

TEST_F(PlanbctlRoutesTest, WatchBeginsNow) {
  ASSERT_EQ(Ctl("announce 192.0.2.0/24 9").code, 0);
  // Waits until the watch is open.
  std::thread writer([this] {
    const uint64_t streams = server_.streams_opened();
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (server_.streams_opened() == streams && absl::Now() < give_up) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    // Does not use Ctl, because the watch uses its scratch files.
    v1::UpdateRoutesRequest request;
    v1::RouteUpdate* update = request.add_updates();
    update->set_op(v1::RouteUpdate::OP_DELETE);
    update->mutable_prefix()->set_text("10.0.0.0/8");
    grpc::ClientContext context;
    v1::UpdateRoutesResponse response;
    EXPECT_TRUE(v1::RouteTable::NewStub(server_.Channel())
                    ->UpdateRoutes(&context, request, &response)
                    .ok());
  });
  const Ended ended = Ctl("routes watch --count=1");
  writer.join();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("3 withdraw 10.0.0.0/8\n3 complete "));
}

TEST_F(PlanbctlRoutesTest, WatchReportsCompactedHistory) {
  ASSERT_EQ(Ctl("announce 192.0.2.0/24 9").code, 0);
  server_.ForgetHistory();
  const Ended ended = Ctl("routes watch --start=1");
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("HISTORY_COMPACTED"),
                               HasSubstr("the oldest generation is 2")));
}

TEST_F(PlanbctlRoutesTest, WatchEndsBySignal) {
  const Ended ended =
      Ctl("routes watch --start=1 & sleep 0.5; kill -TERM $!; wait $!");
  EXPECT_EQ(ended.code, 143);
}

TEST_F(PlanbctlRoutesTest, DiffShowsWhatReplaceWouldDo) {
  const std::string file =
      Write("routes", "10.0.0.0/8 6\n2001:db8::/32 9\n192.0.2.0/24 4\n");
  Ended ended = Ctl("routes diff " + file);
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_EQ(ended.out,
            "+ 192.0.2.0/24 4\n"
            "~ 2001:db8::/32 5 -> 9\n"
            "- 2001:db8:1::/48 7\n");
  EXPECT_EQ(Ctl("routes diff --json " + file).out,
            R"({"prefix":"192.0.2.0/24","next_hop":4})"
            "\n"
            R"({"prefix":"2001:db8::/32","old_next_hop":5,"next_hop":9})"
            "\n"
            R"({"prefix":"2001:db8:1::/48","old_next_hop":7})"
            "\n");

  ended = Ctl("routes replace --dry_run " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("1 added, 1 changed, 1 removed, 1 unchanged "
                                   "(dry run: nothing was changed)"));
  EXPECT_EQ(Ctl("routes diff " + file).code, 1);
  ended = Ctl("routes replace " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out,
            "generation 2 (visible: 2): 1 added, 1 changed, 1 removed, 1 "
            "unchanged\n");
  ended = Ctl("routes diff " + file);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, IsEmpty());
}

TEST_F(PlanbctlRoutesTest, ATruncatedFileReplacesNothing) {
  for (const char* text : {"10.0.0.0/8 6\nnonsense\n", "10.0.0.0/8 6\n::/0"}) {
    const std::string file = Write("routes", text);
    EXPECT_EQ(Ctl("routes replace " + file).code, 2) << text;
    EXPECT_EQ(Ctl("routes diff " + file).code, 2) << text;
  }
  EXPECT_EQ(server_.table().generation(), 1U);
}

TEST_F(PlanbctlRoutesTest, ReplayAppliesRecordedUpdates) {
  const std::string a("\x18\xc0\x00\x02", 4);  // 192.0.2.0/24
  const std::string b("\x18\xc6\x33\x64", 4);  // 198.51.100.0/24
  const std::string first = Write("first", Update(1, "", a + b));
  const std::string second = Write("second", Update(11, a, ""));
  Ended ended =
      Ctl(absl::StrCat("replay --json --speed=50 ", first, " ", second));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(StartsWith(R"({"updates":2,"malformed":0,)"
                               R"("truncated":false,"changes":3,)"
                               R"("next_hops":1,"batches":2,"refused":0,)"),
                    HasSubstr(R"("recorded_seconds":10,"seconds":0.2)")));
  EXPECT_EQ(server_.table().generation(), 3U);
  EXPECT_EQ(Ctl("routes get 198.51.100.0/24").out,
            "198.51.100.0/24          1\n");
  EXPECT_EQ(Ctl("routes get 192.0.2.0/24").code, 1);

  ended = Ctl("replay --speed=0 --ack=persisted " + first);
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.out, HasSubstr("1 batches, 1 refused"));
  EXPECT_THAT(ended.err, HasSubstr("FAILED_PRECONDITION"));
  const std::string broken =
      Write("broken", Update(1, "", a) + Update(2, a, "").substr(0, 20));
  ended = Ctl("replay --speed=0 " + broken);
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("breaks off"));
  EXPECT_EQ(Ctl("replay --strict --speed=0 " + broken).code, 2);
  EXPECT_EQ(Ctl("--table=none replay " + first).code, 3);
}

}  // namespace
}  // namespace planb::client
