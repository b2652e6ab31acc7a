// SPDX-License-Identifier: Apache-2.0

// Decides which connections are admitted: by their peer, their number and their
// rate.

#ifndef PLANB_SERVER_NET_ADMISSION_H_
#define PLANB_SERVER_NET_ADMISSION_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "server/base/log.h"

namespace planb::server {

// The users and groups that may connect over a Unix socket, as the kernel
// reports them. The mode of the socket's file also decides which processes can
// connect. These rules hold even if the file is open to all, as in a volume
// that other containers mount. Both empty: any peer may connect.
struct PeerRules {
  std::vector<uid_t> uids = {};
  std::vector<gid_t> gids = {};

  bool AllowAnyone() const { return uids.empty() && gids.empty(); }
  // One of the two is enough. Only the process's own group counts, not its
  // supplementary groups.
  bool Allow(uid_t uid, gid_t gid) const;
};

// Reads the values of --peer_uids and --peer_gids, which are numbers.
// Errors: INVALID_ARGUMENT, naming the flag and the value.
absl::StatusOr<PeerRules> ParsePeerRules(absl::Span<const std::string> uids,
                                         absl::Span<const std::string> gids);

struct ConnectionLimits {
  // Connections open at once. 0: as many as open files allow.
  uint32_t max_connections = 1'000;
  // Of one peer. 0: half of all.
  uint32_t max_peer_connections = 0;
  // New connections a second of one process on a Unix socket, or of one peer on
  // TCP. A burst may have as many as ten seconds. 0: any number.
  uint32_t peer_connection_rate = 100;
};

// The other end of a connection, as limits know it: a user on a Unix socket, an
// IPv4 address or an IPv6 /64 on TCP. The rate of connections is counted by
// process on a Unix socket: a client that connects in a loop does not keep out
// other clients of its user.
class Peer {
 public:
  // The peer of a connected socket. Asks the kernel.
  static Peer Of(int fd);

  const std::string& name() const { return name_; }
  // The process on a Unix socket; null on TCP.
  const ucred* process() const { return is_unix_ ? &process_ : nullptr; }
  const sockaddr_storage& address() const { return address_; }

 private:
  friend class Admission;
  Peer() = default;

  bool is_unix_ = false;
  ucred process_ = {};
  sockaddr_storage address_ = {};
  // Connections with equal keys share the limit of number, or of rate.
  std::pair<int, uint64_t> key_, rate_key_;
  std::string name_;  // for logs
};

// Admits or refuses connections, counts and logs them.
//
// gRPC closes a connection without notice. So a connection counts as open while
// its descriptor refers to the socket that was admitted, as its inode number
// shows. All descriptors are checked when a limit is reached and at each scrape
// (three take about a microsecond).
//
// Thread-safe.
class Admission {
 public:
  // The inode number of an open socket; 0 if `fd` is no socket.
  using InodeOf = uint64_t (*)(int fd);
  static uint64_t SocketInode(int fd);

  Admission(PeerRules rules, ConnectionLimits limits,
            InodeOf inode_of = SocketInode);

  // True if the connection `fd` from `peer` is admitted; it then counts as
  // open. Otherwise the caller closes it.
  bool Admit(int fd, const Peer& peer, SteadyInstant now = SteadyNow());

  // Counts and logs a connection dropped for want of descriptors.
  void OutOfFiles();

  // Connections that are open.
  size_t CountOpen();

  // planb_guard_connections, planb_guard_refused_total,
  // planb_peers_refused_total and planb_connections_dropped_total.
  std::shared_ptr<prometheus::Collectable> collectable() const {
    return collectable_;
  }

 private:
  using Key = std::pair<int, uint64_t>;
  enum Reason { kTotal, kOfPeer, kRate, kReasons };
  struct Connection {
    uint64_t inode;
    Key peer;
  };
  // The connections that a peer may open now.
  struct Credit {
    double connections;
    SteadyInstant at;  // the time of `connections`
  };
  class Metrics;

  bool AllowedByRules(const Peer& peer) const;
  bool AllowedByLimits(int fd, const Peer& peer, SteadyInstant now,
                       Reason& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes one connection off the credit. False if none is left.
  bool Charge(const Peer& peer, SteadyInstant now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets closed connections, and credits that are full again.
  void Sweep(SteadyInstant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PeerRules rules_;
  const ConnectionLimits limits_;
  const InodeOf inode_of_;
  const std::shared_ptr<prometheus::Registry> registry_;
  std::shared_ptr<prometheus::Collectable> collectable_;
  prometheus::Counter* peers_refused_;
  prometheus::Counter* dropped_;
  std::array<prometheus::Counter*, kReasons> refused_;
  prometheus::Gauge* open_gauge_;
  LogLimit log_accepted_{5};
  LogLimit log_refused_{5};
  LogLimit log_dropped_{1};

  absl::Mutex mutex_;
  absl::flat_hash_map<int, Connection> open_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, size_t> open_of_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, Credit> credit_ ABSL_GUARDED_BY(mutex_);
  SteadyInstant swept_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_ADMISSION_H_
