// SPDX-License-Identifier: Apache-2.0

#include "base/target.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace planb {
namespace {

TEST(Target, IsAHostWithAPortOrHasASchemeOfGrpc) {
  for (const char* target :
       {"localhost:1", "192.0.2.1:65535", "[::1]:50051", "[fe80::1%eth0]:5",
        "unix:///run/planb.sock", "unix:planb.sock", "unix:/run/planb.sock",
        "unix-abstract:planb", "dns:///localhost:5", "ipv4:127.0.0.1:5",
        "ipv6:[::1]:5"}) {
    EXPECT_TRUE(CheckTarget("--follow", target).ok()) << target;
  }
}

TEST(Target, RefusesWhatCannotWorkAndSaysWhy) {
  const std::string long_path = "unix:///" + std::string(108, 'x');
  for (const auto& [target, why] : {
           std::pair<std::string, std::string>("", "is empty"),
           {"unix:", "has no path"},
           {"unix://run/planb.sock", "unix:///absolute/path"},
           {long_path, "longer than 107"},
           {"dns:", "has no name"},
           {"localhost", "has no port"},
           {"localhost:", "has no port"},
           {"[::1]", "has no port"},
           {"[::1]50051", "has no port"},
           {":5", "has no host"},
           {"::1:50051", "has no host"},
           {"2001:db8::1:5", "has colons"},
           {"[::1:5", "has one bracket"},
           {"::1]:5", "has one bracket"},
           {"localhost:0", "has no port of 1 to 65535"},
           {"127.0.0.1:65536", "has no port of 1 to 65535"},
           {"[::1]:99999", "has no port of 1 to 65535"},
           {"[::1]:-1", "has no port of 1 to 65535"},
           {"localhost:50051.5", "has no port of 1 to 65535"},
           {"localhost:http", "has no port of 1 to 65535"},
           {"http://localhost:5", "is a URL or a path"},
           {"http://localhost", "is a URL or a path"},
           {"localhost/x:5", "is a URL or a path"},
       }) {
    const absl::Status status = CheckTarget("--follow", target);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target;
    EXPECT_TRUE(absl::StartsWith(status.message(), "--follow: \"" + target))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
  }
}

TEST(Target, LeavesThisHostUnlessItIsALoopbackAddress) {
  for (const char* here :
       {"unix:/s", "unix:///s", "unix-abstract:s", "localhost:1", "127.0.0.1:1",
        "127.255.0.1:1", "[::1]:1", "dns:///localhost:1", "dns:localhost",
        "dns://10.0.0.1/localhost:1", "ipv4:127.0.0.1:1",
        "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1", "ipv6:[::1]"}) {
    EXPECT_FALSE(LeavesHost(here)) << here;
  }
  for (const char* elsewhere :
       {"a:1", "10.0.0.1:1", "[2001:db8::1]:1", "localhost.example:1",
        "127.0.0.1.example:1", "dns:///a:1", "dns:a", "dns:///a/localhost.:1",
        "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv6:[2001:db8::1]:1", "0.0.0.0:1",
        "[::ffff:127.0.0.1]:1", "[::1:1"}) {
    EXPECT_TRUE(LeavesHost(elsewhere)) << elsewhere;
  }
}

}  // namespace
}  // namespace planb
