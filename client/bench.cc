// One thread both sends and receives a stream: that is the quickest way when
// cores are few, and what BatchStream is made for.

#include "client/bench.h"

#include <algorithm>
#include <deque>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/time/clock.h"
#include "client/batch_stream.h"

namespace planb::client {
namespace {

// A batch under way.
struct Sent {
  size_t index;
  absl::Time at;
};

// One stream from its first batch to its last answer.
class StreamRun {
 public:
  StreamRun(const Trace& trace, const BenchOptions& options, size_t first)
      : trace_(trace), options_(options), next_(first) {}

  void Run(const std::shared_ptr<grpc::Channel>& channel, absl::Time end) {
    const size_t depth = std::max<size_t>(options_.depth, 1);
    BatchStream stream(channel, {.max_in_flight = depth,
                                 .stall_timeout = options_.stall_timeout});
    while (status_.ok()) {
      const bool sending = absl::Now() < end && !Stopped();
      if (sending && sent_.size() < depth) {
        Send(stream);
      } else if (!sent_.empty()) {
        Receive(stream);
      } else if (!sending) {
        break;
      }
    }
    if (status_.ok()) status_ = stream.Finish();
  }

  const absl::Status& status() const { return status_; }
  const BenchResult& result() const { return result_; }

 private:
  bool Stopped() const {
    return options_.stop != nullptr && options_.stop->load();
  }

  void Send(BatchStream& stream) {
    Batch batch = trace_.Get(next_);
    batch.table = options_.table;
    sent_.push_back({.index = next_++, .at = absl::Now()});
    status_ = stream.Send(batch).status();
  }

  void Receive(BatchStream& stream) {
    status_ = stream.Receive(answer_).status();
    if (status_.ok()) status_ = answer_.status;
    if (!status_.ok()) return;
    const Sent sent = sent_.front();
    sent_.pop_front();
    result_.latency.Add(absl::Now() - sent.at);
    ++result_.batches;
    result_.lookups += answer_.next_hops.size();
    result_.misses +=
        static_cast<uint64_t>(absl::c_count(answer_.next_hops, kNoRoute));
    if (!options_.expected.empty()) Compare(sent.index);
  }

  void Compare(size_t index) {
    const auto expected = trace_.Slice(options_.expected, index);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] != answer_.next_hops[i]) ++result_.mismatches;
    }
  }

  const Trace& trace_;
  const BenchOptions& options_;
  size_t next_;
  std::deque<Sent> sent_;
  BatchResult answer_;
  absl::Status status_;
  BenchResult result_;
};

}  // namespace

absl::StatusOr<BenchResult> RunBench(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Trace& trace, const BenchOptions& options) {
  std::vector<std::unique_ptr<StreamRun>> runs;
  std::vector<std::thread> threads;
  const absl::Time start = absl::Now();
  for (size_t i = 0; i < channels.size(); ++i) {
    runs.push_back(std::make_unique<StreamRun>(
        trace, options, i * trace.batches() / channels.size()));
    threads.emplace_back([&, run = runs.back().get(), i] {
      run->Run(channels[i], start + options.duration);
    });
  }
  for (std::thread& thread : threads) thread.join();
  BenchResult total;
  total.elapsed = absl::Now() - start;
  for (const auto& run : runs) {
    if (!run->status().ok()) return run->status();
    total.batches += run->result().batches;
    total.lookups += run->result().lookups;
    total.misses += run->result().misses;
    total.mismatches += run->result().mismatches;
    total.latency.Merge(run->result().latency);
  }
  return total;
}

}  // namespace planb::client
