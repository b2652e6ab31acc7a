// SPDX-License-Identifier: Apache-2.0

// hostile_attacker TARGET ATTACK SEED RATE: one attacker as a process. Attacks
// until SIGTERM, with at most RATE steps a second (0: no limit), then prints
// the number of its steps. If root starts it, it becomes another user, because
// the server tells clients apart by process and user.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "server/testing/hostile_attacks.h"

namespace planb::server {
namespace {

int Main(const std::string& target, const std::string& name, uint64_t seed,
         double rate) {
  // This id needs no account.
  constexpr uid_t kNobody = 65534;
  if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) {
    std::perror("setuid");
    return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  for (const Attack& attack : AllAttacks()) {
    if (attack.name != name) continue;
    Attacker attacker(target, seed, rate);
    std::thread waiting([&attacker, &end] {
      int signal;
      sigwait(&end, &signal);
      std::printf("%ju\n", static_cast<uintmax_t>(attacker.steps()));
      std::fflush(stdout);
      _exit(0);  // at once: a step may wait for the server
    });
    std::thread begun([&attacker] {
      while (attacker.steps() == 0) absl::SleepFor(absl::Milliseconds(5));
      std::printf("begun\n");
      std::fflush(stdout);
    });
    while (true) attack.run(attacker);
  }
  std::fprintf(stderr, "there is no attack %s\n", name.c_str());
  return 1;
}

}  // namespace
}  // namespace planb::server

int main(int argc, char** argv) {
  uint64_t seed;
  double rate;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &seed) ||
      !absl::SimpleAtod(argv[4], &rate)) {
    std::fprintf(stderr, "usage: %s TARGET ATTACK SEED RATE\n", argv[0]);
    return 1;
  }
  return planb::server::Main(argv[1], argv[2], seed, rate);
}
