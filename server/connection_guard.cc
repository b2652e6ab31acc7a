#include "server/connection_guard.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/monotonic_time.h"
#include "server/accept_turns.h"
#include "server/open_calls.h"
#include "server/peer_credit.h"

namespace planb::server {
namespace {

constexpr int kMostFiles = 1 << 16;  // connections beyond are refused
constexpr uint64_t kConnectionCost = 10;
constexpr uint64_t kEndedCost = 1'000;
// What a connection may cost before its peer pays: settings, gRPC's own pings.
constexpr uint64_t kFree = 16;

struct Guard {
  explicit Guard(const GuardOptions& o)
      : options(o), credit(o.peer_credit, o.peer_credit_per_second) {}

  const GuardOptions options;
  PeerCredit credit;
  std::array<std::atomic<int64_t>, PeerCredit::kAccounts> calls = {};
};

// Of a connection, by its number. One thread reads it at a time and one writes
// it; whoever accepts or closes it does so alone: gRPC sees to that.
struct Connection {
  std::atomic<Guard*> guard = nullptr;  // null: none of ours
  size_t account = 0;
  uint64_t free = 0;
  OpenCalls* calls = nullptr;         // made once, never freed
  std::atomic<uint64_t> owed = 0;     // for what the server had to do
  std::atomic<bool> foreign = false;  // TLS: what it sends are no frames
  Http2Meter meter;
  Http2Endings endings;
};

// Never freed: connections may outlive the server that accepted them.
std::atomic<Guard*> g_guard = nullptr;
std::array<Connection, kMostFiles> g_connections;  // pages untouched till used
std::atomic<uint64_t> g_open, g_refused, g_ended;

// A file to give up when there is no other. Whoever gets its number meanwhile
// makes us lose it; then the next that is closed, or TurnAway, brings it back.
std::mutex g_spare_mutex;
int g_spare = -1;  // guarded by g_spare_mutex
std::atomic<bool> g_spare_lost = false;

int Close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }

int Accept(int fd, sockaddr* address, socklen_t* size, int flags) {
  return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
}

// REQUIRES: g_spare_mutex is held.
void OpenSpare() {
  if (g_spare < 0) g_spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
  g_spare_lost = g_spare < 0;
}

// Never waits, and leaves errno alone.
void RegainSpare() {
  const int error = errno;
  const std::unique_lock lock(g_spare_mutex, std::try_to_lock);
  if (lock.owns_lock()) OpenSpare();
  errno = error;
}

// Takes a connection for which there is no file from the queue, and closes it:
// left there, it would be heard of no more. False: nothing to be done.
bool TurnAway(int fd) {
  const std::lock_guard lock(g_spare_mutex);
  OpenSpare();
  if (g_spare < 0) return false;
  Close(std::exchange(g_spare, -1));
  const int connection = Accept(fd, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) Close(connection);
  OpenSpare();
  return connection >= 0;
}

// Who it is at the other end, as far as limits go. `address` may be cut short.
uint64_t PeerOf(int fd, const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  }
  if (address.ss_family == AF_INET6) {
    const in6_addr& v6 =
        reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    uint64_t halves[2];
    std::memcpy(halves, v6.s6_addr, sizeof(halves));
    return IN6_IS_ADDR_V4MAPPED(&v6) ? halves[1] : halves[0];
  }
  ucred process = {};
  socklen_t length = sizeof(process);
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &length);
  // In another container's namespace a process has no number here.
  constexpr uint64_t kUsers = uint64_t{1} << 32;
  return process.pid > 0 ? static_cast<uint64_t>(process.pid)
                         : kUsers | process.uid;
}

bool Admit(Guard& guard, int fd, const sockaddr_storage& address) {
  const uint64_t most = guard.options.max_connections;
  if (fd >= kMostFiles || (most > 0 && g_open.load() >= most)) return false;
  Connection& connection = g_connections[static_cast<size_t>(fd)];
  connection.account = PeerCredit::AccountOf(PeerOf(fd, address));
  if (guard.options.peer_credit > 0 &&
      !guard.credit.Pay(connection.account, kConnectionCost, SteadyNow())) {
    return false;
  }
  connection.free = kFree;
  connection.meter = {};
  connection.endings = {};
  if (connection.calls == nullptr) connection.calls = new OpenCalls;
  connection.owed = 0;
  connection.foreign = false;
  connection.guard = &guard;
  ++g_open;
  return true;
}

void Leave(Connection& connection) {
  Guard* const guard = connection.guard.exchange(nullptr);
  if (guard == nullptr) return;
  --g_open;
  const size_t calls = connection.calls->Clear();
  guard->calls[connection.account] -= static_cast<int64_t>(calls);
  // As if reset: what they hold in memory is let go of only later.
  const uint64_t cost =
      calls * Http2Meter::kResetCost + connection.owed.exchange(0);
  if (cost == 0 || guard->options.peer_credit == 0) return;
  guard->credit.Charge(connection.account, static_cast<double>(cost),
                       SteadyNow());
}

// Of ours, the connection `fd`; else null.
Connection* Find(int fd) {
  if (fd < 0 || fd >= kMostFiles) return nullptr;
  Connection& connection = g_connections[static_cast<size_t>(fd)];
  return connection.guard.load(std::memory_order_relaxed) == nullptr
             ? nullptr
             : &connection;
}

// Calls take(octets) for the first `size` of `message`; stops if that is false.
template <typename Take>
bool ForOctets(const msghdr& message, size_t size, Take take) {
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t octets = std::min(part.iov_len, size);
    if (!take(absl::string_view(static_cast<const char*>(part.iov_base),
                                octets))) {
      return false;
    }
    size -= octets;
  }
  return true;
}

// False if those are more calls than the peer may have.
bool CountCalls(Guard& guard, const Connection& connection, int64_t change) {
  const int64_t calls = guard.calls[connection.account] += change;
  const uint32_t most = guard.options.peer_calls;
  return most == 0 || calls <= most;
}

// False if what came ends the connection.
bool Take(Connection& connection, const msghdr& message, size_t size) {
  Guard& guard = *connection.guard.load(std::memory_order_relaxed);
  const GuardOptions& options = guard.options;
  Http2Use use;
  bool fine = ForOctets(message, size, [&](absl::string_view octets) {
    return connection.meter.Take(octets, options.http2, *connection.calls, use);
  });
  if (!connection.meter.plain()) connection.foreign = true;
  if (use.calls != 0) fine &= CountCalls(guard, connection, use.calls);
  if (connection.owed.load(std::memory_order_relaxed) > 0) {
    use.cost += connection.owed.exchange(0, std::memory_order_relaxed);
  }
  const bool counted = options.peer_credit > 0;
  const uint64_t free = std::min(connection.free, use.cost);
  connection.free -= free;
  use.cost -= free;
  if (fine && use.cost > 0 && counted) {
    fine = guard.credit.Pay(connection.account, static_cast<double>(use.cost),
                            SteadyNow());
  }
  if (fine) return true;
  if (counted) {
    guard.credit.Charge(connection.account, kEndedCost, SteadyNow());
  }
  ++g_ended;
  return false;
}

void Sent(Connection& connection, const msghdr& message, size_t size) {
  if (connection.foreign) return;
  Guard& guard = *connection.guard.load(std::memory_order_relaxed);
  Http2Endings::Ended ended;
  ForOctets(message, size, [&](absl::string_view octets) {
    connection.endings.Take(octets, *connection.calls, ended);
    return true;
  });
  // Seldom: streams go on and on.
  if (ended.calls == 0) return;
  CountCalls(guard, connection, -static_cast<int64_t>(ended.calls));
  connection.owed += ended.reset * Http2Meter::kResetCost +
                     ended.refused * Http2Meter::kRefusedCost;
}

// As accept4, once; or what accept_turns.h says of those who are not let in.
int AcceptOnce(int fd, int flags) {
  sockaddr_storage peer = {};
  socklen_t length = sizeof(peer);
  const int connection =
      Accept(fd, reinterpret_cast<sockaddr*>(&peer), &length, flags);
  if (connection >= 0) {
    if (Admit(*g_guard.load(), connection, peer)) return connection;
    Close(connection);
    ++g_refused;
    return kTurnedAway;
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
      if (!TurnAway(fd)) return kTryLater;
      ++g_refused;
      return kTurnedAway;
    case ENOBUFS:
    case ENOMEM:
      return kTryLater;
    // What befell a connection before it was accepted; accept(2) says to go on.
    case ECONNABORTED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EINTR:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EPERM:
    case EPROTO:
      return kTurnedAway;
    default:
      return kNobodyWaits;
  }
}

}  // namespace

void GuardConnections(const GuardOptions& options) {
  {
    const std::lock_guard lock(g_spare_mutex);
    OpenSpare();
  }
  // Never freed, as said above.
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<Guard>>;
  const std::lock_guard lock(mutex);
  g_guard = all->emplace_back(std::make_unique<Guard>(options)).get();
}

GuardCounts CountGuarded() {
  return {.open = g_open, .refused = g_refused, .ended = g_ended};
}

}  // namespace planb::server

namespace guard = planb::server;

extern "C" {

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (guard::g_guard.load() == nullptr) {
    return guard::Accept(fd, address, size, flags);
  }
  // To gRPC, any other error is the listener's end.
  errno = EAGAIN;
  int result = guard::TakeAccepted(fd);
  if (result == guard::kTryLater) {
    do {
      result = guard::AcceptOnce(fd, flags);
    } while (result == guard::kTurnedAway && !guard::TurnIsOver());
    if (result == guard::kTurnedAway || result == guard::kTryLater) {
      guard::HandOver(fd, flags, guard::AcceptOnce);
      errno = EAGAIN;
    }
  }
  if (result < 0) return -1;
  if (address != nullptr && size != nullptr &&
      getpeername(result, address, size) != 0) {
    *size = 0;  // it is gone: as accept4 says of a socket without a name
  }
  return result;
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_recvmsg, fd, message, flags);
  if (size <= 0 || (flags & MSG_PEEK) != 0) return size;
  guard::Connection* const connection = guard::Find(fd);
  if (connection == nullptr ||
      guard::Take(*connection, *message, static_cast<size_t>(size))) {
    return size;
  }
  errno = ECONNRESET;
  return -1;
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_sendmsg, fd, message, flags);
  guard::Connection* const connection = guard::Find(fd);
  if (size > 0 && connection != nullptr) {
    guard::Sent(*connection, *message, static_cast<size_t>(size));
  }
  return size;
}

int close(int fd) {
  guard::Connection* const connection = guard::Find(fd);
  if (connection != nullptr) {
    guard::Leave(*connection);
  } else {
    guard::ForgetListener(fd);
  }
  const int status = guard::Close(fd);
  if (guard::g_spare_lost.load(std::memory_order_relaxed)) {
    guard::RegainSpare();
  }
  return status;
}

}  // extern "C"
