// SPDX-License-Identifier: Apache-2.0

#include "server/net/admission.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

static_assert(sizeof(uid_t) == 4 && sizeof(gid_t) == 4);

// Seconds of connections that a peer may open at once.
constexpr double kBurstSeconds = 10;
// The least time between two checks of all descriptors at a reached limit.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(20);
// Further peers share one credit.
constexpr size_t kMaxCredits = 100'000;
constexpr std::pair<int, uint64_t> kAnyOther = {-1, 0};
// In a key, in place of a family of addresses.
constexpr int kProcess = -2;

absl::StatusOr<std::vector<uint32_t>> ParseIds(
    absl::string_view flag, absl::Span<const std::string> texts) {
  std::vector<uint32_t> ids;
  for (const std::string& text : texts) {
    uint32_t id = 0;
    // The largest number means "none" in interfaces of the kernel.
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

uint64_t BigEndian64(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

// The kernel gives the lowest free descriptor, so a high number means that
// nearly all are in use. The store, certificates and libraries need some as
// well. The limit of a running process may change.
size_t FilesForConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur - std::clamp<rlim_t>(limit.rlim_cur / 16, 4, 64);
}

// Logs the process at the other end of a Unix socket.
void LogProcess(LogLevel level, absl::string_view event, const Peer& peer,
                LogLimit& limit) {
  const ucred* const process = peer.process();
  if (process == nullptr) return;
  const std::optional<uint64_t> left_out = limit.Admit();
  if (!left_out.has_value()) return;
  Log(level, event,
      {{"uid", process->uid},
       {"gid", process->gid},
       {"pid", process->pid},
       {"not_logged", *left_out}});
}

prometheus::Counter& AddCounter(prometheus::Registry& registry,
                                const char* name, const char* help) {
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add({});
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

Peer Peer::Of(int fd) {
  Peer peer;
  socklen_t size = sizeof(peer.address_);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer.address_), &size) !=
      0) {
    peer.address_ = {};
  }
  const int family = peer.address_.ss_family;
  peer.key_ = {family, 0};
  peer.rate_key_ = {0, 0};
  if (family == AF_UNIX) {
    socklen_t length = sizeof(peer.process_);
    peer.is_unix_ =
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer.process_, &length) == 0;
    peer.key_.second = peer.process_.uid;
    // A process in another PID namespace may have no number here.
    if (peer.process_.pid > 0) {
      peer.rate_key_ = {kProcess, peer.process_.pid};
    }
    peer.name_ = absl::StrCat("uid ", peer.process_.uid);
  } else if (family == AF_INET) {
    const uint32_t v4 = ntohl(
        reinterpret_cast<const sockaddr_in&>(peer.address_).sin_addr.s_addr);
    peer.key_.second = v4;
    peer.name_ = Address::V4(v4).ToString();
  } else if (family == AF_INET6) {
    const in6_addr& v6 =
        reinterpret_cast<const sockaddr_in6&>(peer.address_).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      peer.key_ = {AF_INET, BigEndian64(v6.s6_addr + 8) & 0xffffffff};
      peer.name_ =
          Address::V4(static_cast<uint32_t>(peer.key_.second)).ToString();
    } else {
      peer.key_.second = BigEndian64(v6.s6_addr);
      peer.name_ = absl::StrCat(
          Address::V6(absl::MakeUint128(peer.key_.second, 0)).ToString(),
          "/64");
    }
  }
  if (peer.rate_key_.first == 0) peer.rate_key_ = peer.key_;
  return peer;
}

class Admission::Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(Admission& admission) : admission_(admission) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    admission_.open_gauge_->Set(static_cast<double>(admission_.CountOpen()));
    return admission_.registry_->Collect();
  }

 private:
  Admission& admission_;
};

uint64_t Admission::SocketInode(int fd) {
  struct stat found;
  return fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

Admission::Admission(PeerRules rules, ConnectionLimits limits, InodeOf inode_of)
    : rules_(std::move(rules)),
      limits_(limits),
      inode_of_(inode_of),
      registry_(std::make_shared<prometheus::Registry>()),
      collectable_(std::make_shared<Metrics>(*this)),
      peers_refused_(&AddCounter(
          *registry_, "planb_peers_refused_total",
          "Connections over Unix sockets that were refused for the peer's user "
          "and group.")),
      dropped_(&AddCounter(*registry_, "planb_connections_dropped_total",
                           "Connections that were closed at once for want of "
                           "file descriptors.")),
      open_gauge_(&prometheus::BuildGauge()
                       .Name("planb_guard_connections")
                       .Help("Connections of gRPC clients that are open, those "
                             "to the health port left out.")
                       .Register(*registry_)
                       .Add({})) {
  auto& refused =
      prometheus::BuildCounter()
          .Name("planb_guard_refused_total")
          .Help(
              "Connections closed at once: beyond --max_connections (total), "
              "--max_peer_connections (peer) or --peer_connection_rate "
              "(rate).")
          .Register(*registry_);
  constexpr const char* kNames[kReasons] = {"total", "peer", "rate"};
  for (int i = 0; i < kReasons; ++i) {
    refused_[static_cast<size_t>(i)] = &refused.Add({{"reason", kNames[i]}});
  }
}

bool Admission::Admit(int fd, const Peer& peer, SteadyInstant now) {
  if (static_cast<size_t>(fd) >= FilesForConnections()) {
    OutOfFiles();
    return false;
  }
  if (!AllowedByRules(peer)) {
    peers_refused_->Increment();
    LogProcess(LogLevel::kWarning, "peer refused", peer, log_refused_);
    return false;
  }
  Reason reason = kTotal;
  bool allowed;
  {
    const absl::MutexLock lock(&mutex_);
    allowed = AllowedByLimits(fd, peer, now, reason);
  }
  if (allowed) {
    LogProcess(LogLevel::kInfo, "peer accepted", peer, log_accepted_);
    return true;
  }
  refused_[reason]->Increment();
  const std::optional<uint64_t> left_out = log_refused_.Admit();
  if (left_out.has_value()) {
    constexpr absl::string_view kWhy[kReasons] = {"--max_connections",
                                                  "--max_peer_connections",
                                                  "--peer_connection_rate"};
    Log(LogLevel::kWarning, "connection refused",
        {{"peer", peer.name()},
         {"limit", kWhy[reason]},
         {"not_logged", *left_out}});
  }
  return false;
}

bool Admission::AllowedByRules(const Peer& peer) const {
  if (peer.address().ss_family != AF_UNIX || rules_.AllowAnyone()) return true;
  const ucred* const process = peer.process();
  return process != nullptr && rules_.Allow(process->uid, process->gid);
}

bool Admission::AllowedByLimits(int fd, const Peer& peer, SteadyInstant now,
                                Reason& reason) {
  Forget(fd);  // its former connection is closed: the kernel reused the number
  size_t most = FilesForConnections();
  if (limits_.max_connections > 0) {
    most = std::min<size_t>(most, limits_.max_connections);
  }
  const size_t most_of_peer = limits_.max_peer_connections > 0
                                  ? limits_.max_peer_connections
                                  : std::max<size_t>(most / 2, 1);
  const auto full = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto of_peer = open_of_peer_.find(peer.key_);
    if (of_peer != open_of_peer_.end() && of_peer->second >= most_of_peer) {
      reason = kOfPeer;
      return true;
    }
    reason = kTotal;
    return open_.size() >= most;
  };
  if (full()) {
    if (absl::FromChrono(now - swept_) >= kSweepInterval) Sweep(now);
    if (full()) return false;
  }
  reason = kRate;
  if (limits_.peer_connection_rate > 0 && !Charge(peer, now)) return false;
  ++open_of_peer_[peer.key_];
  open_[fd] = {inode_of_(fd), peer.key_};
  return true;
}

bool Admission::Charge(const Peer& peer, SteadyInstant now) {
  const double rate = limits_.peer_connection_rate;
  const double most = rate * kBurstSeconds;
  const Key key =
      credit_.size() < kMaxCredits || credit_.contains(peer.rate_key_)
          ? peer.rate_key_
          : kAnyOther;
  Credit& credit = credit_.try_emplace(key, Credit{most, now}).first->second;
  const double seconds =
      absl::ToDoubleSeconds(absl::FromChrono(now - credit.at));
  credit = {std::min(most, credit.connections + seconds * rate), now};
  if (credit.connections < 1) return false;
  credit.connections -= 1;
  return true;
}

void Admission::Forget(int fd) {
  const auto connection = open_.find(fd);
  if (connection == open_.end()) return;
  const auto of_peer = open_of_peer_.find(connection->second.peer);
  if (--of_peer->second == 0) open_of_peer_.erase(of_peer);
  open_.erase(connection);
}

void Admission::Sweep(SteadyInstant now) {
  swept_ = now;
  std::vector<int> closed;
  for (const auto& [fd, connection] : open_) {
    if (inode_of_(fd) != connection.inode) closed.push_back(fd);
  }
  for (const int fd : closed) Forget(fd);
  absl::erase_if(credit_, [now](const auto& credit) {
    return absl::FromChrono(now - credit.second.at) >
           absl::Seconds(kBurstSeconds);
  });
}

void Admission::OutOfFiles() {
  dropped_->Increment();
  const std::optional<uint64_t> left_out = log_dropped_.Admit();
  if (left_out.has_value()) {
    Log(LogLevel::kWarning, "connection dropped, few descriptors are left",
        {{"not_logged", *left_out}});
  }
}

size_t Admission::CountOpen() {
  const absl::MutexLock lock(&mutex_);
  Sweep(SteadyNow());
  return open_.size();
}

}  // namespace planb::server
