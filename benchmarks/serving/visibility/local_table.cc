// SPDX-License-Identifier: Apache-2.0

// A table inside the caller that follows a server. Lookups in it, against the
// engine alone over the same routes, in turns; or one of many callers beside a
// server, or the writer that they follow (followers.py starts these).

#include "client/local_table.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
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
#include "benchmarks/engine/machine.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "client/update_stream.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

ABSL_FLAG(std::string, server, "", "address of the server");
ABSL_FLAG(std::string, role, "compare",
          "compare: against the engine; writer: makes --batches; caller: looks "
          "up until generation --until is here");
ABSL_FLAG(uint32_t, repeats, 9, "turns of compare");
ABSL_FLAG(uint32_t, batch, 100, "changes in a batch, of writer and callers");
ABSL_FLAG(uint32_t, batches, 100, "batches of the writer");
ABSL_FLAG(double, rate, 0, "batches a second; 0: as the server takes them");
ABSL_FLAG(uint64_t, until, 0, "the last generation of a caller");
ABSL_FLAG(double, lookups, 1000, "batches of lookups a second of a caller");

namespace planb::client {
namespace {

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
  const auto channel = ChannelsTo(absl::GetFlag(FLAGS_server), {}).value()();
  const absl::Time begin = absl::Now();
  const auto table =
      LocalTable::Follow(channel, {}, absl::Now() + absl::Seconds(60));
  const absl::Duration ready = absl::Now() - begin;
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", table.status().ToString().c_str());
    return 1;
  }
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

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
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
  const auto channel = ChannelsTo(absl::GetFlag(FLAGS_server), {}).value()();
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
  const auto channel = ChannelsTo(absl::GetFlag(FLAGS_server), {}).value()();
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

}  // namespace
}  // namespace planb::client

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures lookups in a table inside the caller.");
  absl::ParseCommandLine(argc, argv);
  const std::string role = absl::GetFlag(FLAGS_role);
  if (role == "compare") return planb::client::Compare();
  if (role == "writer") return planb::client::Write();
  if (role == "caller") return planb::client::Call();
  std::fprintf(stderr, "there is no role \"%s\"\n", role.c_str());
  return 2;
}
