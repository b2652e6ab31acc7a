// SPDX-License-Identifier: Apache-2.0

// Errors, retries, deadlines, channels, credentials and socket options.

#include "client/call.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/testing/test_certificates.h"
#include "client/channel.h"
#include "client/testing/fake_server.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client {

namespace {

// Errors keep their code, message and details.

TEST(FromGrpc, OkIsOk) { EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok()); }

TEST(FromGrpc, PlainErrorKeepsCodeAndMessage) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no route to host"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no route to host");
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_FALSE(RetryDelay(status).has_value());
}

TEST(FromGrpc, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status(static_cast<grpc::StatusCode>(code), "x");
    EXPECT_EQ(static_cast<int>(FromGrpc(status).code()), code);
  }
  const grpc::Status odd(static_cast<grpc::StatusCode>(17), "x");
  EXPECT_EQ(FromGrpc(odd).code(), absl::StatusCode::kUnknown);
}

TEST(FromGrpc, DetailsBecomeReadable) {
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  info.set_reason("BAD_ROUTES");
  info.set_domain("planb");
  rich.add_details()->PackFrom(info);
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("updates[17].prefix");
  violation->set_description("host bits are set");
  bad.add_field_violations()->set_field("updates[18].op");
  rich.add_details()->PackFrom(bad);
  google::rpc::QuotaFailure quota;
  auto* limit = quota.add_violations();
  limit->set_subject("table:default");
  limit->set_description("too many waiters");
  rich.add_details()->PackFrom(quota);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  rich.add_details()->PackFrom(retry);

  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "2 bad fields",
                            rich.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "2 bad fields [BAD_ROUTES; updates[17].prefix: host bits are set; "
            "updates[18].op; table:default: too many waiters]");
  EXPECT_EQ(ErrorReason(status), "BAD_ROUTES");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(2500));
}

TEST(FromGrpc, GarbageDetailsAreLeftOut) {
  const absl::Status status = FromGrpc(
      grpc::Status(grpc::StatusCode::INTERNAL, "broken", "\xff\xff garbage"));
  EXPECT_EQ(status.message(), "broken");
  EXPECT_EQ(ErrorReason(status), "");
}

TEST(FromBatchError, SaysReasonAndField) {
  v1::BatchError error;
  error.set_code(3);
  error.set_reason("ADDRESSES_LENGTH");
  error.set_field("addresses_v6");
  error.set_message("17 bytes are no multiple of 16");
  const absl::Status status = FromBatchError(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "17 bytes are no multiple of 16 [ADDRESSES_LENGTH; addresses_v6]");
  EXPECT_EQ(ErrorReason(status), "ADDRESSES_LENGTH");
}

TEST(FromUpdateError, SaysReasonAndField) {
  v1::UpdateError error;
  error.set_code(5);
  error.set_reason("ROUTE_NOT_FOUND");
  error.set_field("updates[2].prefix");
  error.set_message("no route");
  const absl::Status status = FromUpdateError(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no route [ROUTE_NOT_FOUND; updates[2].prefix]");
  EXPECT_EQ(ErrorReason(status), "ROUTE_NOT_FOUND");
}

TEST(FromBatchError, WithoutACodeIsInternal) {
  v1::BatchError error;
  error.set_message("oops");
  EXPECT_EQ(FromBatchError(error).code(), absl::StatusCode::kInternal);
}

TEST(Backoff, DoublesUpToItsBoundAndStartsAnew) {
  Backoff backoff({.initial = absl::Milliseconds(10),
                   .max = absl::Milliseconds(70),
                   .jitter = 0});
  for (int round = 0; round < 2; ++round) {
    for (const int due : {10, 20, 40, 70, 70, 70}) {
      EXPECT_EQ(backoff.Next(), absl::Milliseconds(due));
    }
    backoff.Reset();
  }
}

TEST(Backoff, JitterShortensByAtMostItsShare) {
  std::set<absl::Duration> waits;
  Backoff backoff(
      {.initial = absl::Seconds(1), .max = absl::Seconds(1), .jitter = 0.25});
  for (int i = 0; i < 1000; ++i) waits.insert(backoff.Next());
  EXPECT_GE(*waits.begin(), absl::Milliseconds(750));
  EXPECT_LE(*waits.rbegin(), absl::Seconds(1));
  // The waits cover the range, and hardly any wait repeats.
  EXPECT_LT(*waits.begin(), absl::Milliseconds(780));
  EXPECT_GT(*waits.rbegin(), absl::Milliseconds(970));
  EXPECT_GT(waits.size(), 900U);
}

TEST(Backoff, ClampsInvalidOptions) {
  Backoff backoff(
      {.initial = -absl::Seconds(1), .max = absl::ZeroDuration(), .jitter = 7});
  for (int i = 0; i < 100; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, absl::ZeroDuration());
    EXPECT_LE(wait, absl::Microseconds(100));
  }
}

TEST(Backoff, NeverOverflows) {
  Backoff backoff({.max = absl::InfiniteDuration(), .jitter = 0});
  for (int i = 0; i < 200; ++i) backoff.Next();
  EXPECT_GE(backoff.Next(), absl::Hours(24));
}

// Attempts continue until the time is up, which starts at the first failure.

constexpr BackoffOptions kExact = {
    .initial = absl::Seconds(1), .max = absl::Seconds(4), .jitter = 0};
const absl::Status kGone = absl::UnavailableError("gone");

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(RetryPolicy, WaitsLongerAndGivesUpInTime) {
  RetryPolicy retry(kExact, absl::Seconds(10));
  EXPECT_EQ(retry.next_attempt(), absl::InfinitePast());
  int64_t now = 100;
  for (const int next : {101, 103, 107, 110}) {  // the last is cut short
    ASSERT_TRUE(retry.Failed(kGone, At(now)));
    ASSERT_EQ(retry.next_attempt(), At(next));
    now = next;
  }
  EXPECT_FALSE(retry.Failed(kGone, At(110)));
}

TEST(RetryPolicy, ASuccessStartsItAnew) {
  RetryPolicy retry(kExact, absl::Seconds(10));
  EXPECT_TRUE(retry.Failed(kGone, At(0)));
  EXPECT_TRUE(retry.Failed(kGone, At(9)));
  retry.Succeeded();
  EXPECT_TRUE(retry.Failed(kGone, At(1000)));
  EXPECT_EQ(retry.next_attempt(), At(1001));
}

TEST(RetryPolicy, OnceOrForEver) {
  RetryPolicy once(kExact, absl::ZeroDuration());
  EXPECT_FALSE(once.Failed(kGone, At(0)));
  RetryPolicy ever(kExact, absl::InfiniteDuration());
  for (int64_t now = 0; now < 1000; ++now) {
    EXPECT_TRUE(ever.Failed(kGone, At(now * 3600)));
  }
}

grpc::Status ComeAgain(int seconds) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  google::rpc::Status rich;
  rich.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                      rich.SerializeAsString());
}

TEST(RetryPolicy, TheServerMayAskForMoreTime) {
  RetryPolicy retry(kExact, absl::Minutes(1));
  const absl::Status busy = FromGrpc(ComeAgain(30));
  EXPECT_TRUE(IsRetryable(busy));
  EXPECT_TRUE(retry.Failed(busy, At(0)));
  EXPECT_EQ(retry.next_attempt(), At(30));
}

TEST(IsRetryable, UnavailableCancelledOrRetryInfo) {
  EXPECT_TRUE(IsRetryable(kGone));
  EXPECT_TRUE(IsRetryable(absl::CancelledError("")));
  EXPECT_FALSE(IsRetryable(absl::ResourceExhaustedError("")));
  EXPECT_FALSE(IsRetryable(absl::InternalError("")));
  EXPECT_FALSE(IsRetryable(absl::UnimplementedError("")));
}

// gRPC and MonotonicNow use the same clock.
TEST(ToGrpc, IsTheSameMoment) {
  const absl::Time now = MonotonicNow();
  const gpr_timespec grpc = gpr_now(GPR_CLOCK_MONOTONIC);
  const gpr_timespec ago =
      gpr_time_sub(grpc, gpr_time_from_seconds(60, GPR_TIMESPAN));
  EXPECT_LE(gpr_time_cmp(ToGrpc(now), grpc), 0);
  EXPECT_GT(gpr_time_cmp(ToGrpc(now), ago), 0);
}

TEST(ToGrpc, InfinitiesAreFarAway) {
  const absl::Time now = MonotonicNow();
  EXPECT_GT(gpr_time_cmp(ToGrpc(absl::InfiniteFuture()), ToGrpc(now)), 0);
  EXPECT_LT(gpr_time_cmp(ToGrpc(absl::InfinitePast()), ToGrpc(now)), 0);
}

// Malformed targets are refused with a reason; others connect or fail quickly.

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

TEST(Connect, FailsAtOnceWithoutAServer) {
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

// Unusable files are refused before a channel connects. planbctl_server_test.cc
// tests connections.

std::string Why(const TlsOptions& options) {
  const absl::Status status = MakeCredentials(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(MakeCredentials, TakesGoodFiles) {
  TestAuthority authority;
  TestTlsFiles files;
  files.SetAuthority(authority.certificate());
  files.SetIdentity(authority.Issue());
  EXPECT_TRUE(MakeCredentials(std::nullopt).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{}).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{.ca = files.ca()}).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{.ca = files.ca(),
                                         .cert = files.cert(),
                                         .key = files.key(),
                                         .server_name = "planb.example"})
                  .ok());
}

TEST(MakeCredentials, RefusesBadFiles) {
  TestAuthority authority;
  TestTlsFiles files;
  files.SetAuthority("no certificate");
  files.SetIdentity({authority.Issue().certificate, authority.Issue().key});
  EXPECT_EQ(Why({.ca = "/nonexistent"}),
            "tls_ca /nonexistent: No such file or directory");
  EXPECT_EQ(
      Why({.ca = files.ca()}),
      absl::StrCat("tls_ca ", files.ca(), ": holds no certificate in PEM"));
  EXPECT_EQ(Why({.cert = files.cert(), .key = files.key()}),
            absl::StrCat("tls_key ", files.key(),
                         ": is not the key of the certificate in tls_cert ",
                         files.cert()));
  EXPECT_THAT(Why({.cert = files.cert()}), HasSubstr("both or not at all"));
  EXPECT_THAT(Why({.key = files.key()}), HasSubstr("both or not at all"));
  files.SetIdentity(authority.Issue({.begins = absl::Now() - absl::Hours(2),
                                     .ends = absl::Now() - absl::Hours(1)}));
  EXPECT_THAT(Why({.cert = files.cert(), .key = files.key()}),
              HasSubstr("certificate 1 expired at"));
}

// Checks the sockets of this process after its channel has connected to its
// server.

std::set<int> OpenFiles() {
  std::set<int> files;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    files.insert(std::atoi(entry->d_name));
  }
  closedir(directory);
  return files;
}

// The connected Unix (or else the TCP) sockets that are open now and were not
// `before`.
std::vector<int> Connections(bool of_unix, const std::set<int>& before) {
  std::vector<int> found;
  for (const int fd : OpenFiles()) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (before.count(fd) == 0 &&
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        (peer.ss_family == AF_UNIX) == of_unix) {
      found.push_back(fd);
    }
  }
  return found;
}

int SendBuffer(int fd) {
  int size = 0;
  socklen_t length = sizeof(size);
  getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length);
  return size / 2;  // Linux doubles what is asked for.
}

std::string Congestion(int fd) {
  char name[16] = {};
  socklen_t length = sizeof(name);
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  return name;
}

// A server, and a channel with these options that has connected to it.
class Connected {
 public:
  Connected(const std::string& address, const SocketOptions& options)
      : before_(OpenFiles()) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    SetSocketOptions(options, arguments);
    channel_ = grpc::CreateCustomChannel(
        port > 1 ? absl::StrCat("127.0.0.1:", port) : address,
        grpc::InsecureChannelCredentials(), arguments);
    EXPECT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() +
                                           std::chrono::seconds(10)));
  }
  ~Connected() {
    server_->Shutdown();
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) continue;
  }

  // Both ends of the connection.
  std::vector<int> Ends(bool of_unix) const {
    return Connections(of_unix, before_);
  }

 private:
  const std::set<int> before_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The server's end keeps the host's defaults, so one end of two has the option.
TEST(SocketOptions, SetTheSendBufferOfUnixSockets) {
  for (const int size : {100'000, 150'000}) {
    const Connected connected(absl::StrCat("unix:///tmp/planb_", getpid()),
                              {.unix_send_buffer = size});
    const std::vector<int> ends = connected.Ends(true);
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(std::count_if(ends.begin(), ends.end(),
                            [size](int fd) { return SendBuffer(fd) == size; }),
              1);
  }
}

TEST(SocketOptions, SetTheCongestionControlOfTcp) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "reno"});
  const std::vector<int> ends = connected.Ends(false);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(),
                          [](int fd) { return Congestion(fd) == "reno"; }));
}

TEST(SocketOptions, ARefusedOptionKeepsTheConnection) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "none"});
  EXPECT_EQ(connected.Ends(false).size(), 2u);
}

}  // namespace
}  // namespace planb::client
