// SPDX-License-Identifier: Apache-2.0

// Runs a real etcd as child processes, for tests of the store that servers
// share.

#ifndef PLANB_SERVER_TESTING_ETCD_CLUSTER_H_
#define PLANB_SERVER_TESTING_ETCD_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/etcd_client.h"

namespace planb::server {

// Members on ports of one address, with their data in a directory of the test.
// The destructor kills them. Not thread-safe.
class EtcdCluster {
 public:
  // Returns false if there is no program `etcd`: then skip the test.
  static bool Available();

  // Starts `members` and waits until the cluster answers.
  // With an authority in `tls`, clients must show a certificate of that
  // authority; `tls` is the identity of the members and of Client().
  explicit EtcdCluster(int members, TlsFiles tls = {},
                       const std::string& host = "127.0.0.1");
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  // etcd://... of all members, with `prefix`; for --store.
  std::string Url(absl::string_view prefix) const;
  // HOST:PORT of a member.
  const std::string& endpoint(int member) const {
    return members_[static_cast<size_t>(member)].client;
  }

  // Ends a member with SIGKILL, or starts it again with its data.
  void Kill(int member);
  void Start(int member);
  // Sends a member SIGSTOP or SIGCONT.
  void Pause(int member);
  void Resume(int member);
  // The member that leads; -1 if none does.
  int Leader() const;
  // How often the leader has changed as a member has seen it since it began; -1
  // if it does not say. REQUIRES: there is no authority.
  int64_t LeaderChanges(int member) const;
  // Waits until a write is answered.
  bool AwaitAnswer(absl::Duration patience = absl::Minutes(1)) const;

  // Starts one more of etcd's own gRPC proxies, on the same port each time, and
  // ends it with SIGKILL. `proxy` counts from 0.
  void StartProxy(size_t proxy);
  void KillProxy(size_t proxy);
  // etcd://... of the proxies alone.
  std::string ProxyUrl(absl::string_view prefix) const;

  // Compacts all revisions before the newest: no watch can begin at them.
  absl::Status Compact() const;
  // A client of all members.
  std::unique_ptr<EtcdClient> Client(absl::string_view prefix) const;
  // Runs etcdctl and returns its output, or "" if it fails.
  std::string Ctl(const std::string& arguments) const;

 private:
  struct Member {
    std::string name, client, peer, directory;
    pid_t pid = 0;
  };

  void Run(std::vector<std::string> arguments, Member& member) const;
  static void End(Member& member);
  static std::string UrlOf(const std::vector<Member>& members,
                           absl::string_view prefix);

  TlsFiles tls_;
  std::string directory_;
  std::string initial_;
  std::vector<Member> members_;
  std::vector<Member> proxies_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_ETCD_CLUSTER_H_
