#include "server/transport.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

TEST(CheckTransport, NamesWhatIsWrong) {
  EXPECT_TRUE(CheckTransport({}).ok());
  const std::vector<std::pair<TransportOptions, const char*>> wrong = {
      {{.max_message_bytes = 0}, "max_message_bytes"},
      {{.memory_quota_bytes = 0}, "memory_quota_bytes"},
      {{.max_control_calls = 0}, "max_control_calls"},
      {{.max_connection_streams = -1}, "max_connection_streams"},
      {{.keepalive_time = absl::ZeroDuration()}, "keepalive_time"},
      {{.keepalive_timeout = -absl::Seconds(1)}, "keepalive_timeout"},
      {{.min_ping_interval = absl::ZeroDuration()}, "min_ping_interval"},
      {{.max_connection_idle = absl::ZeroDuration()}, "max_connection_idle"},
      {{.max_connection_age = absl::ZeroDuration()}, "max_connection_age"},
      {{.max_connection_age_grace = absl::ZeroDuration()},
       "max_connection_age_grace"},
  };
  for (const auto& [options, name] : wrong) {
    const absl::Status status = CheckTransport(options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
  }
}

std::unique_ptr<RunningServer> Serve(const TransportOptions& transport) {
  ServerOptions options;
  options.transport = transport;
  return std::make_unique<RunningServer>(options);
}

TEST(Transport, AMessageTooLargeEndsItsCallAlone) {
  const auto running = Serve({.max_message_bytes = 10'000});
  grpc::ClientContext large, small;
  v1::BatchLookupRequest request;
  v1::BatchLookupResponse response;
  const auto refused = running->lookup().BatchLookup(&large);
  const auto other = running->lookup().BatchLookup(&small);
  request.set_addresses_v6(std::string(16'000, '\1'));
  refused->Write(request);
  EXPECT_FALSE(refused->Read(&response));
  EXPECT_EQ(refused->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  request.set_addresses_v6(std::string(1'600, '\1'));
  EXPECT_TRUE(other->Write(request));
  EXPECT_TRUE(other->Read(&response));
  EXPECT_EQ(response.next_hops().size(), 400u);
  other->WritesDone();
  EXPECT_TRUE(other->Finish().ok());
}

// True if the channel leaves the state READY within ten seconds.
bool IsClosed(grpc::Channel& channel) {
  EXPECT_TRUE(channel.WaitForConnected(std::chrono::system_clock::now() +
                                       std::chrono::seconds(10)));
  return channel.WaitForStateChange(
      GRPC_CHANNEL_READY,
      std::chrono::system_clock::now() + std::chrono::seconds(10));
}

TEST(Transport, IdleConnectionsAreClosed) {
  const auto running = Serve({.max_connection_idle = absl::Milliseconds(200)});
  EXPECT_TRUE(IsClosed(*running->tcp()));
}

TEST(Transport, OldConnectionsAreClosedAndCallsFindAnother) {
  const auto running =
      Serve({.max_connection_age = absl::Milliseconds(200),
             .max_connection_age_grace = absl::Milliseconds(200)});
  EXPECT_TRUE(IsClosed(*running->tcp()));
  EXPECT_EQ(running->Announce({{"::/0", 1}}), 1u);
}

}  // namespace
}  // namespace planb::server
