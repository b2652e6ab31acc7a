// SPDX-License-Identifier: Apache-2.0

// Servers that share a store, or follow one: how soon they see what another
// accepted, and how many changes go through. README.md has the commands.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "benchmarks/engine/machine.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "client/update_stream.h"
#include "lpm/prefix.h"

ABSL_FLAG(std::vector<std::string>, writers, {},
          "addresses of the servers that are written to; each has a table of "
          "its own with --throughput");
ABSL_FLAG(std::vector<std::string>, readers, {},
          "addresses of the servers that are watched");
ABSL_FLAG(bool, throughput, false,
          "as many changes as go through, instead of --rate batches a second");
ABSL_FLAG(double, rate, 100, "batches a second");
ABSL_FLAG(uint32_t, batch, 1, "changes in a batch");
ABSL_FLAG(absl::Duration, seconds, absl::Seconds(10), "how long");

namespace planb::client {
namespace {

std::shared_ptr<grpc::Channel> OpenTo(const std::string& target) {
  return ChannelsTo(target, {}).value()();
}

// The i-th of many batches: /48s in turn, with new next hops each time.
v1::StreamUpdatesRequest Batch(uint64_t i, uint32_t count) {
  // So that a repeated run changes the routes of the one before.
  static const auto salt =
      static_cast<uint64_t>(absl::ToUnixSeconds(absl::Now()));
  v1::StreamUpdatesRequest batch;
  for (uint32_t c = 0; c < count; ++c) {
    const uint64_t route = (i * count + c) % 500'000;
    const Address address =
        Address::V6(absl::MakeUint128(0x2a00'0000'0000'0000 | route << 16, 0));
    AddPacked({Prefix::Truncate(address, 48),
               static_cast<NextHopId>(1 + (i + c + salt) % 1000)},
              batch);
  }
  return batch;
}

int Throughput() {
  const std::vector<std::string> writers = absl::GetFlag(FLAGS_writers);
  const uint32_t batch = absl::GetFlag(FLAGS_batch);
  std::atomic<bool> stop = false;
  std::vector<uint64_t> done(writers.size());
  std::vector<std::thread> threads;
  const absl::Time begin = absl::Now();
  for (size_t w = 0; w < writers.size(); ++w) {
    threads.emplace_back([&, w] {
      const auto channel = OpenTo(writers[w]);
      const std::string table = absl::StrCat("writer-", w);
      TableClient(channel).CreateTable(table).status().IgnoreError();
      UpdateStream stream(channel, {.table = table, .ack = v1::ACK_ACCEPTED},
                          [&](const UpdateReply& reply) {
                            if (reply.status.ok()) {
                              done[w] += batch;
                            } else {
                              std::fprintf(stderr, "%s\n",
                                           reply.status.ToString().c_str());
                            }
                          });
      for (uint64_t i = 0; !stop; ++i) {
        if (!stream.Send(Batch(i, batch)).ok()) break;
      }
      stream.Finish().IgnoreError();
    });
  }
  absl::SleepFor(absl::GetFlag(FLAGS_seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  uint64_t sum = 0;
  for (const uint64_t each : done) sum += each;
  std::printf(
      "%zu writers, %u changes a batch: %.0f changes/s\n", writers.size(),
      batch,
      static_cast<double>(sum) / absl::ToDoubleSeconds(absl::Now() - begin));
  return 0;
}

// When a server's watch told of each generation.
class Reader {
 public:
  Reader(const std::string& target, uint64_t generation)
      : watcher_(OpenTo(target), {.start_generation = generation}),
        thread_([this] {
          for (;;) {
            const auto changes = watcher_.Next();
            if (!changes.ok()) return;
            seen_.emplace(changes->generation, absl::Now());
          }
        }) {}

  // Ends the watch.
  const std::map<uint64_t, absl::Time>& Seen() {
    watcher_.Cancel();
    thread_.join();
    return seen_;
  }

 private:
  RouteWatcher watcher_;
  std::map<uint64_t, absl::Time> seen_;
  std::thread thread_;  // last: it uses all of the above
};

int Latency() {
  const auto writer = OpenTo(absl::GetFlag(FLAGS_writers).front());
  const auto state = TableClient(writer).GetTable("");
  if (!state.ok()) {
    std::fprintf(stderr, "%s\n", state.status().ToString().c_str());
    return 1;
  }
  std::vector<std::unique_ptr<Reader>> readers;
  for (const std::string& target : absl::GetFlag(FLAGS_readers)) {
    readers.push_back(
        std::make_unique<Reader>(target, state->accepted_generation()));
  }
  absl::SleepFor(absl::Seconds(1));
  Mutex mutex;
  std::map<uint64_t, absl::Time> acked;
  UpdateStream stream(writer, {.ack = v1::ACK_ACCEPTED},
                      [&](const UpdateReply& reply) {
                        const absl::Time now = absl::Now();
                        if (!reply.status.ok()) return;
                        const MutexLock lock(mutex);
                        acked.emplace(reply.response.generation(), now);
                      });
  const absl::Time begin = absl::Now();
  const absl::Time end = begin + absl::GetFlag(FLAGS_seconds);
  const absl::Duration gap = absl::Seconds(1) / absl::GetFlag(FLAGS_rate);
  for (uint64_t i = 0; begin + gap * i < end; ++i) {
    absl::SleepFor(begin + gap * i - absl::Now());
    if (!stream.Send(Batch(i + 1, absl::GetFlag(FLAGS_batch))).ok()) break;
  }
  stream.Finish().IgnoreError();
  absl::SleepFor(absl::Seconds(1));
  std::vector<double> times;
  size_t missing = 0;
  for (const auto& reader : readers) {
    const auto& seen = reader->Seen();
    for (const auto& [generation, at] : acked) {
      const auto found = seen.find(generation);
      if (found == seen.end()) {
        ++missing;
      } else {
        times.push_back(absl::ToDoubleMilliseconds(
            std::max(found->second - at, absl::ZeroDuration())));
      }
    }
  }
  const Percentiles p = PercentilesOf(times);
  std::printf(
      "%zu batches, %zu readers, from the ack to a watch there, ms: p50 %.2f, "
      "p90 %.2f, p99 %.2f, most %.2f; %zu not seen\n",
      acked.size(), readers.size(), p.median, p.p90, p.p99, p.max, missing);
  return missing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace planb::client

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures servers that share a store: latency from one to another, or "
      "throughput.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_writers).empty()) return 2;
  return absl::GetFlag(FLAGS_throughput) ? planb::client::Throughput()
                                         : planb::client::Latency();
}
