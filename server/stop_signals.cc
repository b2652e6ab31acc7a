// SPDX-License-Identifier: Apache-2.0

#include "server/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "server/base/log.h"

namespace planb::server {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Loop(); });
}

StopSignals::~StopSignals() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  // If it has ended already, the signal finds nobody: it is not joined yet.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it waits for signals.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::Serve() {
  const std::lock_guard lock(mutex_);
  serving_ = true;
}

int StopSignals::Await() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return signal_ != 0; });
  return signal_;
}

void StopSignals::Loop() {
  const sigset_t signals = Signals();
  int signal = 0;
  sigwait(&signals, &signal);
  const std::lock_guard lock(mutex_);
  if (!serving_ && !ending_) {
    Log(LogLevel::kInfo, "stopped before serving", {{"signal", signal}});
    // Nobody tidies up: the main thread is busy, and what it builds is
    // nobody's yet.
    _exit(0);
  }
  signal_ = signal;
  came_.notify_one();
}

}  // namespace planb::server
