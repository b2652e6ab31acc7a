// SPDX-License-Identifier: Apache-2.0

// A table's own thread: what was accepted is built, beside the lookups, and
// published. However many batches came meanwhile are one build.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "server/base/log.h"
#include "server/base/malloc_trim.h"
#include "server/table/table.h"

namespace planb::server {
namespace {

// How often a retired snapshot is looked after when nothing is published.
constexpr auto kReclaimPeriod = std::chrono::milliseconds(100);
// After a build that took long, half as long again, at most this, is left to
// others: under a storm of changes lookups keep their cores.
constexpr absl::Duration kLongBuild = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(25);
// A build that failed is tried again after this, then after twice as long...
constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLastRetry = absl::Seconds(5);
constexpr absl::Duration kNoPause = absl::ZeroDuration();
// A build of so many changes leaves memory worth giving back.
constexpr size_t kManyRoutes = 50'000;

}  // namespace

void Table::BuildLoop() {
  std::vector<Accepted> batches;  // also those whose build has failed
  absl::Duration retry = kFirstRetry;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (accepted_.empty() && batches.empty()) {
      const bool idle = !to_build_.wait_for(lock, kReclaimPeriod, [this] {
        return stopping_ || !accepted_.empty();
      });
      lock.unlock();
      if (idle) Tidy();
      lock.lock();
      continue;
    }
    std::move(accepted_.begin(), accepted_.end(), std::back_inserter(batches));
    accepted_.clear();
    const uint64_t generation = staging_.accepted().generation;
    const Rib rib = staging_.accepted().rib.Share();
    lock.unlock();

    const SteadyInstant start = SteadyNow();
    const bool built = Build(generation, rib, batches);
    const absl::Duration took = ElapsedSince(start);
    absl::Duration pause;
    if (built) {
      batches.clear();
      retry = kFirstRetry;
      if (took > kLongBuild) pause = std::min(took / 2, kLongestPause);
    } else {
      pause = retry;
      retry = std::min(2 * retry, kLastRetry);
    }
    lock.lock();
    to_build_.wait_for(lock, absl::ToChronoNanoseconds(pause),
                       [&] { return stopping_ || pause == kNoPause; });
  }
}

bool Table::Build(uint64_t generation, const Rib& rib,
                  const std::vector<Accepted>& batches) {
  const SteadyInstant start = SteadyNow();
  std::vector<std::shared_ptr<const Delta>> deltas;
  for (const Accepted& batch : batches) {
    deltas.push_back(batch.delta);
    routes_built_ += batch.delta->routes.size();
  }
  const uint64_t full_before = builder_.full_builds();
  auto snapshot = builder_.Build(generation, rib, deltas);
  const RebuildRecord record = {
      .table = name_,
      .generation = generation,
      .full = builder_.full_builds() != full_before,
      .took = ElapsedSince(start),
      .at = absl::Now(),
      .error = std::string(snapshot.status().message())};
  {
    // Before it is published: who has seen it can see how it was built.
    const std::lock_guard lock(mutex_);
    builds_.incremental = builder_.incremental_builds();
    builds_.full = builder_.full_builds();
    builds_.last_error = record.error;
    if (snapshot.ok()) {
      builds_.last_took = record.took;
      builds_.last_at = record.at;
    } else {
      ++builds_.failed;
    }
  }
  if (options_.events.rebuilt) options_.events.rebuilt(record);
  if (!snapshot.ok()) {
    if (options_.events.build_failed) options_.events.build_failed();
    Log(LogLevel::kError, "a rebuild failed and will be tried again",
        {{"table", name_},
         {"generation", generation},
         {"error", snapshot.status().message()}});
    return false;
  }
  Publish(*std::move(snapshot), batches);
  if (options_.events.built) {
    options_.events.built(record.took, record.full);
  }
  return true;
}

void Table::Tidy() {
  Reclaim();
  if (std::exchange(routes_built_, 0) >= kManyRoutes) TrimHeap();
}

void Table::Publish(std::unique_ptr<const Snapshot> snapshot,
                    const std::vector<Accepted>& batches) {
  const uint64_t generation = snapshot->generation();
  published_.Publish(std::move(snapshot));
  const absl::Time moment = absl::Now();
  const SteadyInstant now = SteadyNow();
  std::vector<History::DeltaPtr> deltas;
  for (const Accepted& batch : batches) deltas.push_back(batch.delta);
  // Before the acknowledgements: who has one may watch from there.
  history_.Append(deltas);
  visibility_.Advance(generation, moment);
  waiters_.Advance(generation);
  for (const Accepted& batch : batches) {
    if (options_.events.visible) {
      options_.events.visible(absl::FromChrono(now - batch.at));
    }
  }
}

}  // namespace planb::server
