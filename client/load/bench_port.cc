// Threads that sleep here have the kernel's timer slack, which is 50 us unless
// asked otherwise, set to the least.

#include "client/load/bench_port.h"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace planb::client {

void StreamPort::SleepUntil(absl::Time time) {
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  static_cast<void>(slack);
  const timespec until = absl::ToTimespec(time);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR) {
    continue;
  }
}

}  // namespace planb::client
