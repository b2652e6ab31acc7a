// SPDX-License-Identifier: Apache-2.0

// The pages of a real server, as scrapers and probes get them.

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
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using absl::StartsWith;
using absl::StrContains;

ServerOptions WithPages() {
  ServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  return options;
}

TEST(HttpPages, AreThere) {
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
  EXPECT_TRUE(StrContains(status, "<td>default</td>")) << status;
  EXPECT_TRUE(StrContains(status, "published")) << "no rebuild is shown";

  const std::string home = HttpGet(port, "/");
  for (const char* path : {"/metrics", "/healthz", "/readyz", "/statusz"}) {
    EXPECT_TRUE(StrContains(home, absl::StrCat("href=\"", path, "\"")));
  }
  EXPECT_TRUE(StartsWith(HttpGet(port, "/other"), "HTTP/1.1 404 "));
}

TEST(HttpPages, ReadinessSaysWhyNot) {
  ServerOptions options = WithPages();
  options.empty_table_ready = false;
  options.initial.generate_v6 = 0;
  RunningServer running(std::move(options));
  const int port = running.server().metrics_port();
  const std::string empty = HttpGet(port, "/readyz");
  EXPECT_TRUE(StartsWith(empty, "HTTP/1.1 503 ")) << empty;
  EXPECT_TRUE(StrContains(empty, "no visible route\n")) << empty;
  EXPECT_TRUE(StartsWith(HttpGet(port, "/healthz"), "HTTP/1.1 200 "));
  EXPECT_TRUE(StrContains(HttpGet(port, "/statusz"), "Not ready: the default"));
  running.Announce({{"192.0.2.0/24", 1}});
  EXPECT_TRUE(StartsWith(HttpGet(port, "/readyz"), "HTTP/1.1 200 "));
  // What drained stays so until the process ends, and says so.
  running.server().Drain(absl::Seconds(5));
  const std::string draining = HttpGet(port, "/readyz");
  EXPECT_TRUE(StartsWith(draining, "HTTP/1.1 503 ")) << draining;
  EXPECT_TRUE(StrContains(draining, "draining")) << draining;
}

TEST(HttpPages, AreThereWhileRoutesAreLoaded) {
  // Who reads a pipe waits for who writes it.
  const std::string pipe = TempPath("pages.fifo");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ServerProcess process({absl::StrCat("--listen=unix://", TempPath("p.sock")),
                         "--metrics_address=127.0.0.1:0",
                         absl::StrCat("--routes=", pipe)});
  const int port = process.AwaitPortOf("metrics");
  ASSERT_NE(port, 0) << process.Log();
  EXPECT_TRUE(StartsWith(HttpGet(port, "/healthz"), "HTTP/1.1 200 "));
  for (const char* path : {"/readyz", "/metrics", "/statusz"}) {
    const std::string reply = HttpGet(port, path);
    EXPECT_TRUE(StartsWith(reply, "HTTP/1.1 503 ")) << path << reply;
    EXPECT_TRUE(StrContains(reply, "starting: ")) << path << reply;
  }
  std::ofstream(pipe) << "2001:db8::/32 1\n";
  ASSERT_TRUE(process.AwaitServing()) << process.Log();
  for (const char* path : {"/readyz", "/metrics", "/statusz"}) {
    EXPECT_TRUE(StartsWith(HttpGet(port, path), "HTTP/1.1 200 ")) << path;
  }
  // Flags are shown as they are in force.
  const std::string status = HttpGet(port, "/statusz");
  EXPECT_TRUE(StrContains(status, "<dt>--routes</dt>")) << status;
  EXPECT_TRUE(StrContains(status, pipe)) << status;
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  unlink(pipe.c_str());
}

}  // namespace
}  // namespace planb::server
