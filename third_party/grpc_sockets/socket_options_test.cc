// Looks at the sockets that this process has after a client and a server in it
// have connected.

#include "third_party/grpc_sockets/socket_options.h"

#include <dirent.h>
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
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

// A server that nothing moves but Serve(), on the calling thread.
class IdleServer {
 public:
  IdleServer(const std::string& address, const SocketOptions& options,
             ServerSocketHooks hooks) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    SetSocketOptions(options, std::move(hooks), builder);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr) {
      service_.RequestCall(&context_, &call_, queue_.get(), queue_.get(), this);
    }
  }
  ~IdleServer() {
    if (server_ != nullptr) server_->Shutdown();
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) continue;
  }

  bool listens() const { return server_ != nullptr; }
  int port() const { return port_; }

  // Does what there is to do within a moment; whether a call came in.
  bool Serve() {
    void* tag;
    bool ok;
    const auto moment =
        std::chrono::system_clock::now() + std::chrono::milliseconds(20);
    const auto next = queue_->AsyncNext(&tag, &ok, moment);
    return next == grpc::CompletionQueue::GOT_EVENT && ok;
  }

 private:
  grpc::AsyncGenericService service_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter call_{&context_};
  int port_ = 0;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

// A server and a channel, connected to each other by `address`.
class Connected {
 public:
  Connected(const std::string& address, const SocketOptions& options)
      : server_(address, options, {}) {
    grpc::ChannelArguments arguments;
    SetSocketOptions(options, arguments);
    channel_ = grpc::CreateCustomChannel(
        server_.port() > 1 ? absl::StrCat("127.0.0.1:", server_.port())
                           : address,
        grpc::InsecureChannelCredentials(), arguments);
    EXPECT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() +
                                           std::chrono::seconds(10)));
  }

 private:
  IdleServer server_;
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

std::string SocketPath() { return absl::StrCat("/tmp/planb_hook_", getpid()); }

// A whole call in octets, as a client may send it before it is accepted.
std::string Call() {
  const auto frame = [](char type, char flags, char stream,
                        const std::string& payload) {
    std::string all = {
        0, 0, static_cast<char>(payload.size()), type, flags, 0, 0, 0, stream};
    return all + payload;
  };
  std::string headers;
  const auto add = [&headers](const std::string& name,
                              const std::string& value) {
    headers += '\0';  // a literal field
    headers += static_cast<char>(name.size());
    headers += name;
    headers += static_cast<char>(value.size());
    headers += value;
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", "/a/B");
  add(":authority", "here");
  add("te", "trailers");
  add("content-type", "application/grpc");
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") +
         frame(1, 4, 1, headers);
}

// A client that connects and has sent a call before anyone accepts it.
class EarlyClient {
 public:
  EarlyClient() : EarlyClient(socket(AF_UNIX, SOCK_STREAM, 0)) {}
  explicit EarlyClient(int fd) : fd_(fd) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    SocketPath().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
    const std::string call = Call();
    EXPECT_EQ(send(fd_, call.data(), call.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(call.size()));
  }
  ~EarlyClient() { close(fd_); }

  // Whether it was hung up on; `heard` takes what was said before.
  bool HungUpOn(std::string& heard) {
    char octet;
    ssize_t got;
    while ((got = recv(fd_, &octet, 1, MSG_DONTWAIT)) == 1) heard += octet;
    return got == 0 || errno != EAGAIN;
  }

 private:
  const int fd_;
};

TEST(ServerSocketHooks, RefuseAConnectionWithWhatItHasSentAlready) {
  std::atomic<bool> welcome = false;
  IdleServer server("unix://" + SocketPath(), {},
                    {.accept = [&welcome](int) { return welcome.load(); }});
  ASSERT_TRUE(server.listens());
  std::string heard;
  for (int i = 0; i < 10; ++i) {
    EarlyClient client;
    while (!client.HungUpOn(heard)) EXPECT_FALSE(server.Serve());
    // Closed for good, gRPC's end included: no call can come of it.
    EXPECT_FALSE(server.Serve());
  }
  // It still accepts; and the call, unrefused, is one that would be served.
  welcome = true;
  EarlyClient client;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool called = false;
  while (!called && std::chrono::steady_clock::now() < deadline) {
    called = server.Serve();
  }
  EXPECT_TRUE(called);
}

TEST(ServerSocketHooks, LeaveNothingOfARefusedConnection) {
  IdleServer server("unix://" + SocketPath(), {},
                    {.accept = [](int) { return false; }});
  ASSERT_TRUE(server.listens());
  const auto meet = [&server] {
    EarlyClient client;
    std::string heard;
    while (!client.HungUpOn(heard)) server.Serve();
  };
  meet();  // what is made once, is made
  server.Serve();
  const size_t before = OpenFiles().size();
  for (int i = 0; i < 50; ++i) meet();
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (OpenFiles().size() > before &&
         std::chrono::steady_clock::now() < deadline) {
    server.Serve();
  }
  EXPECT_LE(OpenFiles().size(), before);
}

// For as long as it lives, the process may have descriptors below `limit`.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(limit);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST(ServerSocketHooks, KeepAcceptingAfterDescriptorsRanOut) {
  constexpr int kClients = 100;
  int dropped = 0;
  IdleServer server("unix://" + SocketPath(), {},
                    {.dropped = [&dropped](int n) { dropped += n; }});
  ASSERT_TRUE(server.listens());
  std::vector<int> sockets;
  for (int i = 0; i < kClients; ++i) {
    sockets.push_back(socket(AF_UNIX, SOCK_STREAM, 0));
  }
  // The clients have theirs; the server gets a few.
  const DescriptorLimit limit(*OpenFiles().rbegin() + 30);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto is_time = [deadline] {
    return std::chrono::steady_clock::now() < deadline;
  };
  {
    std::vector<std::unique_ptr<EarlyClient>> clients;
    for (const int fd : sockets) {
      clients.push_back(std::make_unique<EarlyClient>(fd));
    }
    while (dropped == 0 && is_time()) server.Serve();
    EXPECT_GE(dropped, kClients - 30);
    EXPECT_LT(dropped, kClients);
    const int left = open("/dev/null", O_RDONLY);
    EXPECT_GE(left, 0) << "no descriptor is left";
    close(left);
  }
  EarlyClient client;
  std::string heard;
  while (heard.empty() && is_time()) {
    server.Serve();
    if (client.HungUpOn(heard)) break;
  }
  EXPECT_FALSE(heard.empty());
}

TEST(ServerSocketHooks, SeeASocketBeforeItIsBound) {
  std::string name = "never called";
  const IdleServer server(
      "unix://" + SocketPath(), {}, {.before_bind = [&name](int fd) {
        sockaddr_un address = {};
        socklen_t size = sizeof(address);
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
        name = address.sun_path;
        return true;
      }});
  EXPECT_TRUE(server.listens());
  EXPECT_EQ(name, "");
}

TEST(ServerSocketHooks, KeepASocketFromBeingBound) {
  const IdleServer server("unix://" + SocketPath(), {},
                          {.before_bind = [](int) { return false; }});
  EXPECT_FALSE(server.listens());
}

}  // namespace
}  // namespace planb
