#include "server/accept_turns.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"

namespace planb::server {
namespace {

constexpr std::chrono::seconds kCalm(1);  // then a listener is handed back
constexpr std::chrono::milliseconds kPause(1);  // until there may be a file
constexpr int kWaitMs = 10;  // for somebody to come, others' turns apart

int EpollCtl(int epoll, int operation, int fd, epoll_event* event) {
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}

void Close(int fd) { syscall(SYS_close, fd); }

bool Listens(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
         listens != 0;
}

// Thread-safe. Never freed: listeners may outlive all else.
class Listeners {
 public:
  static Listeners& Get() {
    static Listeners* const listeners = new Listeners;
    return *listeners;
  }

  // As epoll_ctl.
  int Control(int epoll, int operation, int fd, epoll_event* event) {
    std::unique_lock lock(mutex_);
    if (operation != EPOLL_CTL_MOD) Erase(fd, lock);
    const int status = EpollCtl(epoll, operation, fd, event);
    if (status == 0 && operation != EPOLL_CTL_DEL && Listens(fd)) {
      Listener& listener = all_[fd];
      listener.epoll = epoll;
      listener.event = *event;
      if (listener.try_accept != nullptr) Ask(fd, listener, false);
    }
    return status;
  }

  void Forget(int fd) {
    std::unique_lock lock(mutex_);
    Erase(fd, lock);
  }

  bool HandOver(int fd, int flags, TryAccept try_accept) {
    const std::lock_guard lock(mutex_);
    const auto it = all_.find(fd);
    if (it == all_.end()) return false;
    Listener& listener = it->second;
    if (listener.bell < 0) {
      listener.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      epoll_event event = listener.event;
      event.events |= EPOLLET;  // for nobody ever reads it
      if (listener.bell < 0 ||
          EpollCtl(listener.epoll, EPOLL_CTL_ADD, listener.bell, &event) != 0) {
        if (listener.bell >= 0) Close(std::exchange(listener.bell, -1));
        return false;
      }
    }
    listener.try_accept = try_accept;
    listener.flags = flags;
    listener.turned_away = SteadyNow();
    Ask(fd, listener, false);
    // Not before the first is needed: most servers need none.
    if (!std::exchange(started_, true)) {
      std::thread([this] { Run(); }).detach();
    }
    changed_.notify_all();
    return true;
  }

  int TakeAccepted(int fd) {
    const std::lock_guard lock(mutex_);
    const auto it = all_.find(fd);
    if (it == all_.end()) return kTryLater;
    Listener& listener = it->second;
    if (listener.accepted.empty()) {
      return listener.try_accept == nullptr ? kTryLater : kNobodyWaits;
    }
    const int connection = listener.accepted.front();
    listener.accepted.pop_front();
    return connection;
  }

 private:
  struct Listener {
    int epoll = -1;
    epoll_event event = {};
    TryAccept try_accept = nullptr;  // null: not handed over
    int flags = 0;
    SteadyInstant turned_away;
    int bell = -1;  // rung for those who wait for the listener
    std::deque<int> accepted;
  };

  // Asks epoll to tell of the listener, or not to.
  static void Ask(int fd, const Listener& listener, bool tell) {
    epoll_event event = listener.event;
    if (!tell) event.events = 0;
    EpollCtl(listener.epoll, EPOLL_CTL_MOD, fd, &event);
  }

  static void AwaitSomebody(int fd) {
    pollfd listener = {.fd = fd, .events = POLLIN, .revents = 0};
    poll(&listener, 1, kWaitMs);
  }

  static void Ring(const Listener& listener) {
    const uint64_t one = 1;
    static_cast<void>(!write(listener.bell, &one, sizeof(one)));
  }

  void Erase(int fd, std::unique_lock<std::mutex>& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    changed_.wait(lock, [&] { return busy_ != fd; });
    const auto it = all_.find(fd);
    if (it == all_.end()) return;
    if (it->second.bell >= 0) Close(it->second.bell);
    // Nobody will come for them.
    const std::deque<int> accepted = std::move(it->second.accepted);
    all_.erase(it);
    lock.unlock();
    for (const int connection : accepted) close(connection);
    lock.lock();
  }

  // The first that is handed over, after `last`; else one before it.
  std::map<int, Listener>::iterator Next(int last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto from : {all_.upper_bound(last), all_.begin()}) {
      for (auto it = from; it != all_.end(); ++it) {
        if (it->second.try_accept != nullptr) return it;
      }
    }
    return all_.end();
  }

  void Run() {
    std::unique_lock lock(mutex_);
    auto it = all_.end();
    for (int last = -1;;) {
      changed_.wait(lock, [&] { return (it = Next(last)) != all_.end(); });
      last = busy_ = it->first;
      Listener& listener = it->second;  // stays, while busy_ is its number
      const auto [try_accept, flags] =
          std::pair(listener.try_accept, listener.flags);
      lock.unlock();
      int result = kTurnedAway, turned_away = 0;
      do {
        result = try_accept(last, flags);
      } while (result == kTurnedAway && ++turned_away < kAcceptTurn);
      if (result == kTryLater) std::this_thread::sleep_for(kPause);
      if (result == kNobodyWaits) AwaitSomebody(last);
      lock.lock();
      busy_ = -1;
      const SteadyInstant now = SteadyNow();
      if (turned_away > 0) listener.turned_away = now;
      if (result >= 0) {
        listener.accepted.push_back(result);
        Ring(listener);
      } else if (result == kNobodyWaits && now - listener.turned_away > kCalm) {
        listener.try_accept = nullptr;
        // Tells at once, if somebody has come since.
        Ask(last, listener, true);
      }
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;  // something is handed over; busy_ changes
  std::map<int, Listener> all_ ABSL_GUARDED_BY(mutex_);
  int busy_ ABSL_GUARDED_BY(mutex_) = -1;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

bool TurnIsOver() {
  static std::atomic<int64_t> second = 0;
  static std::atomic<int> count = 0;
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          SteadyNow().time_since_epoch())
                          .count();
  if (second.exchange(now) != now) count = 0;
  return ++count >= kAcceptTurn;
}

bool HandOver(int fd, int flags, TryAccept try_accept) {
  return Listeners::Get().HandOver(fd, flags, try_accept);
}

int TakeAccepted(int fd) { return Listeners::Get().TakeAccepted(fd); }

void ForgetListener(int fd) { Listeners::Get().Forget(fd); }

}  // namespace planb::server

extern "C" int epoll_ctl(int epoll, int operation, int fd,
                         epoll_event* event) noexcept {
  return planb::server::Listeners::Get().Control(epoll, operation, fd, event);
}
