// Targets that cannot work are refused with a word of why; the others connect,
// or fail quickly.

#include "client/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

using ::testing::HasSubstr;

TEST(MakeChannel, TakesEveryFormOfTarget) {
  for (const char* target :
       {"unix:///run/planb/planb.sock", "unix:relative.sock", "localhost:50051",
        "127.0.0.1:50051", "[::1]:50051", "dns:///planb.example:1",
        "ipv4:127.0.0.1:50051", "ipv6:[::1]:50051"}) {
    EXPECT_TRUE(MakeChannel(target).ok()) << target;
  }
}

TEST(MakeChannel, RefusesWhatCannotWork) {
  const std::string long_path = "unix:///" + std::string(108, 'x');
  for (const auto& [target, why] : {
           std::pair<std::string, std::string>("", "is empty"),
           {"unix:", "has no path"},
           {"unix://run/planb.sock", "unix:///absolute/path"},
           {long_path, "longer than 107"},
           {"localhost", "has no port"},
           {"localhost:", "has no port"},
           {"[::1]", "has no port"},
           {"::1:50051", "[address]:port"},
       }) {
    const auto channel = MakeChannel(target);
    ASSERT_EQ(channel.status().code(), absl::StatusCode::kInvalidArgument)
        << target;
    EXPECT_THAT(std::string(channel.status().message()), HasSubstr(why));
  }
}

TEST(MakeChannel, RefusesTlsOnUnixSockets) {
  for (const char* target : {"unix:///run/planb/planb.sock", "unix:planb.sock",
                             "unix-abstract:planb"}) {
    const auto channel = MakeChannel(target, {.tls = TlsOptions{}});
    ASSERT_EQ(channel.status().code(), absl::StatusCode::kInvalidArgument)
        << target;
    EXPECT_THAT(std::string(channel.status().message()),
                HasSubstr("is a Unix socket, where no TLS is spoken"));
  }
  EXPECT_TRUE(MakeChannel("localhost:50051", {.tls = TlsOptions{}}).ok());
}

TEST(Connect, ToAServer) {
  testing::FakeServer server;
  const auto channel = *MakeChannel(server.target());
  EXPECT_TRUE(Connect(*channel, absl::Now() + absl::Seconds(10)).ok());
}

TEST(Connect, FailsAtOnceWhereNobodyListens) {
  const auto channel = *MakeChannel("unix:///nonexistent/planb.sock");
  const absl::Time start = absl::Now();
  const absl::Status status = Connect(*channel, start + absl::Seconds(60));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("No such file or directory"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(Connect, EndsAtTheDeadline) {
  testing::FakeServer server;
  const auto channel = *MakeChannel(server.target());
  EXPECT_EQ(Connect(*channel, absl::Now() - absl::Seconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace planb::client
