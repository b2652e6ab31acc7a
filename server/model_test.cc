// SPDX-License-Identifier: Apache-2.0

// Proof by model: writers, readers and watchers at a real server that is
// killed, drained and stopped at random; then all that they were told is held
// against a sequential model of the promises.
//
// PLANB_MODEL_SEED plays one seed instead of the default ones,
// PLANB_MODEL_SECONDS says how long each is played (10).

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
#include "server/testing/model.h"
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

// The server, and what is done to it. Not thread-safe.
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

  // One mishap, after a while.
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

// What a run was made of: a history in which little happened proves little.
void ExpectEventful(const ModelHistory& history, int strikes, uint64_t seconds,
                    uint64_t generations) {
  std::set<std::string> reasons;
  size_t unknown = 0, repeated = 0;
  std::set<std::string> ids;
  for (const WriteCall& call : history.writes) {
    unknown += call.outcome == WriteCall::Outcome::kUnknown;
    reasons.insert(call.reason);
    if (!call.batch.request_id.empty()) {
      repeated += !ids.insert(call.batch.request_id).second;
    }
  }
  size_t deltas = 0;
  for (const WatchCall& watch : history.watches) {
    deltas += watch.messages.size();
  }
  std::cout << generations << " generations, " << history.writes.size()
            << " writes (" << unknown << " of unknown outcome, " << repeated
            << " repeats), " << history.lookups.size() << " lookups, " << deltas
            << " watch messages, " << strikes << " ends of servers"
            << std::endl;
  EXPECT_GT(generations, 10 * seconds);
  EXPECT_GT(history.lookups.size(), 10 * seconds);
  EXPECT_GT(deltas, generations / 2);
  if (seconds < 5) return;
  EXPECT_GT(strikes, 1);
  EXPECT_GT(unknown, 0U);
  EXPECT_GT(repeated, 0U);
  for (const char* reason :
       {"ROUTE_EXISTS", "ROUTE_NOT_FOUND", "NEXT_HOP_NOT_FOUND",
        "GENERATION_MISMATCH", "WRITER_FENCED", "NEXT_HOP_IN_USE"}) {
    EXPECT_EQ(reasons.count(reason), 1U) << "never refused for " << reason;
  }
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
    while (Now() < end) nemesis.Strike();
    run.stop.store(true);
    for (std::thread& client : clients) client.join();
    // All is accepted or lost: no call is on its way any more.
    ModelReader reader(run, 99);
    ListCall list;
    while (!reader.State(last) || last.visible < last.accepted ||
           !reader.List(list)) {
      if (Now() > end + 60'000'000'000) {
        run.Surprise("the server does not answer");
        break;
      }
    }
    // 0 is "not yet known"; the watchers of an empty table have seen it all.
    run.last_generation.store(std::max<uint64_t>(last.accepted, 1));
    for (std::thread& watcher : watchers) watcher.join();
    strikes = nemesis.strikes();
  }
  ModelHistory history = run.history.Take();
  history.probes = WorldProbes();
  for (const std::string& fault : CheckHistory(history)) {
    ADD_FAILURE() << "seed " << seed << ": " << fault;
  }
  ExpectEventful(history, strikes, seconds, last.accepted);
}

TEST(Model, TheServerKeepsItsPromises) {
  const uint64_t seconds = FromEnvironment("PLANB_MODEL_SECONDS", 10);
  for (uint64_t seed : Seeds()) {
    std::cout << "seed " << seed << ": " << std::flush;
    Play(seed, seconds);
  }
}

}  // namespace
}  // namespace planb::server
