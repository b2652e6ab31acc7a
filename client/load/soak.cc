// SPDX-License-Identifier: Apache-2.0

#include "client/load/soak.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"

namespace planb::client {
namespace {

// Maximum time until a waiting stream notices SoakOptions::stop.
constexpr absl::Duration kNap = absl::Milliseconds(50);
// Pause after an error that a retry does not repair.
constexpr absl::Duration kPause = absl::Milliseconds(100);

class DisconnectCounter : public LookupObserver {
 public:
  void OnDisconnect(const absl::Status&, absl::Duration) override { ++count_; }
  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
};

// One stream. Used by one thread.
class Soaker {
 public:
  Soaker(const OpenChannel& open, const Trace& trace,
         const SoakOptions& options, size_t first)
      : open_(open),
        trace_(trace),
        options_(options),
        next_(first),
        end_(MonotonicNow() + options.duration) {}

  SoakCounts Run() {
    absl::Time due = MonotonicNow();
    while (AwaitTurn(due)) {
      Ask();
      due = std::max(due + options_.period, MonotonicNow());
    }
    CloseHandle();
    counts_.disconnects = disconnects_.count();
    return std::move(counts_);
  }

 private:
  // False when the time is up.
  bool AwaitTurn(absl::Time due) const {
    while (options_.stop == nullptr || !*options_.stop) {
      const absl::Time now = MonotonicNow();
      if (now >= end_) return false;
      if (now >= due) return true;
      absl::SleepFor(std::min({due - now, end_ - now, kNap}));
    }
    return false;
  }

  void Ask() {
    if (lookup_ == nullptr) {
      // Each batch has its own deadline.
      lookup_ = std::make_unique<BatchLookup>(
          open_, BatchLookupOptions{.max_in_flight = 1,
                                    .give_up_after = absl::InfiniteDuration(),
                                    .observer = &disconnects_});
    }
    const size_t index = next_++;
    const absl::Time sent = MonotonicNow();
    absl::Status status =
        lookup_->Send(trace_.Get(index), Deadline::After(options_.timeout))
            .status();
    bool ended = !status.ok();
    if (!ended) {
      const auto received = lookup_->Receive(result_);
      ended = !received.ok();
      status = ended ? received.status() : result_.status;
    }
    counts_.latency.Add(MonotonicNow() - sent);
    if (status.ok()) {
      Check(index);
    } else {
      ++counts_.failures[absl::StatusCodeToString(status.code())];
    }
    if (ended) {
      CloseHandle();
      absl::SleepFor(kPause);
    }
  }

  void Check(size_t index) {
    ++counts_.batches;
    counts_.lookups += result_.next_hops.size();
    const absl::Span<const NextHopId> expected =
        trace_.Slice(options_.expected, index);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (result_.next_hops[i] != expected[i]) ++counts_.mismatches;
    }
  }

  void CloseHandle() {
    if (lookup_ == nullptr) return;
    counts_.reconnects += lookup_->reconnects();
    lookup_.reset();
  }

  const OpenChannel& open_;
  const Trace& trace_;
  const SoakOptions& options_;
  size_t next_;
  const absl::Time end_;
  DisconnectCounter disconnects_;  // before the handle, which reports to it
  std::unique_ptr<BatchLookup> lookup_;
  BatchResult result_;
  SoakCounts counts_;
};

}  // namespace

void SoakCounts::Merge(const SoakCounts& other) {
  batches += other.batches;
  lookups += other.lookups;
  mismatches += other.mismatches;
  for (const auto& [code, count] : other.failures) failures[code] += count;
  disconnects += other.disconnects;
  reconnects += other.reconnects;
  latency.Merge(other.latency);
}

SoakCounts RunSoak(const OpenChannel& open, const Trace& trace,
                   const SoakOptions& options) {
  const absl::Time start = MonotonicNow();
  std::vector<SoakCounts> each(std::max<size_t>(options.streams, 1));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < each.size(); ++i) {
    threads.emplace_back([&, i] {
      // Streams start at different addresses.
      const size_t first = i * trace.batches() / each.size();
      each[i] = Soaker(open, trace, options, first).Run();
    });
  }
  SoakCounts all;
  for (size_t i = 0; i < each.size(); ++i) {
    threads[i].join();
    all.Merge(each[i]);
  }
  all.elapsed = MonotonicNow() - start;
  return all;
}

}  // namespace planb::client
