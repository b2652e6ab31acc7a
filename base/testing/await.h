// SPDX-License-Identifier: Apache-2.0

// Waits for what comes true soon, such as a line of another process's log.

#ifndef PLANB_BASE_TESTING_AWAIT_H_
#define PLANB_BASE_TESTING_AWAIT_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace planb {

// How long a test waits before it fails.
inline constexpr absl::Duration kPatience = absl::Minutes(1);

// Asks for the condition every 2 ms. Returns false if it is not true within
// `patience`.
template <typename Condition>
bool Await(const Condition& condition, absl::Duration patience = kPatience) {
  const SteadyInstant deadline = SteadyAfter(patience);
  while (!condition()) {
    if (SteadyNow() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

// Whether one of three attempts succeeds. For what a machine that holds up a
// process for some hundred milliseconds may spoil, and nothing else: what the
// product does wrong each time fails all three.
template <typename Attempt>
bool SucceedsInThree(const Attempt& attempt) {
  return attempt() || attempt() || attempt();
}

}  // namespace planb

#endif  // PLANB_BASE_TESTING_AWAIT_H_
