// SPDX-License-Identifier: Apache-2.0

// The real planbctl with the real server: each command of the control path.

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "client/batch_lookup.h"
#include "client/channel.h"
#include "client/testing/planbctl_fixture.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {

namespace {

using ::testing::AllOf;
using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::Scratch;
using testing::Slurp;
using ::testing::StartsWith;
using testing::Write;

constexpr const char* kTable =
    "10.0.0.0/8 6\n2001:db8::/32 5\n2001:db8:1::/48 7\n";

class PlanbctlServerTest : public testing::RealServerFixture {
 protected:
  // Runs planbctl, which must succeed, and returns its output.
  static std::string Do(const std::string& words) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 0) << words << "\n" << ended.err;
    return ended.out;
  }
  // Runs planbctl, which the server must refuse with that reason.
  static void ExpectRefusal(const std::string& words, const char* reason) {
    const Ended ended = Ctl(words);
    EXPECT_EQ(ended.code, 3) << words;
    EXPECT_THAT(ended.err, HasSubstr(reason)) << words;
  }
};

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
  const Ended ended = Ctl("soak --seconds=0.2 " + other);
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("; batches failed: none;"));
  EXPECT_EQ(Ctl("soak " + Write("empty", "")).code, 2);
  EXPECT_EQ(Ctl("soak --batch=0 " + file).code, 2);
  EXPECT_EQ(Ctl("soak --server=unix:///nonexistent " + file).code, 4);
}

TEST_F(PlanbctlServerTest, Routes) {
  const std::string file = Write("table", kTable);
  EXPECT_EQ(Ctl("routes diff " + file).code, 1);
  EXPECT_THAT(Do("routes replace --dry_run " + file), HasSubstr("3 added"));
  EXPECT_EQ(Do("routes replace " + file),
            "generation 1 (visible: 1): 3 added, 0 changed, 0 removed, 0 "
            "unchanged\n");
  EXPECT_THAT(Do("routes diff " + file), IsEmpty());
  EXPECT_EQ(Do("routes list"),
            "10.0.0.0/8               6\n"
            "2001:db8::/32            5\n"
            "2001:db8:1::/48          7\n");
  EXPECT_EQ(Do("routes list 2001:db8:1::/48 --match=covering --next_hop=5"),
            "2001:db8::/32            5\n");
  EXPECT_EQ(Do("routes list 2001:db8::/32 --match=exact"),
            "2001:db8::/32            5\n");
  EXPECT_EQ(Do("routes list 2001:db8::/33"), "2001:db8:1::/48          7\n");
  EXPECT_EQ(Do("routes get 10.0.0.0/8"), "10.0.0.0/8               6\n");
  EXPECT_EQ(Ctl("routes get 10.0.0.0/9").code, 1);
  EXPECT_EQ(Ctl("routes explain 11.0.0.1").code, 1);
  EXPECT_THAT(Do("routes explain 2001:db8:1::1"),
              AllOf(HasSubstr("next hop       7\n"),
                    HasSubstr("* 2001:db8:1::/48        7\n"
                              "  2001:db8::/32          5\n")));
  const std::string other = Write("other", "10.0.0.0/8 9\n::/0 1\n");
  EXPECT_EQ(Ctl("routes diff " + other).out,
            "~ 10.0.0.0/8 6 -> 9\n"
            "+ ::/0 1\n"
            "- 2001:db8::/32 5\n"
            "- 2001:db8:1::/48 7\n");
  ExpectRefusal("routes replace --expected_generation=7 " + other,
                "GENERATION_MISMATCH");
  EXPECT_THAT(Do("routes replace --expected_generation=1 " + other),
              HasSubstr("1 added, 1 changed, 2 removed, 0 unchanged"));
}

TEST_F(PlanbctlServerTest, ChangesAreConditional) {
  EXPECT_EQ(Do("announce ::/0 1 --request_id=a --writer_epoch=3"),
            Do("announce ::/0 1 --request_id=a --writer_epoch=3"));
  ExpectRefusal("announce ::/0 2 --request_id=a --writer_epoch=3",
                "REQUEST_ID_REUSED");
  ExpectRefusal("announce ::/0 2 --writer_epoch=2", "WRITER_FENCED");
  ExpectRefusal("withdraw ::/0 --writer_epoch=3 --ack=persisted",
                "STORE_VOLATILE");
  EXPECT_THAT(Do("table show"), HasSubstr("\nwriter epoch   3\n"));
  EXPECT_THAT(Do("load --writer_epoch=3 --chunk=1 --request_id=b " +
                 Write("table", kTable)),
              HasSubstr("3 added"));
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
  const std::string shown = Do("table show blue");
  EXPECT_THAT(shown, HasSubstr("sqlite"));
  ASSERT_NO_FATAL_FAILURE(Kill());
  ASSERT_NO_FATAL_FAILURE(Start(store));
  EXPECT_EQ(Do("routes list"), "::/0                     1\n");
  EXPECT_EQ(Ctl("--table=blue routes diff " + Write("table", kTable)).code, 0);
  EXPECT_THAT(Do("nexthop list"), HasSubstr("eth0"));
}

TEST_F(PlanbctlServerTest, NextHopsAndGroups) {
  Do("nexthop set 5 --gateway=fe80::1 --interface=eth0 --label=one");
  Do("nexthop set 6 --gateway=192.0.2.1 --weight=2");
  Do("group set 9 5 6\\*3");
  Do("announce 2001:db8::/32 9");
  EXPECT_EQ(Do("nexthop list"),
            "nexthop  gateway    interface  weight  label\n"
            "5        fe80::1    eth0       1       one\n"
            "6        192.0.2.1  -          2       -\n");
  EXPECT_EQ(Do("group list"),
            "group  label  members\n"
            "9      -      5 6*3\n");
  EXPECT_THAT(Do("routes explain 2001:db8::1 --flow_hash=1"),
              AllOf(HasSubstr("group          5 6*3\n"),
                    HasSubstr("\nmember         ")));
  ExpectRefusal("group delete 9", "NEXT_HOP_IN_USE");
  ExpectRefusal("nexthop delete 5", "NEXT_HOP_IN_USE");
  ExpectRefusal("nexthop delete 77", "NEXT_HOP_NOT_FOUND");
  Do("withdraw 2001:db8::/32");
  EXPECT_THAT(Do("group delete 9"), HasSubstr("1 removed"));
  EXPECT_THAT(Do("nexthop delete 5 6"), HasSubstr("2 removed"));
}

TEST_F(PlanbctlServerTest, Tables) {
  EXPECT_THAT(Do("table create blue"), StartsWith("blue created"));
  ExpectRefusal("table create blue", "TABLE_EXISTS");
  ExpectRefusal("table create Blue", "TABLE_NAME_INVALID");
  Do("--table=blue announce ::/0 1");
  EXPECT_THAT(Do("table list"),
              AllOf(HasSubstr("\nblue "), HasSubstr("\ndefault ")));
  EXPECT_THAT(Do("table show blue"), HasSubstr("\nIPv6 lengths   /0: 1\n"));
  EXPECT_THAT(Do("routes list"), IsEmpty());
  Do("table delete blue");
  ExpectRefusal("table show blue", "TABLE_NOT_FOUND");
  ExpectRefusal("table delete default", "TABLE_PERMANENT");
}

TEST_F(PlanbctlServerTest, WatchesShowEveryChange) {
  Do("nexthop set 5 --interface=eth0");
  Do("announce ::/0 5");
  Do("withdraw ::/0");
  EXPECT_THAT(Do("routes watch --start=0 --count=3"),
              MatchesRegex("1 set_nexthop 5 dev eth0\n"
                           "1 complete 0+\n"
                           "2 announce ::/0 5\n"
                           "2 complete [0-9a-f]+\n"
                           "3 withdraw ::/0\n"
                           "3 complete 0+\n"));
  ExpectRefusal("routes watch --start=99", "HISTORY_");
}

TEST_F(PlanbctlServerTest, Snapshots) {
  Do("routes replace " + Write("table", kTable));
  Do("nexthop set 5 --interface=eth0");
  Do("group set 9 5 6");
  const std::string file = Scratch("snapshot");
  Do("snapshot export " + file);
  Do("announce ::/0 1");
  Do("table create copy");
  EXPECT_THAT(Do("--table=copy snapshot import " + file), HasSubstr("3 added"));
  EXPECT_THAT(Do("snapshot import " + file), HasSubstr("1 removed"));
  for (const char* list : {"routes list", "nexthop list", "group list"}) {
    EXPECT_EQ(Do(list), Do(absl::StrCat("--table=copy ", list)));
  }
  const std::string contents = Slurp(file);
  ExpectRefusal("snapshot import " +
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

  Ended With(const std::string& flags, const std::string& command = "status") {
    return Ctl(absl::StrCat("--timeout=1m --server=", target_, " ", flags, " ",
                            command));
  }
  std::string Ca() const { return absl::StrCat(" --tls_ca=", ours_.ca()); }
  std::string Identity() const {
    return absl::StrCat(" --tls_cert=", ours_.cert(),
                        " --tls_key=", ours_.key());
  }
  static void ExpectUnreachable(const Ended& ended, const std::string& why) {
    EXPECT_EQ(ended.code, 4) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(why));
  }

  TestAuthority authority_;
  TestTlsFiles ours_;
  TestTlsFiles theirs_;
  std::unique_ptr<ServerProcess> server_;
  std::string target_;
};

TEST_F(PlanbctlTls, ConnectsToATrustedServer) {
  Start(/*mutual=*/false);
  const Ended status = With(Ca());
  EXPECT_EQ(status.code, 0) << status.err;
  // Also the commands that open their own channels.
  const Ended announced = With(Ca(), "announce 2001:db8::/32 7");
  EXPECT_EQ(announced.code, 0) << announced.err;
  const Ended lookup = With(Ca(), "lookup 2001:db8::1");
  EXPECT_EQ(lookup.code, 0) << lookup.err;
  EXPECT_THAT(lookup.out, HasSubstr("7"));
  // Plaintext does not work with this server.
  EXPECT_EQ(With("").code, 4);
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherAuthority) {
  Start(/*mutual=*/false);
  ours_.SetAuthority(TestAuthority().certificate());
  ExpectUnreachable(With(Ca()), "certificate verify failed");
  // The host does not trust this authority.
  ExpectUnreachable(With("--tls_server_name=localhost"),
                    "certificate verify failed");
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherName) {
  theirs_.SetIdentity(authority_.Issue({.names = "DNS:planb.example"}));
  Start(/*mutual=*/false);
  ExpectUnreachable(With(Ca()), "127.0.0.1 is not in peer certificate");
  const Ended named = With(Ca() + " --tls_server_name=planb.example");
  EXPECT_EQ(named.code, 0) << named.err;
  ExpectUnreachable(With(Ca() + " --tls_server_name=other.example"),
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
  ExpectUnreachable(With(Ca()), "certificate verify failed");
  bare->Shutdown();
}

TEST_F(PlanbctlTls, ShowsItsCertificateToAServerThatAsks) {
  Start(/*mutual=*/true);
  const Ended known = With(Ca() + Identity());
  EXPECT_EQ(known.code, 0) << known.err;
  ExpectUnreachable(With(Ca()), "cannot connect to 127.0.0.1");
  ours_.SetIdentity(TestAuthority().Issue());
  ExpectUnreachable(With(Ca() + Identity()), "cannot connect to 127.0.0.1");
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
    const Ended ended = With(flags);
    EXPECT_EQ(ended.code, 2) << flags;
    EXPECT_THAT(ended.err, HasSubstr(why));
  }
  EXPECT_THAT(Ctl("help status").out, HasSubstr("--tls_server_name"));
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
