// SPDX-License-Identifier: Apache-2.0

// Runs the real server as a child process, and what its tests share besides.

#ifndef PLANB_BASE_TESTING_SERVER_PROCESS_H_
#define PLANB_BASE_TESTING_SERVER_PROCESS_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace planb {

// The number in a variable that makes a test longer, or shorter; `otherwise`,
// if it is not set. Ends the process if it is no number.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  if (text == nullptr || absl::SimpleAtoi(text, &value)) return value;
  std::cerr << name << " is no number: " << text << "\n";
  std::exit(2);
}

// A path that no other process uses, short enough for a Unix socket.
inline std::string TempPath(absl::string_view name) {
  return absl::StrCat("/tmp/planb_", getpid(), "_", name);
}

// Runs //server:planb_server, which must be in the test's data, with its stderr
// in a file. The destructor kills it. Not thread-safe.
class ServerProcess {
 public:
  // `environment` has NAME=VALUE, beside the variables of the test.
  explicit ServerProcess(std::vector<std::string> arguments,
                         std::vector<std::string> environment = {})
      : log_(TempPath(absl::StrCat("stderr", ++count_))) {
    arguments.insert(arguments.begin(), "server/planb_server");
    // The first value of a variable counts.
    for (char** v = environ; *v != nullptr; ++v) environment.emplace_back(*v);
    std::vector<char*> argv, envp;
    for (std::string& a : arguments) argv.push_back(a.data());
    for (std::string& e : environment) envp.push_back(e.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      if (freopen(log_.c_str(), "w", stderr) == nullptr ||
          freopen("/dev/null", "w", stdout) == nullptr) {
        _exit(126);
      }
      execve(argv[0], argv.data(), envp.data());
      _exit(127);
    }
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    if (pid_ > 0) {
      Kill(SIGKILL);
      Wait();
    }
    unlink(log_.c_str());
  }

  pid_t pid() const { return pid_; }

  void Kill(int signal) const { kill(pid_, signal); }

  // Waits for the end of the process. Returns the exit status, or -signal, or
  // -1000 after a minute.
  int Wait() {
    int status = 0;
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (absl::Now() > deadline) return -1000;
      absl::SleepFor(absl::Milliseconds(5));
    }
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Log() const {
    std::ifstream in(log_);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }

  // False if it does not serve within a minute.
  bool AwaitServing() const {
    for (int i = 0; i < 12'000; ++i) {
      if (Log().find(" serving\n") != std::string::npos) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }

  // The port bound for `address` of --listen; 0 if none. Call once it serves.
  int PortOf(absl::string_view address) const {
    return LoggedPort("listening", address);
  }

  // Waits for the port bound for 127.0.0.1:0 that serves `pages` ("metrics" or
  // "health"), and returns it. Returns 0 after a minute.
  int AwaitPortOf(absl::string_view pages) const {
    const std::string what = absl::StrCat("serving ", pages);
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (absl::Now() < deadline) {
      const int port = LoggedPort(what, "127.0.0.1:0");
      if (port != 0) return port;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return 0;
  }

 private:
  // Returns 0 until the log has that line.
  int LoggedPort(absl::string_view what, absl::string_view address) const {
    const std::string mark = absl::StrCat(what, " address=", address, " port=");
    const std::string log = Log();
    const size_t at = log.find(mark);
    return log.find('\n', at) == std::string::npos
               ? 0
               : std::atoi(&log[at + mark.size()]);
  }

  static inline int count_ = 0;
  pid_t pid_;
  std::string log_;
};

}  // namespace planb

#endif  // PLANB_BASE_TESTING_SERVER_PROCESS_H_
