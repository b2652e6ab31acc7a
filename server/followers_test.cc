// SPDX-License-Identifier: Apache-2.0

// Real servers that follow another server, in tiers, while that one is killed,
// paused, restarted and replaced.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/test_certificates.h"
#include "grpcpp/client_context.h"
#include "server/testing/fake_leader.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

class Followers : public testing::Test {
 protected:
  ~Followers() override { std::filesystem::remove(link_); }

  // A server that others find at link_.
  std::unique_ptr<StoredServer> Lead(const std::string& store,
                                     std::vector<std::string> more = {}) {
    auto server = std::make_unique<StoredServer>(store, std::move(more));
    EXPECT_TRUE(server->Begins()) << server->process().Log();
    std::filesystem::remove(link_);
    std::filesystem::create_symlink(server->socket(), link_);
    return server;
  }

  static std::unique_ptr<StoredServer> FollowAt(const std::string& socket,
                                                std::vector<std::string> more) {
    more.push_back(absl::StrCat("--follow=unix:", socket));
    auto server = std::make_unique<StoredServer>("none", std::move(more));
    EXPECT_TRUE(server->Begins()) << server->process().Log();
    return server;
  }
  std::unique_ptr<StoredServer> Follow(std::vector<std::string> more = {}) {
    return FollowAt(link_, std::move(more));
  }

  // Waits until `follower` shows what `leader` has.
  static void ExpectSame(const StoredServer& leader, StoredServer& follower) {
    const v1::Table wanted = leader.State();
    EXPECT_TRUE(Await([&] {
      return follower.State().visible_generation() >=
             wanted.accepted_generation();
    })) << follower.process().Log();
    EXPECT_EQ(follower.List(), leader.List());
    EXPECT_EQ(follower.State().digest(), wanted.digest());
    EXPECT_EQ(follower.State().complete_since_unix_nanos(),
              wanted.complete_since_unix_nanos());
  }

  const std::string link_ = TempPath("leader.sock");
};

// One to four random changes of few prefixes, next hops and groups.
void UpdateAtRandom(std::mt19937_64& random, const StoredServer& server) {
  v1::UpdateRoutesRequest request;
  request.set_ack(v1::ACK_ACCEPTED);
  const int changes = static_cast<int>(random() % 4) + 1;
  for (int i = 0; i < changes; ++i) {
    const auto number = static_cast<uint32_t>(random() % 64);
    // Once in a batch.
    AddChange(absl::StrCat("2001:db8:", absl::Hex(number * 4 + i), "::/48"),
              static_cast<NextHopId>(random() % 3), request);
  }
  if (random() % 3 == 0) {
    v1::NextHop& hop = *request.add_next_hops();
    hop.set_id(static_cast<uint32_t>(random() % 5) + 1);
    hop.set_interface(absl::StrCat("eth", random() % 9));
    hop.mutable_attributes()->set_origin_as(
        static_cast<uint32_t>(random() % 9));
  }
  if (random() % 8 == 0) request.set_complete(random() % 4 > 0);
  ASSERT_TRUE(server.Update(request).ok());
}

TEST_F(Followers, HaveTheSameGenerationsInTiers) {
  const auto leader = Lead(NewStorePath("tiers"));
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) UpdateAtRandom(random, *leader);
  const auto middle = Follow();
  const auto leaf = FollowAt(middle->socket(), {});
  v1::UpdateRoutesRequest word;
  for (const bool complete : {true, false, true}) {
    word.set_complete(complete);
    ASSERT_TRUE(leader->Update(word).ok());
    ExpectSame(*leader, *middle);
    ExpectSame(*leader, *leaf);
    EXPECT_EQ(leaf->State().complete_since_unix_nanos() != 0, complete);
  }
  for (int i = 0; i < 100; ++i) {
    UpdateAtRandom(random, *leader);
    v1::UpdateRoutesResponse response;
    ASSERT_TRUE(leader->Update(Announcement(4096, 1, i + 1), &response).ok());
    // A lookup at the last tier that waits for the generation.
    EXPECT_EQ(leaf->Lookup("2001:db8:1000::1", response.generation()), i + 1);
  }
  ExpectSame(*leader, *middle);
  ExpectSame(*leader, *leaf);
}

TEST_F(Followers, SeeTablesComeAndGo) {
  const auto leader = Lead("none");
  const auto follower = Follow();
  const auto generation = [](const StoredServer& server) -> int64_t {
    grpc::ClientContext call;
    v1::GetTableRequest request;
    request.set_table("blue");
    v1::Table table;
    const grpc::Status status =
        const_cast<StoredServer&>(server).table().GetTable(&call, request,
                                                           &table);
    return status.ok() ? static_cast<int64_t>(table.visible_generation()) : -1;
  };
  for (int round = 0; round < 3; ++round) {
    grpc::ClientContext create;
    v1::CreateTableRequest request;
    request.set_table("blue");
    v1::Table table;
    ASSERT_TRUE(leader->table().CreateTable(&create, request, &table).ok());
    v1::UpdateRoutesRequest update = Announcement(1, 3, 5);
    update.set_table("blue");
    v1::UpdateRoutesResponse response;
    ASSERT_TRUE(leader->Update(update, &response).ok());
    EXPECT_TRUE(Await([&] {
      return generation(*follower) ==
             static_cast<int64_t>(response.generation());
    }));
    grpc::ClientContext erase;
    v1::DeleteTableRequest name;
    name.set_table("blue");
    v1::DeleteTableResponse deleted;
    ASSERT_TRUE(leader->table().DeleteTable(&erase, name, &deleted).ok());
    EXPECT_TRUE(Await([&] { return generation(*follower) == -1; }));
  }
}

TEST_F(Followers, RefuseUpdatesAndNameTheServerThatTakesThem) {
  const auto leader = Lead("none");
  const auto follower = Follow();
  const grpc::Status refused = follower->Update(Announcement(0, 1, 5));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), link_))
      << refused.error_message();
  grpc::ClientContext call;
  v1::CreateTableRequest request;
  request.set_table("blue");
  v1::Table table;
  EXPECT_EQ(follower->table().CreateTable(&call, request, &table).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

// Takes 10 s: a start waits that long for a server that refuses it.
TEST_F(Followers, FollowOverMutualTls) {
  TestAuthority authority;
  TestTlsFiles files;
  files.SetAuthority(authority.certificate());
  files.SetIdentity(authority.Issue());
  const std::string cert = "tls_cert=" + files.cert();
  const std::string key = "tls_key=" + files.key();
  const auto leader =
      Lead("none", {absl::StrCat("--listen=unix://", link_, ".own,127.0.0.1:0"),
                    "--" + cert, "--" + key, "--tls_client_ca=" + files.ca()});
  const std::string target = absl::StrCat(
      "--follow=127.0.0.1:", leader->process().PortOf("127.0.0.1:0"));
  const std::string ca = "--follow_ca=" + files.ca();
  {
    StoredServer stranger("none", {target, ca});
    EXPECT_FALSE(stranger.Begins());
  }
  StoredServer follower("none", {target, ca, "--follow_cert=" + files.cert(),
                                 "--follow_key=" + files.key()});
  EXPECT_TRUE(follower.Begins()) << follower.process().Log();
  std::filesystem::remove(link_ + ".own");
}

// All certificates and the authority change, then the connection is cut.
TEST_F(Followers, TakeNewCertificatesWithoutARestart) {
  const std::string own = link_ + ".own";
  for (const bool told : {true, false}) {
    const std::string store = NewStorePath(told ? "told" : "polled");
    TestTlsFiles of_leader, of_follower;
    const auto replace = [&](absl::Duration life) {
      TestAuthority authority;
      for (TestTlsFiles* files : {&of_leader, &of_follower}) {
        files->SetAuthority(authority.certificate());
        files->SetIdentity(authority.Issue({.ends = absl::Now() + life}));
      }
    };
    const auto lead = [&](int port) {
      auto leader = std::make_unique<StoredServer>(
          store,
          std::vector<std::string>{
              absl::StrCat("--listen=unix://", own, ",127.0.0.1:", port),
              "--tls_cert=" + of_leader.cert(), "--tls_key=" + of_leader.key(),
              "--tls_client_ca=" + of_leader.ca()});
      EXPECT_TRUE(leader->Begins()) << leader->process().Log();
      std::filesystem::create_symlink(own, leader->socket());
      return leader;
    };
    replace(absl::Hours(1));
    auto leader = lead(0);
    const int port = leader->process().PortOf("127.0.0.1:0");
    StoredServer follower(
        "none", {absl::StrCat("--follow=127.0.0.1:", port),
                 "--follow_ca=" + of_follower.ca(),
                 "--follow_cert=" + of_follower.cert(),
                 "--follow_key=" + of_follower.key(), kMetrics,
                 absl::StrCat("--tls_reload_interval=", told ? "1h" : "20ms")});
    ASSERT_TRUE(follower.Begins()) << follower.process().Log();
    const auto expiry = [&] {
      return follower.Metric(
          "planb_tls_certificate_expiry_timestamp_seconds{kind=\"follow\"}");
    };
    const double before = expiry();
    EXPECT_GT(before, 0);

    replace(absl::Hours(2));
    if (told) follower.process().Kill(SIGHUP);
    EXPECT_TRUE(Await([&] { return expiry() > before; }));
    leader->KillNow();
    leader = lead(port);
    ASSERT_TRUE(leader->Update(Announcement(0, 20, 5)).ok());
    ExpectSame(*leader, follower);
  }
  std::filesystem::remove(own);
}

// Takes 6 s: three times the server is away for longer than the staleness
// allowed.
TEST_F(Followers, GoOnFromWhereTheyWereAfterARestart) {
  const std::string store = NewStorePath("restart");
  auto leader = Lead(store);
  ASSERT_TRUE(leader->Update(Announcement(0, 20, 5)).ok());
  const auto follower = Follow({kMetrics, "--max_staleness=1s"});
  std::mt19937_64 random(2);
  for (int round = 0; round < 3; ++round) {
    leader->KillNow();
    EXPECT_TRUE(
        Await([&] { return follower->Metric("planb_store_lag_seconds") > 1; }));
    EXPECT_EQ(follower->Lookup("2001:db8:0::1"), 5U);
    leader = Lead(store);
    for (int i = 0; i < 20; ++i) UpdateAtRandom(random, *leader);
    ASSERT_TRUE(leader->Update(Announcement(0, 20, 5)).ok());
    ExpectSame(*leader, *follower);
    EXPECT_TRUE(
        Await([&] { return follower->Metric("planb_store_lag_seconds") < 2; }));
  }
}

TEST_F(Followers, ThatMissedTooMuchTakeTheWholeTable) {
  // Keeps the changes of the newest generation alone.
  const auto leader = Lead("none", {"--history_bytes=1"});
  const auto follower = Follow();
  std::mt19937_64 random(3);
  for (int round = 0; round < 3; ++round) {
    follower->process().Kill(SIGSTOP);
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(leader->Update(Announcement(i * 200, 200, i + 1)).ok());
    }
    follower->process().Kill(SIGCONT);
    UpdateAtRandom(random, *leader);
    ExpectSame(*leader, *follower);
  }
}

// Takes 5 s: until the lag shows that the follower does not follow.
TEST_F(Followers, KeepWhatTheyHaveUntilTheOtherIsAheadAgain) {
  auto leader = Lead("none");
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(leader->Update(Announcement(i, 1, 5)).ok());
  }
  const auto follower = Follow({kMetrics});
  ASSERT_EQ(follower->State().visible_generation(), 10U);
  // Its table was in memory only.
  leader->KillNow();
  leader = Lead("none");
  ASSERT_TRUE(leader->Update(Announcement(100, 1, 6)).ok());
  EXPECT_TRUE(
      Await([&] { return follower->Metric("planb_store_lag_seconds") > 4; }));
  EXPECT_EQ(follower->State().visible_generation(), 10U);
  EXPECT_EQ(follower->Lookup("2001:db8:0::1"), 5U);
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(leader->Update(Announcement(100 + i, 1, 7)).ok());
  }
  ExpectSame(*leader, *follower);
  EXPECT_EQ(follower->Lookup("2001:db8:0::1"), kNoRoute);
  EXPECT_TRUE(
      Await([&] { return follower->Metric("planb_store_lag_seconds") < 2; }));
}

// Takes 10 s: a start waits that long for the other server.
TEST_F(Followers, DoNotStartWithoutTheOtherServer) {
  StoredServer alone("none", {absl::StrCat("--follow=unix:", link_)});
  EXPECT_FALSE(alone.Begins());
  EXPECT_TRUE(absl::StrContains(OneLine(alone.process()), "following"))
      << alone.process().Log();
}

// It takes the watch and sends nothing. The follower waits for 3 s, because it
// might have a cache.
TEST_F(Followers, DoNotWaitForEverForATable) {
  const FakeLeader leader(
      link_, [](auto& tables) { tables.add_tables()->set_name("default"); },
      [](const auto&, auto&) {});
  StoredServer follower("none", {absl::StrCat("--follow=unix:", link_),
                                 "--cache=" + TempPath("no_cache")});
  EXPECT_FALSE(follower.Begins());
  EXPECT_TRUE(absl::StrContains(OneLine(follower.process()),
                                "nothing of table default came"))
      << follower.process().Log();
}

// The name would lead out of the directory of the cache.
TEST_F(Followers, DoNotTakeNamesThatNoTableMayHave) {
  const FakeLeader other(
      link_, [](auto& tables) { tables.add_tables()->set_name("../x"); },
      [](const auto&, auto& writer) {
        writer.Write(FakeLeader::Generation(1, /*reset=*/true, {}));
      });
  StoredServer follower("none", {absl::StrCat("--follow=unix:", link_)});
  EXPECT_FALSE(follower.Begins());
  EXPECT_TRUE(absl::StrContains(OneLine(follower.process()),
                                "\"../x\" is no name of a table"))
      << follower.process().Log();
}

// An update with a reserved next hop, and tables that are made with one or have
// a prefix twice.
TEST_F(Followers, SurviveContentsThatNoTableCanHave) {
  const Prefix prefix = Prefix::Parse("::/0").value();
  std::atomic<bool> more = false;
  const FakeLeader leader(
      link_,
      [&](auto& tables) {
        tables.add_tables()->set_name("default");
        if (!more) return;
        for (const char* name : {"none", "undecided", "twice"}) {
          tables.add_tables()->set_name(name);
        }
      },
      [&](const auto& request, auto& writer) {
        const std::string& table = request.table();
        std::vector<Route> routes;
        if (table == "none") routes = {{prefix, kNoRoute}};
        if (table == "undecided") routes = {{prefix, kUndecided}};
        if (table == "twice") routes = {{prefix, 1}, {prefix, 2}};
        writer.Write(FakeLeader::Generation(1, /*reset=*/true, routes));
        if (table != "default") return;
        while (!more) absl::SleepFor(absl::Milliseconds(5));
        routes = {{prefix, kUndecided}};
        writer.Write(FakeLeader::Generation(2, /*reset=*/false, routes));
      });
  const auto follower = Follow({kMetrics});
  more = true;
  EXPECT_TRUE(Await([&] {
    return follower->Metric("planb_store_tables_missing") == 3 &&
           follower->Metric("planb_store_unreadable{table=\"default\"}") == 1;
  })) << follower->process().Log();
  EXPECT_EQ(follower->State().visible_generation(), 1U);
}

// The other server has a place for two watches.
TEST_F(Followers, TellOfTablesThatTheyLack) {
  const auto leader = Lead("none", {"--max_watchers=2"});
  const auto follower = Follow({kMetrics});
  const auto missing = [&] {
    return follower->Metric("planb_store_tables_missing");
  };
  EXPECT_EQ(missing(), 0);
  for (const char* name : {"blue", "red"}) {
    grpc::ClientContext call;
    v1::CreateTableRequest request;
    request.set_table(name);
    v1::Table table;
    ASSERT_TRUE(leader->table().CreateTable(&call, request, &table).ok());
  }
  EXPECT_TRUE(Await([&] { return missing() == 1; }));
  EXPECT_TRUE(Await([&] {
    const std::string log = follower->process().Log();
    return absl::StrContains(log, "a table cannot be followed") &&
           absl::StrContains(log, "table=red");
  })) << follower->process().Log();
  grpc::ClientContext call;
  v1::DeleteTableRequest request;
  request.set_table("blue");
  v1::DeleteTableResponse deleted;
  ASSERT_TRUE(leader->table().DeleteTable(&call, request, &deleted).ok());
  EXPECT_TRUE(Await([&] { return missing() == 0; }));
  EXPECT_TRUE(Await([&] {
    return absl::StrContains(follower->process().Log(),
                             "a table is followed after all");
  }));
}

TEST_F(Followers, NameTheLimitThatATableIsOver) {
  const std::string limit = "--max_routes=5";
  const std::string over =
      "planb_over_limit{table=\"default\",limit=\"routes\"}";
  const std::string store = NewStorePath("limit");
  auto leader = Lead(store, {kMetrics});
  ASSERT_TRUE(leader->Update(Announcement(0, 20, 5)).ok());
  EXPECT_EQ(leader->Metric(over), 0);
  EXPECT_EQ(leader->End(), 0);
  // The server that had it under a higher limit serves it.
  leader = Lead(store, {kMetrics, limit});
  EXPECT_EQ(leader->Metric(over), 1);
  EXPECT_EQ(leader->Lookup("2001:db8:0::1"), 5U);
  EXPECT_TRUE(absl::StrContains(leader->process().Log(),
                                "more routes than --max_routes allows"));
  StoredServer refuses("none", {limit, absl::StrCat("--follow=unix:", link_)});
  EXPECT_FALSE(refuses.Begins());
  EXPECT_TRUE(absl::StrContains(
      OneLine(refuses.process()),
      "table default has 20 routes; the limit here is 5 (--max_routes)"))
      << refuses.process().Log();
  const auto follower = Follow({kMetrics});
  ExpectSame(*leader, *follower);
  EXPECT_EQ(follower->Metric(over), 0);
  v1::UpdateRoutesRequest withdrawal;
  for (uint32_t i = 0; i < 15; ++i) {
    AddChange(absl::StrCat("2001:db8:", absl::Hex(i), "::/48"), kNoRoute,
              withdrawal);
  }
  ASSERT_TRUE(leader->Update(withdrawal).ok());
  EXPECT_EQ(leader->Metric(over), 0);
}

TEST_F(Followers, SayWhyTheyLackATable) {
  std::atomic<bool> more = false;
  const FakeLeader leader(
      link_,
      [&](auto& tables) {
        tables.add_tables()->set_name("default");
        if (!more) return;
        v1::Table& blue = *tables.add_tables();
        blue.set_name("blue");
        blue.set_routes_v6(20);
      },
      [&](const auto&, auto& writer) {
        writer.Write(FakeLeader::Generation(1, /*reset=*/true, {}));
      });
  const auto follower = Follow({kMetrics, "--max_routes=5"});
  more = true;
  EXPECT_TRUE(Await(
      [&] { return follower->Metric("planb_store_tables_missing") == 1; }));
  grpc::ClientContext call;
  v1::GetTableRequest request;
  request.set_table("blue");
  v1::Table table;
  const grpc::Status absent =
      follower->table().GetTable(&call, request, &table);
  EXPECT_EQ(absent.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(absl::StrContains(absent.error_message(),
                                "table blue has 20 routes; the limit here is 5 "
                                "(--max_routes)"))
      << absent.error_message();
}

// Takes 4 s: until the lag shows that no server is followed.
TEST_F(Followers, StartFromTheirCacheWithoutTheOtherServer) {
  const std::string cache = "--cache=" + TempPath("follower_cache");
  const std::string store = NewStorePath("cache");
  auto leader = Lead(store);
  ASSERT_TRUE(leader->Update(Announcement(0, 20, 5)).ok());
  {
    const auto follower = Follow({cache});
    ExpectSame(*leader, *follower);
    EXPECT_EQ(follower->End(), 0);
  }
  ASSERT_TRUE(leader->Update(Announcement(0, 1, 6)).ok());
  leader->KillNow();

  const auto follower = Follow({cache, kMetrics});
  EXPECT_EQ(follower->Lookup("2001:db8:0::1"), 5U);
  EXPECT_EQ(follower->Update(Announcement(1, 1, 6)).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(
      Await([&] { return follower->Metric("planb_store_lag_seconds") > 2; }));
  // One server at a time uses the directory.
  StoredServer second("none", {cache, absl::StrCat("--follow=unix:", link_)});
  EXPECT_FALSE(second.Begins());
  EXPECT_TRUE(absl::StrContains(OneLine(second.process()), "in use"));

  leader = Lead(store);
  ASSERT_TRUE(leader->Update(Announcement(30, 1, 7)).ok());
  ExpectSame(*leader, *follower);
  EXPECT_EQ(follower->Lookup("2001:db8:0::1"), 6U);
  EXPECT_TRUE(
      Await([&] { return follower->Metric("planb_store_lag_seconds") < 2; }));
}

// PLANB_STORM_SECONDS makes it longer.
TEST_F(Followers, AgreeAfterAStorm) {
  const absl::Duration length =
      absl::Seconds(FromEnvironment("PLANB_STORM_SECONDS", 1));
  const std::string store = NewStorePath("storm");
  auto leader = Lead(store);
  std::vector<std::unique_ptr<StoredServer>> followers;
  for (int i = 0; i < 3; ++i) followers.push_back(Follow());
  std::mt19937_64 random(4);
  const absl::Time end = absl::Now() + length;
  while (absl::Now() < end) {
    for (uint64_t i = random() % 200; i > 0; --i) {
      UpdateAtRandom(random, *leader);
    }
    StoredServer& any = *followers[random() % followers.size()];
    switch (random() % 3) {
      case 0:
        leader->KillNow();
        leader = Lead(store);
        break;
      case 1:
        any.process().Kill(SIGSTOP);
        for (uint64_t i = random() % 200; i > 0; --i) {
          UpdateAtRandom(random, *leader);
        }
        any.process().Kill(SIGCONT);
        break;
      default:
        any.KillNow();
        for (auto& follower : followers) {
          if (follower.get() == &any) follower = Follow();
        }
    }
  }
  for (const auto& follower : followers) ExpectSame(*leader, *follower);
}

}  // namespace
}  // namespace planb::server
