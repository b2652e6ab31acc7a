// SPDX-License-Identifier: Apache-2.0

// Offsets from the start are summed up or multiplied in doubles: exact to the
// nanosecond for the first 100 days.

#include "client/load/arrivals.h"

#include <cmath>

namespace planb::client {

Arrivals::Arrivals(const ArrivalOptions& options, absl::Time start)
    : options_(options),
      start_(start),
      gap_ns_(1e9 / options.batches_per_second),
      random_(options.seed * 0x9e3779b97f4a7c15 + options.stream) {
  Schedule();
}

void Arrivals::Pop() {
  ++count_;
  Schedule();
}

void Arrivals::Schedule() {
  if (options_.kind == ArrivalKind::kEven) {
    const double turn = static_cast<double>(options_.stream) /
                        static_cast<double>(options_.streams);
    offset_ns_ = gap_ns_ * (static_cast<double>(count_) + turn);
  } else {
    // 0 < unit <= 1.
    const double unit =
        static_cast<double>((random_.Next() >> 11) + 1) * 0x1p-53;
    offset_ns_ -= gap_ns_ * std::log(unit);
  }
  next_ = start_ + absl::Nanoseconds(std::llround(offset_ns_));
}

}  // namespace planb::client
