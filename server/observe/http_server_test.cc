// SPDX-License-Identifier: Apache-2.0

// Valid and malformed requests, through sockets.

#include "server/observe/http_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/await.h"
#include "server/testing/http_get.h"

namespace planb::server {
namespace {

// Longer than any test.
constexpr absl::Duration kNever = absl::Hours(1);

std::unique_ptr<HttpServer> Serve(const std::string& address = "127.0.0.1:0",
                                  HttpLimits limits = {}) {
  auto server = HttpServer::Start(
      address,
      {{"/", [](const auto&) { return HttpReply{.body = "home\n"}; }},
       {"/exhausted", [](const auto&) -> HttpReply { throw std::bad_alloc(); }},
       {"/large",
        [](const auto&) {
          return HttpReply{.body = std::string(8 << 20, 'x')};
        }},
       {"/no",
        [](const auto&) {
          return HttpReply{
              .status = 503, .content_type = "text/html", .body = "not now\n"};
        }}},
      limits);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}

TEST(HttpServer, AnswersGetAndHead) {
  const auto server = Serve();
  const std::string got = HttpGet(server->port(), "/");
  EXPECT_TRUE(absl::StartsWith(got, "HTTP/1.1 200 ")) << got;
  EXPECT_TRUE(absl::StrContains(got, "Content-Length: 5\r\n")) << got;
  EXPECT_TRUE(absl::StrContains(got, "nosniff")) << got;
  EXPECT_EQ(BodyOf(got), "home\n");
  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/?a=b")), "home\n");

  const std::string head = HttpCall(server->port(), "HEAD", "/");
  EXPECT_TRUE(absl::StartsWith(head, "HTTP/1.1 200 ")) << head;
  EXPECT_TRUE(absl::StrContains(head, "Content-Length: 5\r\n")) << head;
  EXPECT_EQ(BodyOf(head), "");

  const std::string no = HttpGet(server->port(), "/no");
  EXPECT_TRUE(absl::StartsWith(no, "HTTP/1.1 503 ")) << no;
  EXPECT_TRUE(absl::StrContains(no, "Content-Type: text/html\r\n")) << no;
  EXPECT_EQ(BodyOf(no), "not now\n");

  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/large")).size(), size_t{8} << 20);
}

TEST(HttpServer, SurvivesAPageWithoutMemory) {
  const auto server = Serve();
  EXPECT_TRUE(
      absl::StartsWith(HttpGet(server->port(), "/exhausted"), "HTTP/1.1 503 "));
  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/")), "home\n");
}

TEST(HttpServer, RefusesUnknownPathsAndMethods) {
  const auto server = Serve();
  const auto starts = [&](const char* method, const char* path,
                          const char* with) {
    const std::string got = HttpCall(server->port(), method, path);
    EXPECT_TRUE(absl::StartsWith(got, with)) << method << " " << path << got;
    return got;
  };
  starts("GET", "/other", "HTTP/1.1 404 ");
  starts("GET", "/../etc/passwd", "HTTP/1.1 404 ");
  starts("GET", "//", "HTTP/1.1 404 ");
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}) {
    const std::string got = starts(method, "/", "HTTP/1.1 405 ");
    EXPECT_TRUE(absl::StrContains(got, "Allow: GET, HEAD\r\n")) << got;
  }
  starts("BREW", "/", "HTTP/1.1 501 ");

  const int posts = HttpConnect(server->port());
  HttpSend(posts, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(absl::StartsWith(HttpReceive(posts), "HTTP/1.1 405 "));
}

TEST(HttpServer, SurvivesMalformedRequests) {
  const auto server = Serve();
  for (const std::string& nonsense :
       {std::string("\0\x01\xff\r\n\r\n", 7), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"),
        absl::StrCat("GET /", std::string(1 << 20, 'a')),
        absl::StrCat("GET / HTTP/1.1\r\n", std::string(1 << 20, 'a')),
        std::string("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    const int client = HttpConnect(server->port());
    HttpSend(client, nonsense);
    shutdown(client, SHUT_WR);
    const std::string reply = HttpReceive(client);
    EXPECT_FALSE(absl::StrContains(reply, "home")) << nonsense.substr(0, 40);
  }
  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/")), "home\n");
}

TEST(HttpServer, EndsConnectionsAtTheirDeadline) {
  const auto server =
      Serve("127.0.0.1:0", {.max_lifetime = absl::Milliseconds(300)});
  const int silent = HttpConnect(server->port());
  const int slow = HttpConnect(server->port());
  ASSERT_TRUE(HttpSend(slow, "GET / HTTP/1.1\r\nHost: "));
  const int unread = HttpConnect(server->port());
  ASSERT_TRUE(HttpSend(unread, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(HttpReceive(silent), "");  // returns: the server closed
  EXPECT_EQ(HttpReceive(slow), "");
  close(unread);
}

TEST(HttpServer, ConnectionsBeyondTheLimitWait) {
  const auto server =
      Serve("127.0.0.1:0",
            {.max_connections = 2, .max_lifetime = absl::Milliseconds(300)});
  // On a machine that stands still, a request may reach its deadline.
  const auto answers = [&] {
    return SucceedsInThree(
        [&] { return BodyOf(HttpGet(server->port(), "/")) == "home\n"; });
  };
  std::vector<int> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(HttpConnect(server->port()));
  // Waits until the connections before it reach their deadline.
  EXPECT_TRUE(answers());
  // The first two were closed.
  EXPECT_EQ(HttpReceive(silent[0]), "");
  EXPECT_EQ(HttpReceive(silent[1]), "");
  close(silent[2]);
  close(silent[3]);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(answers());
}

// evhttp does not report the end of these.
TEST(HttpServer, ConnectionsThatCloseAtOnceLeaveRoom) {
  const auto server =
      Serve("127.0.0.1:0", {.max_connections = 64, .max_lifetime = kNever});
  for (int i = 0; i < 300; ++i) {
    const int client = HttpConnect(server->port());
    ASSERT_GE(client, 0);
    if (i % 2 == 1) HttpSend(client, "GET / HTTP/1.1\r\nHo");
    close(client);
  }
  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/")), "home\n");
}

TEST(HttpServer, DestructorEndsOpenConnections) {
  auto server = Serve();
  const int silent = HttpConnect(server->port());
  const int unread = HttpConnect(server->port());
  ASSERT_TRUE(HttpSend(unread, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(BodyOf(HttpGet(server->port(), "/")), "home\n");
  server.reset();
  EXPECT_EQ(HttpReceive(silent), "");
  EXPECT_LT(HttpReceive(unread).size(), size_t{8} << 20);
}

TEST(HttpServer, ListensOnBothFamilies) {
  if (const int probe = socket(AF_INET6, SOCK_STREAM, 0); probe < 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  } else {
    close(probe);
  }
  const auto all = Serve("[::]:0");
  EXPECT_EQ(BodyOf(HttpCall(all->port(), "GET", "/")), "home\n");
  EXPECT_EQ(BodyOf(HttpCall(all->port(), "GET", "/", true)), "home\n");
  const auto v6 = Serve("[::1]:0");
  EXPECT_EQ(BodyOf(HttpCall(v6->port(), "GET", "/", true)), "home\n");
  EXPECT_EQ(HttpCall(v6->port(), "GET", "/"), "");
}

TEST(HttpServer, RefusesMalformedAndUsedAddresses) {
  for (const char* address :
       {"", "9464", "localhost:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:70000",
        "999.0.0.1:1", "::1:80", "[::1]", "[::g]:1", "[1.2.3.4]:1", "[]:1",
        "1.2.3.4:-1", "1.2.3.4:+1", "1.2.3.4:1 "}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(HttpServer::Start(address, {}).status()))
        << address;
  }
  const auto first = Serve();
  const absl::Status taken =
      HttpServer::Start(absl::StrCat("127.0.0.1:", first->port()), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_TRUE(absl::StrContains(taken.message(), "in use")) << taken;
}

}  // namespace
}  // namespace planb::server
