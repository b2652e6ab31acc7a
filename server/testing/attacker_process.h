// SPDX-License-Identifier: Apache-2.0

// server/testing/hostile_attacker.cc as a child process.

#ifndef PLANB_SERVER_TESTING_ATTACKER_PROCESS_H_
#define PLANB_SERVER_TESTING_ATTACKER_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace planb::server {

// Attacks from its construction until Stop, or its end. Not thread-safe.
class AttackerProcess {
 public:
  // `program` is a path to the attacker.
  AttackerProcess(std::string program, std::string target, std::string attack,
                  uint64_t seed) {
    if (pipe2(output_, O_CLOEXEC) != 0) return;
    std::string seed_text = absl::StrCat(seed), full_speed = "0";
    char* const argv[] = {program.data(),   target.data(),     attack.data(),
                          seed_text.data(), full_speed.data(), nullptr};
    pid_ = fork();
    if (pid_ != 0) {
      close(std::exchange(output_[1], -1));
      return;
    }
    dup2(output_[1], STDOUT_FILENO);
    execv(argv[0], argv);
    _exit(127);
  }
  ~AttackerProcess() {
    Stop();
    close(output_[0]);
  }
  AttackerProcess(const AttackerProcess&) = delete;
  AttackerProcess& operator=(const AttackerProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Waits for its first step. False if it never takes one.
  bool AwaitBegun() const {
    char byte = 0;
    while (read(output_[0], &byte, 1) == 1) {
      if (byte == '\n') return true;
    }
    return false;
  }

  // Ends it. REQUIRES: AwaitBegun() was called. The steps it took; 0 if it did
  // not run, or after the first time.
  uint64_t Stop() {
    const pid_t pid = std::exchange(pid_, -1);
    if (pid <= 0) return 0;
    kill(pid, SIGTERM);
    int status = 0;
    waitpid(pid, &status, 0);
    char text[32] = {};
    uint64_t steps = 0;
    if (status != 0 || read(output_[0], text, sizeof(text) - 1) <= 0) return 0;
    return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &steps) ? steps
                                                                      : 0;
  }

 private:
  int output_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_ATTACKER_PROCESS_H_
