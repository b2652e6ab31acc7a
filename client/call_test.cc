// SPDX-License-Identifier: Apache-2.0

// Errors, retries, deadlines, channels, credentials and socket options.

#include "client/call.h"

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
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/testing/test_certificates.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client {

namespace {

// Errors keep their code, message and details. This side has cancelled nothing.

TEST(FromGrpc, EveryCodeKeepsItsNumberAndMessage) {
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status =
        FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "x"));
    EXPECT_EQ(status.code(), code == 1 ? absl::StatusCode::kUnavailable
                                       : static_cast<absl::StatusCode>(code));
    EXPECT_EQ(status.message(), "x");
    EXPECT_EQ(ErrorReason(status), "");
    EXPECT_FALSE(RetryDelay(status).has_value());
  }
  const grpc::Status odd(static_cast<grpc::StatusCode>(17), "x");
  EXPECT_EQ(FromGrpc(odd).code(), absl::StatusCode::kUnknown);
}

// As a server does to those that come as it ends.
TEST(CallUnary, ACallThatTheServerCancelsMayBeRepeated) {
  testing::MisbehavingProxy proxy(testing::SharedServer());
  proxy.EndCalls(0, grpc::Status(grpc::StatusCode::CANCELLED, "ends"), 1,
                 "GetTable");
  const TableClient client(proxy.Channel());
  const auto get = [&] {
    return client.GetTable("default", Deadline::After(absl::Seconds(60)));
  };
  const absl::Status ended = get().status();
  EXPECT_EQ(ended, absl::UnavailableError("ends"));
  EXPECT_TRUE(IsRetryable(ended));
  EXPECT_TRUE(get().ok());
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

TEST(FromGrpc, SaysAReasonOnce) {
  google::rpc::Status rich;
  google::rpc::BadRequest bad;
  for (const char* field : {"updates[17].prefix", "updates[18].op"}) {
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description("is wrong");
  }
  rich.add_details()->PackFrom(bad);
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                  "updates[17].prefix: is wrong (and 1 more)",
                                  rich.SerializeAsString()))
                .message(),
            "updates[17].prefix: is wrong (and 1 more) [updates[18].op: is "
            "wrong]");
  google::rpc::QuotaFailure quota;
  auto* limit = quota.add_violations();
  limit->set_subject("next_hops");
  limit->set_description("its limit is 20");
  rich.clear_details();
  rich.add_details()->PackFrom(quota);
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                  "next_hops: its limit is 20",
                                  rich.SerializeAsString()))
                .message(),
            "next_hops: its limit is 20");
}

TEST(FromGrpc, GarbageDetailsAreLeftOut) {
  const absl::Status status = FromGrpc(
      grpc::Status(grpc::StatusCode::INTERNAL, "broken", "\xff\xff garbage"));
  EXPECT_EQ(status.message(), "broken");
  EXPECT_EQ(ErrorReason(status), "");
}

// An error in band.
template <typename Error>
Error InBand(int code, const char* reason, const char* field) {
  Error error;
  error.set_code(code);
  error.set_reason(reason);
  error.set_field(field);
  error.set_message("oops");
  return error;
}

TEST(FromInBandErrors, SayReasonAndField) {
  for (const absl::Status& status :
       {FromBatchError(InBand<v1::BatchError>(3, "SOME_REASON", "some_field")),
        FromUpdateError(
            InBand<v1::UpdateError>(3, "SOME_REASON", "some_field"))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "oops [SOME_REASON; some_field]");
    EXPECT_EQ(ErrorReason(status), "SOME_REASON");
  }
  v1::BatchError named = InBand<v1::BatchError>(3, "SOME_REASON", "a_field");
  named.set_message("a_field: is wrong");
  EXPECT_EQ(FromBatchError(named).message(), "a_field: is wrong [SOME_REASON]");
  EXPECT_EQ(FromBatchError(InBand<v1::BatchError>(0, "", "")).code(),
            absl::StatusCode::kInternal);
}

// Attempts continue until the time is up, which starts at the first failure.

constexpr BackoffOptions kExact = {
    .initial = absl::Seconds(1), .max = absl::Seconds(4), .jitter = 0};
const absl::Status kGone = absl::UnavailableError("gone");

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

// The pauses after `count` failures in a row.
std::vector<absl::Duration> Pauses(const BackoffOptions& options, int count) {
  RetryPolicy retry(options, absl::InfiniteDuration());
  std::vector<absl::Duration> pauses;
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(retry.Failed(kGone, At(0)));
    pauses.push_back(retry.next_attempt() - At(0));
  }
  return pauses;
}

TEST(RetryPolicy, PausesDoubleUpToTheirBound) {
  EXPECT_THAT(Pauses(kExact, 5),
              ::testing::ElementsAre(absl::Seconds(1), absl::Seconds(2),
                                     absl::Seconds(4), absl::Seconds(4),
                                     absl::Seconds(4)));
  // Without a bound they do not overflow.
  EXPECT_GE(Pauses({.max = absl::InfiniteDuration(), .jitter = 0}, 200).back(),
            absl::Hours(24));
}

TEST(RetryPolicy, JitterShortensByAtMostItsShare) {
  const std::vector<absl::Duration> pauses = Pauses(
      {.initial = absl::Seconds(1), .max = absl::Seconds(1), .jitter = 0.25},
      1000);
  const std::set<absl::Duration> waits(pauses.begin(), pauses.end());
  EXPECT_GE(*waits.begin(), absl::Milliseconds(750));
  EXPECT_LE(*waits.rbegin(), absl::Seconds(1));
  // The waits cover the range, and hardly any wait repeats.
  EXPECT_LT(*waits.begin(), absl::Milliseconds(780));
  EXPECT_GT(*waits.rbegin(), absl::Milliseconds(970));
  EXPECT_GT(waits.size(), 900U);
}

TEST(RetryPolicy, ClampsInvalidOptions) {
  for (const absl::Duration wait : Pauses({.initial = -absl::Seconds(1),
                                   .max = absl::ZeroDuration(),
                                   .jitter = 7},
                                          100)) {
    EXPECT_GE(wait, absl::ZeroDuration());
    EXPECT_LE(wait, absl::Microseconds(100));
  }
}

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

TEST(RetryPolicy, TheServerMayAskForMoreTime) {
  RetryPolicy retry(kExact, absl::Minutes(1));
  const absl::Status busy = FromGrpc(testing::RetryLater(absl::Seconds(30)));
  EXPECT_TRUE(IsRetryable(busy));
  EXPECT_TRUE(retry.Failed(busy, At(0)));
  EXPECT_EQ(retry.next_attempt(), At(30));
}

TEST(IsRetryable, UnavailableOrRetryInfo) {
  EXPECT_TRUE(IsRetryable(kGone));
  EXPECT_FALSE(IsRetryable(absl::CancelledError("")));
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

TEST(MakeChannel, RefusesATargetThatCannotWork) {
  const absl::Status status = MakeChannel("[::1]:99999").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "server: \"[::1]:99999\" has no port of 1 to 65535");
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
  const auto channel = *MakeChannel(testing::SharedServer());
  EXPECT_TRUE(Connect(*channel, absl::Now() + absl::Minutes(1)).ok());
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
  const auto channel = *MakeChannel(testing::SharedServer());
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

// The connected sockets of this process, by the number that the kernel gives a
// socket once. Descriptors are used again when an earlier test's are closed.
std::map<uint64_t, int> Connections() {
  std::map<uint64_t, int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    uint64_t cookie = 0;
    socklen_t length = sizeof(cookie);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0) {
      found[cookie] = fd;
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
  Connected(const std::string& address, const SocketOptions& options) {
    const std::map<uint64_t, int> earlier = Connections();
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
                                           std::chrono::minutes(1)));
    for (const auto& [cookie, fd] : Connections()) {
      if (!earlier.contains(cookie)) ends_.push_back(fd);
    }
  }
  ~Connected() {
    server_->Shutdown();
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) continue;
  }

  // Both ends of the connection.
  const std::vector<int>& ends() const { return ends_; }

 private:
  std::vector<int> ends_;
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
    const std::vector<int>& ends = connected.ends();
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(std::count_if(ends.begin(), ends.end(),
                            [size](int fd) { return SendBuffer(fd) == size; }),
              1);
  }
}

TEST(SocketOptions, SetTheCongestionControlOfTcp) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "reno"});
  const std::vector<int>& ends = connected.ends();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(),
                          [](int fd) { return Congestion(fd) == "reno"; }));
}

TEST(SocketOptions, ARefusedOptionKeepsTheConnection) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "none"});
  EXPECT_EQ(connected.ends().size(), 2u);
}

}  // namespace
}  // namespace planb::client
