// SPDX-License-Identifier: Apache-2.0

#include "server/testing/etcd_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "server/testing/http_get.h"

namespace planb::server {
namespace {

// A port that nothing listens on at this moment, and that no connection gets by
// chance while its member is away: below those that the kernel hands out.
int FreePort() {
  static std::random_device random;
  static std::set<int> given;
  std::uniform_int_distribution<int> ports(20'000, 31'999);
  int port = 0;
  EXPECT_TRUE(Await([&] {
    port = ports(random);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address),
                           sizeof(address)) == 0;
    close(fd);
    return free && given.insert(port).second;
  }));
  return port;
}

}  // namespace

bool EtcdCluster::Available() {
  for (absl::string_view directory : absl::StrSplit(std::getenv("PATH"), ':')) {
    if (access(absl::StrCat(directory, "/etcd").c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

EtcdCluster::EtcdCluster(int members, TlsFiles tls, const std::string& host)
    : tls_(std::move(tls)) {
  static int count = 0;
  directory_ =
      absl::StrCat(testing::TempDir(), "/etcd_", getpid(), "_", ++count);
  std::filesystem::remove_all(directory_);
  std::vector<std::string> initial;
  for (int i = 0; i < members; ++i) {
    Member& member = members_.emplace_back();
    member.name = absl::StrCat("member", i);
    member.client = absl::StrCat(host, ":", FreePort());
    member.peer = absl::StrCat("http://127.0.0.1:", FreePort());
    member.directory = absl::StrCat(directory_, "/", member.name);
    initial.push_back(absl::StrCat(member.name, "=", member.peer));
  }
  initial_ = absl::StrJoin(initial, ",");
  for (int i = 0; i < members; ++i) Start(i);
  EXPECT_TRUE(AwaitAnswer());
}

EtcdCluster::~EtcdCluster() {
  for (Member& proxy : proxies_) End(proxy);
  for (Member& member : members_) End(member);
  std::filesystem::remove_all(directory_);
}

std::string EtcdCluster::Url(absl::string_view prefix) const {
  return UrlOf(members_, prefix);
}

std::string EtcdCluster::ProxyUrl(absl::string_view prefix) const {
  return UrlOf(proxies_, prefix);
}

std::string EtcdCluster::UrlOf(const std::vector<Member>& members,
                               absl::string_view prefix) {
  return absl::StrCat("etcd://",
                      absl::StrJoin(members, ",",
                                    [](std::string* out, const Member& member) {
                                      out->append(member.client);
                                    }),
                      "/", prefix);
}

void EtcdCluster::Start(int index) {
  Member& member = members_[static_cast<size_t>(index)];
  std::filesystem::create_directories(member.directory);
  std::filesystem::permissions(member.directory,
                               std::filesystem::perms::owner_all);
  const std::string clients = absl::StrCat(
      tls_.ca.path.empty() ? "http://" : "https://", member.client);
  std::vector<std::string> arguments = {
      "etcd",
      "--name=" + member.name,
      "--data-dir=" + member.directory,
      "--listen-client-urls=" + clients,
      "--advertise-client-urls=" + clients,
      "--listen-peer-urls=" + member.peer,
      "--initial-advertise-peer-urls=" + member.peer,
      "--initial-cluster=" + initial_,
      // A disk that all tests share syncs slowly.
      "--heartbeat-interval=100",
      "--election-timeout=1000",
      // Signs of life through a proxy, which passes no requests for them on.
      "--experimental-watch-progress-notify-interval=1s",
  };
  if (!tls_.ca.path.empty()) {
    arguments.insert(
        arguments.end(),
        {"--client-cert-auth", "--trusted-ca-file=" + tls_.ca.path,
         "--cert-file=" + tls_.cert.path, "--key-file=" + tls_.key.path});
  }
  Run(std::move(arguments), member);
}

void EtcdCluster::Run(std::vector<std::string> arguments,
                      Member& member) const {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = absl::StrCat(directory_, "/", member.name, ".log");
  member.pid = fork();
  if (member.pid == 0) {
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
}

void EtcdCluster::End(Member& member) {
  if (member.pid <= 0) return;
  kill(member.pid, SIGKILL);
  waitpid(member.pid, nullptr, 0);
  member.pid = 0;
}

void EtcdCluster::Kill(int index) { End(members_[static_cast<size_t>(index)]); }

void EtcdCluster::StartProxy(size_t proxy) {
  while (proxies_.size() <= proxy) {
    Member& added = proxies_.emplace_back();
    added.name = absl::StrCat("proxy", proxies_.size());
    added.client = absl::StrCat("127.0.0.1:", FreePort());
  }
  std::vector<std::string> members;
  for (const Member& member : members_) members.push_back(member.client);
  Member& started = proxies_[proxy];
  Run({"etcd", "grpc-proxy", "start",
       "--endpoints=" + absl::StrJoin(members, ","),
       "--listen-addr=" + started.client,
       absl::StrCat("--data-dir=", directory_, "/", started.name)},
      started);
}

void EtcdCluster::KillProxy(size_t proxy) { End(proxies_[proxy]); }

void EtcdCluster::Pause(int index) {
  kill(members_[static_cast<size_t>(index)].pid, SIGSTOP);
}

void EtcdCluster::Resume(int index) {
  kill(members_[static_cast<size_t>(index)].pid, SIGCONT);
}

std::string EtcdCluster::Ctl(const std::string& arguments) const {
  std::vector<std::string> endpoints;
  for (const Member& member : members_) endpoints.push_back(member.client);
  const std::string command = absl::StrCat(
      "ETCDCTL_API=3 etcdctl --dial-timeout=1s",
      tls_.ca.path.empty()
          ? ""
          : absl::StrCat(" --cacert=", tls_.ca.path, " --cert=", tls_.cert.path,
                         " --key=", tls_.key.path),
      " --endpoints=", absl::StrJoin(endpoints, ","), " ", arguments,
      " 2>/dev/null");
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), n);
  }
  pclose(pipe);
  return output;
}

int EtcdCluster::Leader() const {
  const std::string status = Ctl("endpoint status --write-out=simple");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, ", ");
    if (fields.size() < 5 || fields[4] != "true") continue;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (fields[0] == members_[i].client) return static_cast<int>(i);
    }
  }
  return -1;
}

int64_t EtcdCluster::LeaderChanges(int member) const {
  const std::string& address = endpoint(member);
  int port = -1;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const int client = HttpConnect(port);
  if (client < 0) return -1;
  // This version closes the connection after the answer.
  HttpSend(client, "GET /metrics HTTP/1.0\r\n\r\n");
  for (absl::string_view line : absl::StrSplit(HttpReceive(client), '\n')) {
    double changes = 0;
    if (absl::ConsumePrefix(&line, "etcd_server_leader_changes_seen_total ") &&
        absl::SimpleAtod(line, &changes)) {
      return static_cast<int64_t>(changes);
    }
  }
  return -1;
}

bool EtcdCluster::AwaitAnswer(absl::Duration patience) const {
  const auto client = Client("probe/");
  const absl::Time deadline = absl::Now() + patience;
  while (absl::Now() < deadline) {
    etcdserverpb::PutRequest put;
    put.set_key("probe/");
    if (client->Put(put).ok()) return true;
  }
  return false;
}

absl::Status EtcdCluster::Compact() const {
  const auto client = Client("");
  etcdserverpb::RangeRequest any;
  any.set_key("any");
  const auto answer = client->Range(any);
  if (!answer.ok()) return answer.status();
  return client->Compact(answer->header().revision());
}

std::unique_ptr<EtcdClient> EtcdCluster::Client(
    absl::string_view prefix) const {
  EtcdOptions options;
  for (const Member& member : members_) {
    options.endpoints.push_back(member.client);
  }
  options.prefix = std::string(prefix);
  options.tls = tls_;
  return EtcdClient::Create(options).value();
}

}  // namespace planb::server
