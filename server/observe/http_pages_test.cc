// SPDX-License-Identifier: Apache-2.0

// The pages of a real server, as scrapers, probes and browsers get them.

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "server/observe/statusz.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using absl::StartsWith;
using absl::StrContains;
using std::string_literals::operator""s;

std::string BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}

// What /statusz.json says.
statusz::ServerState StateOf(int port) {
  const std::string reply = HttpGet(port, "/statusz.json");
  EXPECT_TRUE(StartsWith(reply, "HTTP/1.1 200 ")) << reply;
  EXPECT_TRUE(StrContains(reply, "\r\nContent-Type: application/json"));
  statusz::ServerState state;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(BodyOf(reply), &state).ok())
      << reply;
  return state;
}

ServerOptions WithPages() {
  ServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  return options;
}

TEST(HttpPages, EachPathHasItsPage) {
  RunningServer running(WithPages());
  running.Announce({{"2001:db8::/32", 7}});
  const int port = running.server().metrics_port();
  const std::string metrics = HttpGet(port, "/metrics");
  EXPECT_TRUE(StartsWith(metrics, "HTTP/1.1 200 ")) << metrics;
  EXPECT_TRUE(StrContains(metrics, "version=0.0.4")) << metrics;
  EXPECT_TRUE(StrContains(
      metrics, "planb_routes{table=\"default\",family=\"ipv6\"} 1\n"));
  EXPECT_TRUE(StrContains(metrics, "planb_lookups_total 0\n"));
  EXPECT_FALSE(StrContains(metrics, "exposer_"));

  const std::string health = HttpGet(port, "/healthz");
  EXPECT_TRUE(StartsWith(health, "HTTP/1.1 200 ")) << health;
  const std::string ready = HttpGet(port, "/readyz");
  EXPECT_TRUE(StartsWith(ready, "HTTP/1.1 200 ")) << ready;
  EXPECT_TRUE(StrContains(ready, "\r\n\r\nready\n")) << ready;

  const std::string status = HttpGet(port, "/statusz");
  EXPECT_TRUE(StartsWith(status, "HTTP/1.1 200 ")) << status;
  EXPECT_TRUE(StrContains(status, "text/html")) << status;
  EXPECT_TRUE(BodyOf(status) == StatuszHtml());

  const std::string home = HttpGet(port, "/");
  for (const char* path :
       {"/metrics", "/healthz", "/readyz", "/statusz", "/statusz.json"}) {
    EXPECT_TRUE(StrContains(home, absl::StrCat("href=\"", path, "\"")));
  }
  for (const char* path : {"/other", "/statusz/", "/statusz.html"}) {
    EXPECT_TRUE(StartsWith(HttpGet(port, path), "HTTP/1.1 404 ")) << path;
  }
}

// A browser runs the script of /statusz, and nothing on any other page.
TEST(HttpPages, PolicyForbidsWhatAPageDoesNotNeed) {
  RunningServer running(WithPages());
  const int port = running.server().metrics_port();
  for (const char* path :
       {"/", "/metrics", "/statusz", "/statusz.json", "/other"}) {
    const std::string reply = HttpGet(port, path);
    EXPECT_TRUE(
        StrContains(reply, "\r\nContent-Security-Policy: default-src 'none'"))
        << reply;
    EXPECT_EQ(StrContains(reply, "script-src"), path == "/statusz"s) << reply;
  }
  EXPECT_TRUE(StrContains(HttpGet(port, "/statusz"), StatuszSources()));
}

TEST(HttpPages, StatuszJsonIsTheServersState) {
  RunningServer running(WithPages());
  running.Announce({{"2001:db8::/32", 7}, {"10.0.0.0/8", 7}});
  const int port = running.server().metrics_port();
  statusz::ServerState state = StateOf(port);
  EXPECT_EQ(state.not_ready(), "");
  EXPECT_GE(state.unix_seconds(), state.started_unix_seconds());
  EXPECT_GT(state.started_unix_seconds(), 1.7e9);
  ASSERT_EQ(state.tables_size(), 1);
  EXPECT_EQ(state.tables(0).name(), "default");
  EXPECT_EQ(state.tables(0).accepted_generation(), 1U);
  EXPECT_EQ(state.tables(0).visible_generation(), 1U);
  EXPECT_EQ(state.tables(0).routes_v6(), 1U);
  EXPECT_EQ(state.tables(0).routes_v4(), 1U);
  EXPECT_FALSE(state.tables(0).kernel().empty());
  ASSERT_GE(state.rebuilds_size(), 1);
  EXPECT_EQ(state.rebuilds(0).table(), "default");
  EXPECT_EQ(state.rebuilds(0).generation(), 1);
  EXPECT_EQ(state.rebuilds(0).error(), "");
  ASSERT_EQ(state.streams_size(), 6);
  EXPECT_EQ(state.streams(0).kind(), "BatchLookup");
  EXPECT_EQ(state.streams(0).limit(), 10'000);
  std::string process;
  for (const statusz::Fact& fact : state.process())
    process += fact.name() + " ";
  for (const char* name :
       {"version", "compiler", "kernel", "gRPC", "process id"}) {
    EXPECT_TRUE(StrContains(process, name)) << name;
  }
  // Counters grow, and so does the clock.
  EXPECT_EQ(state.lookups().addresses(), 0);
  v1::LookupRequest request;
  request.add_addresses()->set_text("2001:db8::1");
  request.add_addresses()->set_text("192.0.2.1");
  grpc::ClientContext context;
  v1::LookupResponse response;
  ASSERT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
  const double before = state.monotonic_seconds();
  state = StateOf(port);
  EXPECT_GT(state.monotonic_seconds(), before);
  EXPECT_EQ(state.lookups().addresses(), 2);
  EXPECT_EQ(state.lookups().misses(), 1);
  EXPECT_EQ(state.lookups().batches(), 1);
  const auto& buckets = state.lookups().batch_seconds();
  ASSERT_FALSE(buckets.empty());
  EXPECT_EQ(buckets.rbegin()->batches(), 1);
}

TEST(HttpPages, ReadinessGivesTheReason) {
  ServerOptions options = WithPages();
  options.empty_table_ready = false;
  options.initial.generate_v6 = 0;
  RunningServer running(std::move(options));
  const int port = running.server().metrics_port();
  const std::string empty = HttpGet(port, "/readyz");
  EXPECT_TRUE(StartsWith(empty, "HTTP/1.1 503 ")) << empty;
  EXPECT_TRUE(StrContains(empty, "no visible route\n")) << empty;
  EXPECT_TRUE(StartsWith(HttpGet(port, "/healthz"), "HTTP/1.1 200 "));
  EXPECT_TRUE(StartsWith(StateOf(port).not_ready(), "the default table"));
  running.Announce({{"192.0.2.0/24", 1}});
  EXPECT_TRUE(StartsWith(HttpGet(port, "/readyz"), "HTTP/1.1 200 "));
  // A server that drained stays not ready until the process ends.
  running.server().Drain(absl::Seconds(5));
  const std::string draining = HttpGet(port, "/readyz");
  EXPECT_TRUE(StartsWith(draining, "HTTP/1.1 503 ")) << draining;
  EXPECT_TRUE(StrContains(draining, "draining")) << draining;
}

TEST(HttpPages, AnswerWhileRoutesAreLoaded) {
  // The reader of a pipe waits for its writer.
  const std::string pipe = TempPath("pages.fifo");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ServerProcess process({absl::StrCat("--listen=unix://", TempPath("p.sock")),
                         "--metrics_address=127.0.0.1:0",
                         absl::StrCat("--routes=", pipe)});
  const int port = process.AwaitPortOf("metrics");
  ASSERT_NE(port, 0) << process.Log();
  EXPECT_TRUE(StartsWith(HttpGet(port, "/healthz"), "HTTP/1.1 200 "));
  for (const char* path :
       {"/readyz", "/metrics", "/statusz", "/statusz.json"}) {
    const std::string reply = HttpGet(port, path);
    EXPECT_TRUE(StartsWith(reply, "HTTP/1.1 503 ")) << path << reply;
    EXPECT_TRUE(StrContains(reply, "starting: ")) << path << reply;
  }
  std::ofstream(pipe) << "2001:db8::/32 1\n";
  ASSERT_TRUE(process.AwaitServing()) << process.Log();
  for (const char* path :
       {"/readyz", "/metrics", "/statusz", "/statusz.json"}) {
    EXPECT_TRUE(StartsWith(HttpGet(port, path), "HTTP/1.1 200 ")) << path;
  }
  bool found = false;
  const statusz::ServerState state = StateOf(port);
  for (const statusz::Flag& flag : state.flags()) {
    if (flag.name() != "routes") {
      if (flag.is_default()) continue;
      EXPECT_TRUE(flag.name() == "listen" || flag.name() == "metrics_address")
          << flag.name();
      continue;
    }
    found = true;
    EXPECT_EQ(flag.value(), pipe);
    EXPECT_FALSE(flag.is_default());
  }
  EXPECT_TRUE(found);
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  unlink(pipe.c_str());
}

}  // namespace
}  // namespace planb::server
