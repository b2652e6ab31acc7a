// SPDX-License-Identifier: Apache-2.0

// Targets that cannot work are refused with a word of why; the others connect,
// or fail quickly.

#include "client/channel.h"

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
#include "base/testing/test_certificates.h"
#include "client/socket_options.h"
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

// What cannot work is told before a channel connects. What then works is in
// planbctl_tls_test.cc.

using ::testing::HasSubstr;

std::string Why(const TlsOptions& options) {
  const absl::Status status = MakeCredentials(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(MakeCredentials, TakesWhatIsGood) {
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

TEST(MakeCredentials, RefusesWhatIsNot) {
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

// Looks at the sockets that this process has after a channel of it has
// connected to a server in it.

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

TEST(SocketOptions, SurviveWhatTheKernelRefuses) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "none"});
  EXPECT_EQ(connected.Ends(false).size(), 2u);
}

}  // namespace

}  // namespace planb::client
