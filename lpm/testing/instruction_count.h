// SPDX-License-Identifier: Apache-2.0

// Counts the instructions that a piece of code executes. That cost is the same
// in every run, on a busy machine as on an idle one.
//
// The processor counts: with the trap flag set it stops after every
// instruction, and a signal handler adds one. That needs no performance counter
// and no permission to trace, and it works for every instruction set the
// processor has, which simulators do not; at some 100,000 to a million
// instructions a second.

#ifndef PLANB_LPM_TESTING_INSTRUCTION_COUNT_H_
#define PLANB_LPM_TESTING_INSTRUCTION_COUNT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace planb {

// Runs `region` once, here, and returns how many instructions that took;
// calling it and returning from it do not count. An instruction with a `rep`
// prefix counts once, however long it repeats. A system call may hide the
// instruction after it. To leave lazy binding and other first times out, run
// the region once before.
//
// Errors: UNIMPLEMENTED, saying why, where instructions cannot be counted or
// would be others than those of the product: not x86-64, a build instrumented
// by a sanitizer, a machine (an emulator, say) that ignores the trap flag. The
// region may have run then.
//
// Takes SIGTRAP for as long as it runs. REQUIRES: one call at a time in the
// process; no debugger.
absl::StatusOr<uint64_t> CountInstructions(absl::FunctionRef<void()> region);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_INSTRUCTION_COUNT_H_
