// Looks at the sockets that this process has after a client and a server in it
// have connected.

#include "third_party/grpc_sockets/socket_options.h"

#include <dirent.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace planb {
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

// A server and a channel, connected to each other by `address`.
class Connected {
 public:
  Connected(const std::string& address, const SocketOptions& options) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    SetSocketOptions(options, builder);
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

 private:
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(SocketOptions, SetTheSendBufferOfUnixSockets) {
  for (const int size : {100'000, 150'000}) {
    const std::set<int> before = OpenFiles();
    const Connected connected(absl::StrCat("unix:///tmp/planb_", getpid()),
                              {.unix_send_buffer = size});
    const std::vector<int> both = Connections(true, before);
    ASSERT_EQ(both.size(), 2u);
    for (const int fd : both) EXPECT_EQ(SendBuffer(fd), size);
  }
}

TEST(SocketOptions, SetCongestionControlWithinTheHost) {
  const std::set<int> before = OpenFiles();
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "reno"});
  const std::vector<int> both = Connections(false, before);
  ASSERT_EQ(both.size(), 2u);
  for (const int fd : both) EXPECT_EQ(Congestion(fd), "reno");
}

TEST(SocketOptions, SurviveWhatTheKernelRefuses) {
  const Connected connected("127.0.0.1:0", {.loopback_congestion = "none"});
}

}  // namespace
}  // namespace planb
