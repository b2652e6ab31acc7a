// What a measuring program does with processes: bind them to cores, and tell
// what they cost.

#ifndef PLANB_BENCHMARKS_SERVING_RPC_PROCESS_H_
#define PLANB_BENCHMARKS_SERVING_RPC_PROCESS_H_

#include <sys/types.h>

namespace planb::rpc {

// Seconds of processor time that all threads of a process have used, to the
// nanosecond; 0 for a process that is not there.
double CpuSecondsOf(pid_t process);

// Lets this process be killed when its parent ends, however that happens.
void DieWithParent();

}  // namespace planb::rpc

#endif  // PLANB_BENCHMARKS_SERVING_RPC_PROCESS_H_
