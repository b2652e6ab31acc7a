// SPDX-License-Identifier: Apache-2.0

#include "server/observe/human.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace planb::server {

std::string HumanCount(uint64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 || value >= 100 ? 0 : 1, value,
                         kUnits[unit]);
}

std::string HumanSpan(absl::Duration span) {
  if (span >= absl::Hours(1)) {
    return absl::FormatDuration(absl::Trunc(span, absl::Minutes(1)));
  }
  if (span >= absl::Minutes(1)) {
    return absl::FormatDuration(absl::Trunc(span, absl::Seconds(1)));
  }
  for (const absl::Duration unit :
       {absl::Seconds(1), absl::Milliseconds(1), absl::Microseconds(1)}) {
    if (span < unit) continue;
    const int finer = span < 10 * unit ? 100 : span < 100 * unit ? 10 : 1;
    return absl::FormatDuration(absl::Trunc(span, unit / finer));
  }
  return absl::FormatDuration(span);
}

std::string HumanTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

std::string HumanAgo(absl::Time now, absl::Time then) {
  return then == absl::InfinitePast()
             ? "never"
             : absl::StrCat(
                   HumanSpan(std::max(now - then, absl::ZeroDuration())),
                   " ago");
}

}  // namespace planb::server
