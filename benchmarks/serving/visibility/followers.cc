// SPDX-License-Identifier: Apache-2.0

// What follows a server. Servers that share its store or follow it: how soon
// they see what it accepted, and how many changes go through. A table inside
// the caller: lookups in it against the engine alone over the same routes, in
// turns; or one of many callers beside a server, or the writer that they
// follow. README.md has the commands; followers.py starts these.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "benchmarks/engine/machine.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "client/update_stream.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

ABSL_FLAG(std::string, role, "compare",
          "compare: a local table against the engine; writer: makes --batches; "
          "caller: looks up until generation --until is here; latency: from "
          "--writers to --readers; throughput: as many changes as go through");
ABSL_FLAG(std::string, server, "", "address of the server");
ABSL_FLAG(std::vector<std::string>, writers, {},
          "addresses of the servers that are written to; each has a table of "
          "its own with throughput");
ABSL_FLAG(std::vector<std::string>, readers, {},
          "addresses of the servers that are watched");
ABSL_FLAG(uint32_t, repeats, 9, "turns of compare");
ABSL_FLAG(uint32_t, batch, 1, "changes in a batch");
ABSL_FLAG(uint32_t, batches, 100, "batches of the writer");
ABSL_FLAG(double, rate, 100,
          "batches a second; 0: as the writer's server takes them");
ABSL_FLAG(absl::Duration, seconds, absl::Seconds(10),
          "how long latency and throughput take");
ABSL_FLAG(uint64_t, until, 0, "the last generation of a caller");
ABSL_FLAG(double, lookups, 1000, "batches of lookups a second of a caller");

namespace planb::client {
namespace {

std::shared_ptr<grpc::Channel> OpenTo(const std::string& target) {
  return ChannelsTo(target, {}).value()();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

constexpr size_t kAddresses = 1 << 20;

// Nanoseconds a lookup, in batches of `batch`.
template <typename Lookup>
double Nanoseconds(size_t batch, const Lookup& lookup) {
  const absl::Time begin = absl::Now();
  const size_t count = batch == 1 ? kAddresses / 16 : kAddresses;
  for (size_t i = 0; i < count; i += batch) lookup(i);
  return absl::ToDoubleNanoseconds(absl::Now() - begin) /
         static_cast<double>(count);
}

int Compare() {
  const auto channel = OpenTo(absl::GetFlag(FLAGS_server));
  const absl::Time begin = absl::Now();
  const auto table =
      LocalTable::Follow(channel, {}, absl::Now() + absl::Seconds(60));
  const absl::Duration ready = absl::Now() - begin;
  if (!table.ok()) return Fail(table.status());
  std::vector<Route> list;
  const auto listed =
      TableClient(channel).ListRoutes({}, [&](const Route& route) {
        if (route.prefix.family() == Family::kIpv6) list.push_back(route);
        return absl::OkStatus();
      });
  if (!listed.ok() || list.empty()) {
    std::fprintf(stderr, "the server has no IPv6 routes\n");
    return 1;
  }
  std::printf("%zu routes, ready after %.0f ms\n", list.size(),
              absl::ToDoubleMilliseconds(ready));
  const RouteSet routes(Family::kIpv6, list);
  FibCompiler compiler(Family::kIpv6);
  const auto fib = compiler.Compile(routes).value();
  const Kernel& kernel = *AvailableKernels().front();
  // Addresses within routes drawn at random.
  std::mt19937_64 random(1);
  std::string trace;
  for (size_t i = 0; i < kAddresses; ++i) {
    const Prefix& prefix = list[random() % list.size()].prefix;
    absl::uint128 bits = absl::MakeUint128(random(), random());
    if (prefix.length() > 0) bits >>= prefix.length() - 1, bits >>= 1;
    trace += Address::V6(prefix.first() | bits).ToPacked();
  }
  std::vector<NextHopId> local(kAddresses), engine(kAddresses);
  for (const size_t batch : {1, 16, 256, 4096}) {
    std::vector<double> ratios, locals, engines;
    for (uint32_t turn = 0; turn <= absl::GetFlag(FLAGS_repeats); ++turn) {
      const double a = Nanoseconds(batch, [&](size_t i) {
        fib->Lookup(&trace[16 * i], batch, &engine[i], kernel);
      });
      const double b = Nanoseconds(batch, [&](size_t i) {
        (*table)
            ->Lookup(Family::kIpv6, &trace[16 * i], batch, &local[i])
            .value();
      });
      if (turn == 0) continue;  // to warm up
      engines.push_back(a);
      locals.push_back(b);
      ratios.push_back(a / b);
    }
    const Percentiles e = PercentilesOf(engines), l = PercentilesOf(locals);
    std::printf(
        "batches of %4zu: engine %.2f ns a lookup, local table %.2f, its rate "
        "%.3f of the engine's\n",
        batch, e.median, l.median, PercentilesOf(ratios).median);
  }
  if (local != engine) {
    std::fprintf(stderr, "wrong answers\n");
    return 1;
  }
  return 0;
}

// The writer gives its prefixes, block after block, the number of the batch's
// generation as next hop. So a caller knows each answer by its generation.
constexpr uint64_t kBlocks = 100;

Prefix Written(uint64_t i) {
  return Prefix::Truncate(
      Address::V6(absl::MakeUint128(0xfd00'0000'0000'0000 | i << 16, 0)), 48);
}

// The next hop of prefix `i` in a generation after the first kBlocks batches.
NextHopId HopOf(uint64_t i, uint64_t generation, uint64_t batch) {
  const uint64_t age = (generation % kBlocks + kBlocks - i / batch) % kBlocks;
  return static_cast<NextHopId>(generation - age);
}

// Times of generations, as a list in JSON of pairs: number, Unix nanoseconds.
std::string ToJson(const std::map<uint64_t, absl::Time>& times) {
  std::string json;
  for (const auto& [generation, at] : times) {
    absl::StrAppend(&json, json.empty() ? "[[" : ", [", generation, ", ",
                    absl::ToUnixNanos(at), "]");
  }
  return json.empty() ? "[]" : json + "]";
}

// Prints when each batch was acknowledged, and the digest after the last.
int Write() {
  const auto channel = OpenTo(absl::GetFlag(FLAGS_server));
  const uint64_t size = absl::GetFlag(FLAGS_batch);
  const auto before = TableClient(channel).GetTable("");
  if (!before.ok()) return Fail(before.status());
  const uint64_t last = before->accepted_generation();
  std::map<uint64_t, absl::Time> acked;
  absl::Status refused;
  UpdateStream stream(
      channel, {.ack = v1::ACK_ACCEPTED}, [&](const UpdateReply& reply) {
        const absl::Time now = absl::Now();
        refused.Update(reply.status);
        const uint64_t generation = reply.response.generation();
        if (reply.status.ok() && generation != last + reply.batch_id) {
          refused.Update(absl::AbortedError("the table has another writer"));
        }
        acked.emplace(generation, now);
      });
  const absl::Time begin = absl::Now();
  const double rate = absl::GetFlag(FLAGS_rate);
  for (uint64_t i = 0; i < absl::GetFlag(FLAGS_batches); ++i) {
    if (rate > 0) {
      absl::SleepFor(begin + absl::Seconds(1) / rate * i - absl::Now());
    }
    const uint64_t generation = last + 1 + i;
    v1::StreamUpdatesRequest batch;
    for (uint64_t c = 0; c < size; ++c) {
      AddPacked({Written(generation % kBlocks * size + c),
                 static_cast<NextHopId>(generation)},
                batch);
    }
    if (!stream.Send(std::move(batch)).ok()) break;
  }
  const absl::Status finished = stream.Finish();
  if (!finished.ok()) return Fail(finished);
  if (!refused.ok()) return Fail(refused);
  const auto after = TableClient(channel).GetTable("");
  if (!after.ok()) return Fail(after.status());
  std::printf("{\"acked\": %s, \"digest\": \"%s\"}\n", ToJson(acked).c_str(),
              absl::BytesToHexString(after->digest()).c_str());
  return 0;
}

// Prints a line when the table is here, and one with what was seen of it. The
// answers are right in every generation after the writer's first kBlocks.
int Call() {
  constexpr size_t kLookups = 64;  // in a batch
  DieWithParent();
  const auto channel = OpenTo(absl::GetFlag(FLAGS_server));
  const uint64_t size = absl::GetFlag(FLAGS_batch);
  const uint64_t until = absl::GetFlag(FLAGS_until);
  const absl::Time begin = absl::Now();
  const auto table = LocalTable::Follow(channel, {}, begin + absl::Minutes(5));
  if (!table.ok()) return Fail(table.status());
  const uint64_t first = (*table)->generation();
  std::printf("{\"ready_ms\": %.1f, \"generation\": %lu}\n",
              absl::ToDoubleMilliseconds(absl::Now() - begin), first);
  std::fflush(stdout);
  std::map<uint64_t, absl::Time> seen;
  absl::Status ended;
  std::thread watcher([&] {
    for (uint64_t next = first + 1; next <= until;) {
      ended = (*table)->WaitFor(next, absl::InfiniteFuture());
      if (!ended.ok()) return;
      const absl::Time now = absl::Now();
      // Lookups see these too: they were late for the thread only.
      for (; next <= (*table)->generation(); ++next) seen.emplace(next, now);
    }
  });
  const absl::Duration gap = absl::Seconds(1) / absl::GetFlag(FLAGS_lookups);
  std::mt19937_64 random(static_cast<uint64_t>(absl::ToUnixNanos(begin)));
  std::array<NextHopId, kLookups> hops;
  std::array<uint64_t, kLookups> asked;
  uint64_t lookups = 0, wrong = 0, generation = 0;
  for (absl::Time turn = absl::Now(); generation < until; turn += gap) {
    absl::SleepFor(turn - absl::Now());
    std::string packed;
    for (uint64_t& i : asked) {
      i = random() % (kBlocks * size);
      packed += Written(i).address().ToPacked();
    }
    const auto answered =
        (*table)->Lookup(Family::kIpv6, packed.data(), kLookups, hops.data());
    if (!answered.ok()) break;
    wrong += *answered < generation;  // generations never go back
    generation = *answered;
    for (size_t i = 0; i < kLookups; ++i) {
      wrong += hops[i] != HopOf(asked[i], generation, size);
    }
    lookups += kLookups;
  }
  watcher.join();
  if (!ended.ok()) return Fail(ended);
  std::printf(
      "{\"seen\": %s, \"lookups\": %lu, \"wrong\": %lu, \"resyncs\": %lu, "
      "\"digest\": \"%s\"}\n",
      ToJson(seen).c_str(), lookups, wrong, (*table)->resyncs(),
      absl::BytesToHexString((*table)->routes().digest()).c_str());
  return 0;
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
  const std::vector<std::string> writers = absl::GetFlag(FLAGS_writers);
  if (writers.empty()) {
    return Fail(absl::InvalidArgumentError("--writers names none"));
  }
  const auto writer = OpenTo(writers.front());
  const auto state = TableClient(writer).GetTable("");
  if (!state.ok()) return Fail(state.status());
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
      "p99 %.2f, most %.2f; %zu not seen\n",
      acked.size(), readers.size(), p.median, p.p99, p.max, missing);
  return missing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace planb::client

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Measures what follows a server.");
  absl::ParseCommandLine(argc, argv);
  const std::map<std::string, int (*)()> roles = {
      {"compare", planb::client::Compare},
      {"writer", planb::client::Write},
      {"caller", planb::client::Call},
      {"latency", planb::client::Latency},
      {"throughput", planb::client::Throughput}};
  const auto role = roles.find(absl::GetFlag(FLAGS_role));
  if (role != roles.end()) return role->second();
  std::fprintf(stderr, "there is no role \"%s\"\n",
               absl::GetFlag(FLAGS_role).c_str());
  return 2;
}
