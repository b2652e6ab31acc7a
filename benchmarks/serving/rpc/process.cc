#include "benchmarks/serving/rpc/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

namespace planb::rpc {

double CpuSecondsOf(pid_t process) {
  clockid_t clock;
  timespec time = {};
  if (clock_getcpuclockid(process, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace planb::rpc
