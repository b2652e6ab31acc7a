// SPDX-License-Identifier: Apache-2.0

// When the batches of an open loop are due: a schedule made before anything is
// sent, that no answer and no delay can change.

#ifndef PLANB_CLIENT_LOAD_ARRIVALS_H_
#define PLANB_CLIENT_LOAD_ARRIVALS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "lpm/synthetic/random.h"

namespace planb::client {

enum class ArrivalKind {
  kEven,     // one every 1/rate
  kPoisson,  // exponential gaps of mean 1/rate: independent callers
};

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kEven;
  // Of one stream; more than 0.
  double batches_per_second = 1;
  // Even arrivals of several streams take turns: this is stream `stream` of
  // `streams`.
  size_t stream = 0;
  size_t streams = 1;
  // Poisson arrivals: each seed and stream has gaps of its own.
  uint64_t seed = 1;
};

// Thread-compatible.
class Arrivals {
 public:
  // The first even arrival is within 1/rate of `start`, at `start` for stream
  // 0; the first Poisson one a gap after.
  Arrivals(const ArrivalOptions& options, absl::Time start);

  // When the next batch is due. Never before the one before it.
  absl::Time next() const { return next_; }
  // Goes on to the one after. Even arrivals do not drift: the k-th is at k/rate
  // to the nanosecond, however many there were.
  void Pop();

 private:
  void Schedule();

  const ArrivalOptions options_;
  const absl::Time start_;
  const double gap_ns_;
  Random random_;
  // Even: number of arrivals taken. Poisson: not used.
  uint64_t count_ = 0;
  // Poisson: from start_ to next_.
  double offset_ns_ = 0;
  absl::Time next_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_ARRIVALS_H_
