// SPDX-License-Identifier: Apache-2.0

// Proof by model: writers, readers and watchers use a real server that is
// killed, drained and stopped at random. Then all answers are compared with a
// sequential model of the contract.
//
// PLANB_MODEL_SEED plays one seed instead of the default ones,
// PLANB_MODEL_SECONDS says how long each is played at least (10).

#include "server/testing/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/server_process.h"
#include "server/testing/model_clients.h"
#include "server/testing/store_place.h"

namespace planb::server {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << " is no number: " << text;
  }
  return value;
}

std::vector<uint64_t> Seeds() {
  const uint64_t seed = FromEnvironment("PLANB_MODEL_SEED", 0);
  return seed == 0 ? std::vector<uint64_t>{1, 2, 3} : std::vector{seed};
}

// Runs the server, and kills, drains and stops it. Not thread-safe.
class Nemesis {
 public:
  Nemesis(ModelRun& run, const std::string& socket, const std::string& store)
      : run_(run),
        random_(run.seed),
        flags_({absl::StrCat("--listen=unix://", socket),
                "--metrics_address=", absl::StrCat("--store=", store)}) {
    Start();
  }
  ~Nemesis() {
    if (server_ != nullptr) End(SIGTERM);
  }

  // Waits for a random time, then strikes once.
  void Strike() {
    absl::SleepFor(absl::Milliseconds(50 + Below(random_, 900)));
    const uint64_t kind = Below(random_, 100);
    if (kind < 30) {
      server_->Kill(SIGSTOP);
      absl::SleepFor(absl::Milliseconds(1 + Below(random_, 300)));
      server_->Kill(SIGCONT);
      return;
    }
    End(kind < 75 ? SIGKILL : SIGTERM);
    absl::SleepFor(absl::Milliseconds(Below(random_, 50)));
    Start();
  }

  int strikes() const { return strikes_; }

 private:
  void Start() {
    life_ = {.begin = Now()};
    server_ = std::make_unique<ServerProcess>(flags_);
    if (!server_->AwaitServing()) run_.Surprise(server_->Log());
  }

  void End(int signal) {
    ++strikes_;
    if (signal == SIGTERM) life_.drain = Now();
    server_->Kill(signal);
    const int status = server_->Wait();
    life_.end = Now();
    if (status != (signal == SIGTERM ? 0 : -signal)) {
      run_.Surprise(
          absl::StrCat("the server ended with ", status, ": ", server_->Log()));
    }
    run_.history.Add(&ModelHistory::lives, life_);
    server_.reset();
  }

  ModelRun& run_;
  Random random_;
  const std::vector<std::string> flags_;
  std::unique_ptr<ServerProcess> server_;
  ServerLife life_;
  int strikes_ = 0;
};

// What happened in a run.
struct Events {
  uint64_t generations = 0;
  size_t writes = 0, unknown = 0, repeated = 0, lookups = 0, messages = 0;
  std::set<std::string> reasons;
};

Events Count(const ModelHistory& history) {
  Events events = {.writes = history.writes.size(),
                   .lookups = history.lookups.size()};
  std::set<std::string> ids;
  for (const WriteCall& call : history.writes) {
    events.generations = std::max(events.generations, call.generation);
    events.unknown += call.outcome == WriteCall::Outcome::kUnknown;
    events.reasons.insert(call.reason);
    if (!call.batch.request_id.empty()) {
      events.repeated += !ids.insert(call.batch.request_id).second;
    }
  }
  for (const WatchCall& watch : history.watches) {
    events.messages += watch.messages.size();
  }
  return events;
}

// What has not happened often enough yet; "" if nothing is missing. A run in
// which little happens proves little.
std::string Missing(const Events& events, int strikes) {
  if (events.generations <= 100) return "generations";
  if (events.lookups <= 100) return "lookups";
  if (strikes <= 1) return "ends of servers";
  if (events.unknown == 0) return "writes of unknown outcome";
  if (events.repeated == 0) return "repeats";
  for (const char* reason :
       {"ROUTE_EXISTS", "ROUTE_NOT_FOUND", "NEXT_HOP_NOT_FOUND",
        "GENERATION_MISMATCH", "WRITER_FENCED", "NEXT_HOP_IN_USE"}) {
    if (events.reasons.count(reason) == 0) return reason;
  }
  return "";
}

void Play(uint64_t seed, uint64_t seconds) {
  const std::string socket = TempPath(absl::StrCat("model", seed, ".sock"));
  ModelRun run;
  run.target = absl::StrCat("unix://", socket);
  run.seed = seed;
  StateCall last;
  int strikes = 0;
  {
    Nemesis nemesis(run, socket, NewStorePath(absl::StrCat("model", seed)));
    std::vector<std::thread> clients, watchers;
    for (int i = 0; i < 3; ++i) {
      clients.emplace_back([&run, i] { ModelWriter(run, i).Run(); });
    }
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back([&run, i] { ModelReader(run, i).Run(); });
      watchers.emplace_back([&run, i] { ModelWatcher(run, i).Run(); });
    }
    const Instant end =
        Now() +
        absl::ToInt64Nanoseconds(absl::Seconds(static_cast<int64_t>(seconds)));
    const auto eventful = [&] {
      return Missing(run.history.Inspect(Count), nemesis.strikes()).empty();
    };
    // A slow machine takes longer.
    constexpr Instant kPatience = 180'000'000'000;
    while (Now() < end || (!eventful() && Now() < end + kPatience)) {
      nemesis.Strike();
    }
    const Instant stopped = Now();
    run.stop.store(true);
    for (std::thread& client : clients) client.join();
    // No call is in flight any more: each batch is accepted or lost.
    ModelReader reader(run, 99);
    ListCall list;
    while (!reader.State(last) || last.visible < last.accepted ||
           !reader.List(list)) {
      if (Now() > stopped + 60'000'000'000) {
        run.Surprise("the server does not answer");
        break;
      }
    }
    // 0 means "not yet known". Watchers of an empty table are done.
    run.last_generation.store(std::max<uint64_t>(last.accepted, 1));
    for (std::thread& watcher : watchers) watcher.join();
    strikes = nemesis.strikes();
  }
  ModelHistory history = run.history.Take();
  history.probes = WorldProbes();
  for (const std::string& fault : CheckHistory(history)) {
    ADD_FAILURE() << "seed " << seed << ": " << fault;
  }
  const Events events = Count(history);
  std::cout << last.accepted << " generations, " << events.writes << " writes ("
            << events.unknown << " of unknown outcome, " << events.repeated
            << " repeats), " << events.lookups << " lookups, "
            << events.messages << " watch messages, " << strikes
            << " ends of servers" << std::endl;
  EXPECT_EQ(Missing(events, strikes), "");
  EXPECT_GT(events.messages, last.accepted / 2);
}

class Model : public testing::TestWithParam<uint64_t> {};

TEST_P(Model, ServerKeepsItsPromises) {
  Play(GetParam(), FromEnvironment("PLANB_MODEL_SECONDS", 10));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace planb::server
