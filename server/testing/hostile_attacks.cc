// SPDX-License-Identifier: Apache-2.0

#include "server/testing/hostile_attacks.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace planb::server {

bool Attacker::Go(uint64_t steps) {
  steps_ += steps;
  if (rate_ > 0) {
    const absl::Time now = absl::Now();
    // What could not be done in time is not made up for.
    next_ = std::max(next_, now - absl::Milliseconds(100)) +
            absl::Seconds(static_cast<double>(steps) / rate_);
    while (!stopped_ && absl::Now() < next_) {
      absl::SleepFor(std::min(next_ - absl::Now(), absl::Milliseconds(50)));
    }
  }
  return !stopped_;
}

std::string Attacker::RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

}  // namespace planb::server
