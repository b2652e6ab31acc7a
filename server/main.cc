// SPDX-License-Identifier: Apache-2.0

// planb_server: the longest-prefix-match service as a process.

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/cpu_list.h"
#include "base/mutex.h"
#include "base/process_setup.h"
#include "base/target.h"
#include "server/base/client_channel.h"
#include "server/base/log.h"
#include "server/base/malloc_trim.h"
#include "server/base/periodic.h"
#include "server/config.h"
#include "server/net/transport.h"
#include "server/server.h"
#include "server/server_flags.h"
#include "server/store/open_store.h"

namespace planb::server {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Handles SIGTERM and SIGINT. Before Serve(), a signal ends the process at once
// with status 0: a shutdown does not wait until a large table is restored, and
// the store survives a kill. After Serve(), the signal is for Await(), and the
// server drains. SIGHUP reloads; one before Serve() does when that is called.
//
// REQUIRES: constructed before all other threads, which inherit that these
// signals are blocked. Not thread-safe.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on, signals no longer end the process, and SIGHUP calls `reload`,
  // on a thread of this class. REQUIRES: called once.
  void Serve(std::function<void()> reload);

  // From now on, `reload` is not called.
  void IgnoreReloads();

  // Waits for a signal and returns it. REQUIRES: Serve() was called.
  int Await();

 private:
  void Loop();

  Mutex mutex_;
  CondVar came_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool reload_pending_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> reload_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // uses the members above
};

StopSignals::StopSignals() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Loop(); });
}

StopSignals::~StopSignals() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  // A thread that has ended and is not joined ignores the signal.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it waits for signals.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::Serve(std::function<void()> reload) {
  const MutexLock lock(mutex_);
  serving_ = true;
  reload_ = std::move(reload);
  if (reload_pending_) reload_();
}

void StopSignals::IgnoreReloads() {
  const MutexLock lock(mutex_);
  reload_ = nullptr;
}

int StopSignals::Await() {
  MutexLock lock(mutex_);
  came_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return signal_ != 0;
  });
  return signal_;
}

void StopSignals::Loop() {
  const sigset_t signals = Signals();
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) {
    const MutexLock lock(mutex_);
    reload_pending_ = !serving_;
    if (reload_ != nullptr) reload_();
  }
  const MutexLock lock(mutex_);
  if (!serving_ && !ending_) {
    Log(LogLevel::kInfo, "stopped before serving", {{"signal", signal}});
    // Without cleanup: the main thread still loads tables.
    _exit(0);
  }
  signal_ = signal;
  came_.notify_one();
}

// Tells the supervisor that started this process, if it asked to be told
// (sd_notify(3)): "READY=1" or "STOPPING=1".
void Notify(absl::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  if (path == nullptr || std::strlen(path) >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                           std::strlen(path));
  if (sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
             reinterpret_cast<sockaddr*>(&address), size) < 0) {
    Log(LogLevel::kWarning, "the supervisor cannot be told",
        {{"socket", path}, {"errno", errno}});
  }
  close(fd);
}

// Reports why the server does not start, or would not, in one line. Returns the
// exit status.
int Refuse(const absl::Status& status) {
  std::string line(status.message());
  // Messages of libraries, such as SQLite's, may have several lines.
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (LogsJson()) {
    Log(LogLevel::kError, "refused to start", {{"error", line}});
  } else {
    std::fprintf(stderr, "planb_server: %s\n", line.c_str());
  }
  return 1;
}

// Checks what can be known before the start. Reads the files that flags name,
// opens no socket and no store, and calls no other server. Reports each problem
// in a line. Returns the exit status.
int CheckConfig(const CommandLine& line) {
  std::vector<absl::Status> of_parts = {SetLogLevel(line.log_level),
                                        SetLogFormat(line.log_format)};
  const auto add = [&](const std::vector<absl::Status>& more) {
    of_parts.insert(of_parts.end(), more.begin(), more.end());
  };
  add(line.problems);
  add({SetPolling(line.polling,
                  line.server.transport.connections.max_connections)
           .status()});
  add(CheckOptions(line.server));
  add({CheckInitialTable(line.server.initial)});
  add(CheckStore(line.store));
  if (!line.otlp.endpoint.empty()) {
    add({CheckTarget("--otlp_endpoint", line.otlp.endpoint)});
    add(CheckClientTls(line.otlp.tls));
  }
  int code = 0;
  for (const absl::Status& status : of_parts) {
    if (!status.ok()) code = Refuse(status);
  }
  if (code == 0) std::puts("the configuration is sound");
  return code;
}

// A write beyond RLIMIT_FSIZE fails like one on a full disk, and does not end
// the process.
void SurviveFileLimits() { signal(SIGXFSZ, SIG_IGN); }

int Main(int argc, char** argv) {
  SetUpProcess();
  SurviveFileLimits();
  const auto line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Refuse(line.status());
  if (line->check_config) return CheckConfig(*line);
  const absl::Status level = SetLogLevel(line->log_level);
  if (!level.ok()) return Refuse(level);
  const absl::Status format = SetLogFormat(line->log_format);
  if (!format.ok()) return Refuse(format);

  if (line->print_config) {
    std::fputs(FlagsAsYaml().c_str(), stdout);
    return 0;
  }

  ServerOptions options = line->server;
  KeepOff(options.threads.cpus);
  const auto polling =
      SetPolling(line->polling, options.transport.connections.max_connections);
  if (!polling.ok()) return Refuse(polling.status());
  Log(LogLevel::kInfo, "waits for connections", {{"by", *polling}});
  StopSignals stop;
  auto store = OpenStore(line->store);
  if (!store.ok()) return Refuse(store.status());
  options.store = *std::move(store);
  auto cache = OpenCache(line->store, options.store.get());
  if (!cache.ok()) return Refuse(cache.status());
  options.cache = *std::move(cache);
  if (!line->otlp.endpoint.empty()) {
    auto otlp = OtlpExporter::Start(line->otlp);
    if (!otlp.ok()) return Refuse(otlp.status());
    options.otlp = *std::move(otlp);
  }
  Mutex reloading;
  const auto reload =
      [&](Server& running) -> absl::StatusOr<std::vector<std::string>> {
    const MutexLock lock(reloading);
    auto again = ReloadFlags(argc, argv);
    absl::Status status = again.status();
    const auto adopt = running.PrepareReload();
    status.Update(adopt.status());
    if (status.ok()) status = SetLogLevel(again->log_level);
    if (!status.ok()) {
      Log(LogLevel::kError,
          "the configuration cannot be used, the old one stays",
          {{"error", status.message()}});
      return status;
    }
    (*adopt)();
    Log(LogLevel::kInfo, "reloaded", {{"log_level", again->log_level}});
    if (!again->need_restart.empty()) {
      Log(LogLevel::kWarning, "changes take effect at the next start",
          {{"flags", absl::StrJoin(again->need_restart, ",")}});
    }
    return std::move(again->need_restart);
  };
  options.reload = reload;
  auto server = Server::Start(std::move(options));
  if (!server.ok()) return Refuse(server.status());
  stop.Serve([&] { reload(**server).status().IgnoreError(); });
  Log(LogLevel::kInfo, "serving");
  Notify("READY=1");
  const Periodic tidy(absl::Seconds(5), TidyHeap);

  const int signal = stop.Await();
  stop.IgnoreReloads();
  Log(LogLevel::kInfo, "draining", {{"signal", signal}});
  Notify("STOPPING=1");
  (*server)->Drain(line->drain_timeout);
  Log(LogLevel::kInfo, "drained");
  return 0;
}

}  // namespace
}  // namespace planb::server

int main(int argc, char** argv) { return planb::server::Main(argc, argv); }
