#include "server/peer_credentials.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/log.h"

namespace planb::server {
namespace {

static_assert(sizeof(uid_t) == 4 && sizeof(gid_t) == 4);

absl::StatusOr<std::vector<uint32_t>> ParseIds(
    absl::string_view flag, absl::Span<const std::string> texts) {
  std::vector<uint32_t> ids;
  for (const std::string& text : texts) {
    uint32_t id = 0;
    // The largest stands for "none" in the kernel's interfaces.
    if (!absl::SimpleAtoi(text, &id) ||
        id == std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": \"", text, "\" is no numeric id"));
    }
    ids.push_back(id);
  }
  return ids;
}

template <typename Id>
bool Contains(const std::vector<Id>& ids, Id id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool IsUnixSocket(int connection) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

}  // namespace

bool PeerRules::Allow(uid_t uid, gid_t gid) const {
  return AllowAnyone() || Contains(uids, uid) || Contains(gids, gid);
}

absl::StatusOr<PeerRules> ParsePeerRules(absl::Span<const std::string> uids,
                                         absl::Span<const std::string> gids) {
  auto parsed_uids = ParseIds("--peer_uids", uids);
  if (!parsed_uids.ok()) return parsed_uids.status();
  auto parsed_gids = ParseIds("--peer_gids", gids);
  if (!parsed_gids.ok()) return parsed_gids.status();
  return PeerRules{.uids = *std::move(parsed_uids),
                   .gids = *std::move(parsed_gids)};
}

PeerGate::PeerGate(PeerRules rules)
    : rules_(std::move(rules)),
      registry_(std::make_shared<prometheus::Registry>()),
      refused_(prometheus::BuildCounter()
                   .Name("planb_peers_refused_total")
                   .Help("Connections over Unix sockets that were refused for "
                         "the peer's user and group.")
                   .Register(*registry_)
                   .Add({})),
      dropped_(prometheus::BuildCounter()
                   .Name("planb_connections_dropped_total")
                   .Help("Connections that were closed at once for want of "
                         "file descriptors.")
                   .Register(*registry_)
                   .Add({})) {}

void PeerGate::Dropped(int connections) {
  dropped_.Increment(connections);
  const std::optional<uint64_t> left_out = log_dropped_.Admit();
  if (left_out.has_value()) {
    Log(LogLevel::kWarning, "connections dropped, few descriptors are left",
        {{"connections", connections}, {"not_logged", *left_out}});
  }
}

bool PeerGate::Admit(int connection) {
  if (!IsUnixSocket(connection)) return true;
  ucred peer = {};
  socklen_t size = sizeof(peer);
  const bool known =
      getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  const bool admitted =
      rules_.AllowAnyone() || (known && rules_.Allow(peer.uid, peer.gid));
  if (!admitted) refused_.Increment();
  const std::optional<uint64_t> left_out =
      (admitted ? log_accepted_ : log_refused_).Admit();
  if (left_out.has_value()) {
    Log(admitted ? LogLevel::kInfo : LogLevel::kWarning,
        admitted ? "peer accepted" : "peer refused",
        {{"uid", peer.uid},
         {"gid", peer.gid},
         {"pid", peer.pid},
         {"not_logged", *left_out}});
  }
  return admitted;
}

}  // namespace planb::server
