// Which addresses other hosts can reach. Binding them is in main_test.cc.

#include "server/listen.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace planb::server {
namespace {

TEST(CheckPlaintext, AllowsWhatStaysOnThisHost) {
  const std::vector<std::string> local = {
      "unix:///run/planb/planb.sock",
      "127.0.0.1:0",
      "127.1.2.3:50051",
      "localhost:50051",
      "[::1]:50051",
      "[0:0::1]:1",
      "unix:///a:50051",
  };
  EXPECT_TRUE(CheckPlaintext(local).ok()) << CheckPlaintext(local);
}

TEST(CheckPlaintext, RefusesWhatOtherHostsReach) {
  for (const char* address :
       {"[::]:50051", "0.0.0.0:50051", "192.0.2.1:0", "[2001:db8::1]:50051",
        "planb.example:50051", "localhost.example:1", "127.0.0.1.example:1",
        "128.0.0.1:1", "[::ffff:192.0.2.1]:1", "[::ffff:127.0.0.1]:1",
        "ipv4:0.0.0.0:50051", "*:50051", "[::1:50051", "dns:///localhost:1",
        "[::1%lo]:1", "::1:50051x:1"}) {
    const absl::Status status = CheckPlaintext({"127.0.0.1:0", address});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_TRUE(absl::StrContains(status.message(), address)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "--insecure")) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  }
}

TEST(CheckPlaintext, LeavesWhatIsNoAddressToOthers) {
  EXPECT_TRUE(CheckPlaintext({"nonsense", "", "host:port", ":1"}).ok());
}

}  // namespace
}  // namespace planb::server
