// SPDX-License-Identifier: Apache-2.0

#include "server/net/transport.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

TEST(CheckTransport, NamesWrongOption) {
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

TEST(Transport, TooLargeMessageEndsItsCallAlone) {
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

// True if the channel leaves the state READY.
bool IsClosed(grpc::Channel& channel) {
  const auto deadline = absl::ToChronoTime(absl::Now() + kPatience);
  EXPECT_TRUE(channel.WaitForConnected(deadline));
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, deadline);
}

TEST(Transport, ClosesIdleConnections) {
  const auto running = Serve({.max_connection_idle = absl::Milliseconds(200)});
  EXPECT_TRUE(IsClosed(*running->tcp()));
}

TEST(Transport, ClosesOldConnectionsAndCallsUseNewOnes) {
  const auto running = Serve({.max_connection_age = absl::Milliseconds(200),
                              .max_connection_age_grace = kPatience});
  EXPECT_TRUE(IsClosed(*running->tcp()));
  EXPECT_EQ(running->Announce({{"::/0", 1}}), 1u);
}

TEST(Transport, CallsBeyondLimitOfConnectionWait) {
  const auto running = Serve({.max_connection_streams = 1});
  grpc::ClientContext context;
  const auto stream = running->lookup().BatchLookup(&context);
  v1::BatchLookupResponse response;
  ASSERT_TRUE(stream->Write({}));
  ASSERT_TRUE(stream->Read(&response));
  const auto look_up = [&](std::chrono::milliseconds patience) {
    grpc::ClientContext next;
    next.set_deadline(std::chrono::system_clock::now() + patience);
    v1::LookupResponse answer;
    return running->lookup().Lookup(&next, {}, &answer).error_code();
  };
  EXPECT_EQ(look_up(std::chrono::milliseconds(300)),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  std::atomic<bool> answered = false;
  std::thread waiting([&] {
    EXPECT_EQ(look_up(std::chrono::seconds(60)), grpc::StatusCode::OK);
    answered = true;
  });
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_FALSE(answered);
  // Other connections are served: the limit is for each connection.
  EXPECT_EQ(running->Announce({{"::/0", 1}}), 1u);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
  waiting.join();
  EXPECT_TRUE(answered);
}

// The server's address for the client process of the test below.
constexpr char kServerOfClient[] = "PLANB_TEST_SERVER_OF_CLIENT";

// The client process: opens a stream, reports it, and waits for its end.
TEST(Transport, DISABLED_BeAClient) {
  const char* const target = std::getenv(kServerOfClient);
  ASSERT_NE(target, nullptr);
  const auto stub = v1::RouteLookup::NewStub(RunningServer::Connect(target));
  grpc::ClientContext context;
  const auto stream = stub->BatchLookup(&context);
  v1::BatchLookupResponse response;
  ASSERT_TRUE(stream->Write({}));
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_EQ(write(STDOUT_FILENO, "!", 1), 1);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Runs that client in its own process. Not thread-safe.
class ClientProcess {
 public:
  explicit ClientProcess(const std::string& target) {
    setenv(kServerOfClient, target.c_str(), 1);
    unsetenv("XML_OUTPUT_FILE");  // this process's; gtest has read it
    EXPECT_EQ(pipe(output_), 0);
    char self[] = "/proc/self/exe";
    char filter[] = "--gtest_filter=Transport.DISABLED_BeAClient";
    char all[] = "--gtest_also_run_disabled_tests";
    char* const arguments[] = {self, filter, all, nullptr};
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(output_[1], STDOUT_FILENO);
    execv(self, arguments);
    _exit(127);
  }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;
  ~ClientProcess() {
    close(output_[0]);
    close(output_[1]);
    if (pid_ <= 0) return;
    Kill(SIGKILL);
    Wait();
  }

  void Kill(int signal) const { kill(pid_, signal); }
  // Waits until its stream is open: its output then has an exclamation mark.
  // False if it is not to be.
  bool AwaitStream() {
    close(std::exchange(output_[1], -1));
    char byte = 0;
    while (byte != '!' && read(output_[0], &byte, 1) == 1) continue;
    return byte == '!';
  }
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  int output_[2];
  pid_t pid_;
};

// True if a stream is refused because another is open.
bool IsTaken(RunningServer& running) {
  bool open = false;
  grpc::Status ended;
  // This client may be late with its answer to a ping, too.
  EXPECT_TRUE(SucceedsInThree([&] {
    grpc::ClientContext context;
    const auto stream = running.lookup().BatchLookup(&context);
    v1::BatchLookupResponse response;
    stream->Write({});
    open = stream->Read(&response);
    stream->WritesDone();
    ended = stream->Finish();
    return ended.error_code() != grpc::StatusCode::UNAVAILABLE;
  }));
  EXPECT_TRUE(open ? ended.ok() : ReasonOf(ended) == "TOO_MANY_STREAMS")
      << ended.error_message();
  return !open;
}

TEST(Transport, ClosesConnectionsThatDoNotAnswerPings) {
  ServerOptions options;
  options.lookup.max_streams = 1;
  options.transport.keepalive_time = absl::Milliseconds(200);
  options.transport.keepalive_timeout = absl::Milliseconds(400);
  RunningServer running(options);
  // An attempt during which the machine holds up the client for as long as an
  // answer may take proves nothing.
  EXPECT_TRUE(SucceedsInThree([&] {
    ClientProcess client(absl::StrCat("127.0.0.1:", running.server().port(0)));
    if (!client.AwaitStream()) return false;
    // The client is idle but answers pings. Twice the time of a ping and of
    // its answer.
    absl::SleepFor(absl::Milliseconds(1200));
    if (!IsTaken(running)) return false;
    client.Kill(SIGSTOP);
    EXPECT_TRUE(Await([&] { return !IsTaken(running); }));
    client.Kill(SIGCONT);
    EXPECT_EQ(client.Wait(), 0) << "did not see the stream end";
    return true;
  }));
}

}  // namespace
}  // namespace planb::server
