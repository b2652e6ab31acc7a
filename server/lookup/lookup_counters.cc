// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_counters.h"

#include <chrono>

#include "base/monotonic_time.h"

namespace planb::server {
namespace {

uint64_t Get(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

template <size_t size>
void AddAll(const std::array<std::atomic<uint64_t>, size>& counters,
            std::array<uint64_t, size>& totals) {
  for (size_t i = 0; i < size; ++i) totals[i] += Get(counters[i]);
}

}  // namespace

void LookupCounters::Answered(size_t addresses, size_t misses,
                              SteadyInstant::duration elapsed) {
  if (!counting_) return;
  const int64_t nanoseconds = std::chrono::nanoseconds(elapsed).count();
  Add(lookups_, addresses);
  Add(misses_, misses);
  Add(nanoseconds_, static_cast<uint64_t>(nanoseconds));
  Add(by_duration_[DurationBucket(nanoseconds)], 1);
  Add(by_size_[SizeBucket(addresses)], 1);
}

void LookupCounters::Failed(absl::string_view reason) {
  const auto known = std::find(kLookupErrorReasons.begin(),
                               kLookupErrorReasons.end() - 1, reason);
  Add(failures_[static_cast<size_t>(known - kLookupErrorReasons.begin())], 1);
}

void LookupCounters::AddTo(LookupTotals& totals) const {
  totals.lookups += Get(lookups_);
  totals.misses += Get(misses_);
  totals.nanoseconds += Get(nanoseconds_);
  totals.received += Get(received_);
  totals.sent += Get(sent_);
  totals.slow += Get(slow_);
  totals.streams += Get(streams_);
  totals.held += held_.Total(SteadyNow());
  AddAll(by_duration_, totals.by_duration);
  AddAll(by_size_, totals.by_size);
  AddAll(failures_, totals.failures);
}

}  // namespace planb::server
