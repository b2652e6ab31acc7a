// Looks at the sockets that this process has after a channel of it has
// connected to a server in it.

#include "client/socket_options.h"

#include <dirent.h>
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

namespace planb::client {
namespace {

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
  const Connected connected("127.0.0.1:0", {.congestion = "reno"});
  const std::vector<int> ends = connected.Ends(false);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(),
                          [](int fd) { return Congestion(fd) == "reno"; }));
}

TEST(SocketOptions, SurviveWhatTheKernelRefuses) {
  const Connected connected("127.0.0.1:0", {.congestion = "none"});
  EXPECT_EQ(connected.Ends(false).size(), 2u);
}

}  // namespace
}  // namespace planb::client
