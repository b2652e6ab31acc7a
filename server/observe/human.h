// SPDX-License-Identifier: Apache-2.0

// Numbers and times as people read them.

#ifndef PLANB_SERVER_OBSERVE_HUMAN_H_
#define PLANB_SERVER_OBSERVE_HUMAN_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace planb::server {

// 1,234,567.
std::string HumanCount(uint64_t value);

// 1.5 MiB.
std::string HumanBytes(uint64_t bytes);

// 1h12m, 2.09s, 18.5ms: nobody wants nanoseconds of hours.
std::string HumanSpan(absl::Duration span);

// 2026-11-20 20:45:00 UTC.
std::string HumanTime(absl::Time time);

// 1h12m ago; "never" for InfinitePast.
std::string HumanAgo(absl::Time now, absl::Time then);

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HUMAN_H_
