// Who is at the other end of a Unix socket, as the kernel tells, and who may
// be.
//
// A socket file's mode and owner say who can connect at all. These rules are a
// second lock behind it, which holds even where the file lies open, as in a
// volume that other containers mount.

#ifndef PLANB_SERVER_PEER_CREDENTIALS_H_
#define PLANB_SERVER_PEER_CREDENTIALS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "server/log_limit.h"

namespace planb::server {

// Both empty: anyone.
struct PeerRules {
  std::vector<uid_t> uids = {};
  std::vector<gid_t> gids = {};

  bool AllowAnyone() const { return uids.empty() && gids.empty(); }
  // By one of the two. Only the peer's own group counts, not those it is a
  // member of besides.
  bool Allow(uid_t uid, gid_t gid) const;
};

// Reads the values of --peer_uids and --peer_gids, numbers all.
// Errors: INVALID_ARGUMENT, naming the flag and the value.
absl::StatusOr<PeerRules> ParsePeerRules(absl::Span<const std::string> uids,
                                         absl::Span<const std::string> gids);

// Judges connections, logs and counts them. Ids are those that the peer had
// when it connected, as this process's user namespace sees them. Thread-safe.
class PeerGate {
 public:
  explicit PeerGate(PeerRules rules);

  // Whether the peer of `connection` may stay. Sockets that are not Unix
  // sockets have no such peer, and may.
  bool Admit(int connection);

  // To be told that so many connections were closed, of any kind, for want of
  // file descriptors.
  void Dropped(int connections);

  // planb_peers_refused_total and planb_connections_dropped_total.
  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  const PeerRules rules_;
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Counter& refused_;
  prometheus::Counter& dropped_;
  LogLimit log_accepted_{5};
  LogLimit log_refused_{5};
  LogLimit log_dropped_{1};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_PEER_CREDENTIALS_H_
