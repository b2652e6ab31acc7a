// SPDX-License-Identifier: Apache-2.0

// Proof by model: writers, readers and watchers use a real server that is
// killed, drained and stopped at random, and whose disk fails and loses what
// was not synced. Tables come and go meanwhile. Then all answers are compared
// with a sequential model of the contract.
//
// PLANB_MODEL_SEED plays one seed instead of the default ones,
// PLANB_MODEL_SECONDS says how long each is played at least (10).

#include "server/testing/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
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
#include "server/testing/lossy_disk.h"
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

// Runs the server, and kills, drains and stops it, and breaks its disk. Not
// thread-safe.
class Nemesis {
 public:
  Nemesis(ModelRun& run, const std::string& socket, const std::string& store)
      : run_(run),
        random_(run.seed),
        disk_(store),
        flags_({absl::StrCat("--listen=unix://", socket),
                "--metrics_address=", absl::StrCat("--store=", store)}) {
    Start();
  }
  ~Nemesis() {
    if (server_ != nullptr) End(SIGTERM);
  }

  // Waits for a random time, then strikes once.
  void Strike() {
    absl::SleepFor(absl::Milliseconds(50 + Below(random_, 600)));
    const uint64_t kind = Below(random_, 100);
    if (kind < 20) {
      server_->Kill(SIGSTOP);
      absl::SleepFor(absl::Milliseconds(1 + Below(random_, 300)));
      server_->Kill(SIGCONT);
      return;
    }
    if (kind < 45) {
      DiskFault fault = {.begin = Now()};
      disk_.Fail(Chance(random_, 50) ? ENOSPC : EIO,
                 static_cast<uint32_t>(10 + Below(random_, 91)));
      absl::SleepFor(absl::Milliseconds(1 + Below(random_, 300)));
      const bool dies = Chance(random_, 40);
      if (dies) End(SIGKILL);
      disk_.Heal();
      fault.end = Now();
      run_.history.Add(&ModelHistory::disk_faults, fault);
      if (!dies) return;
    } else {
      End(kind < 85 ? SIGKILL : SIGTERM);
    }
    if (Chance(random_, 50)) lost_ += disk_.LosePower(random_);
    absl::SleepFor(absl::Milliseconds(Below(random_, 50)));
    Start();
  }

  int strikes() const { return strikes_; }
  // Sectors that were written and not synced.
  uint64_t lost() const { return lost_; }

 private:
  void Start() {
    life_ = {.begin = Now()};
    server_ = std::make_unique<ServerProcess>(flags_, disk_.environment());
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
  LossyDisk disk_;
  const std::vector<std::string> flags_;
  std::unique_ptr<ServerProcess> server_;
  ServerLife life_;
  int strikes_ = 0;
  uint64_t lost_ = 0;
};

// Creates tables one after the other, lets clients use each for a while, and
// deletes it below them. Not thread-safe.
class Tenants {
 public:
  explicit Tenants(ModelRun& run)
      : run_(run),
        random_(run.seed + 77),
        stub_(v1::RouteTable::NewStub(ModelChannel(run.target))) {}

  // Until the run stops.
  void Run() {
    while (!run_.stop.load()) Live();
  }

  // The names recur: the table before has the same one as the table kNames
  // later. A call that its client gave up does not arrive as late as that.
  static constexpr size_t kNames = 2;

  size_t count() const { return count_.load(); }
  // REQUIRES: Run() has returned.
  std::vector<ModelHistory>& histories() { return histories_; }

 private:
  void Live() {
    ModelRun run;
    run.target = run_.target;
    run.seed = run_.seed * 1000 + histories_.size() + 1;
    run.table = absl::StrCat("red-", histories_.size() % kNames);
    run.first = Create(run.table);
    std::vector<std::thread> clients;
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back([&run, i] { ModelWriter(run, i).Run(); });
    }
    clients.emplace_back([&run] { ModelReader(run, 0).Run(); });
    clients.emplace_back([&run] { ModelWatcher(run, 0).Run(); });
    absl::SleepFor(absl::Milliseconds(100 + Below(random_, 500)));
    const Instant begin = Now();
    Delete(run.table);
    const Instant end = Now();
    absl::SleepFor(absl::Milliseconds(Below(random_, 50)));
    run.stop.store(true);
    for (std::thread& client : clients) client.join();
    ModelHistory history = run.history.Take();
    history.first = run.first;
    history.deleted_begin = begin;
    history.deleted_end = end;
    history.probes = WorldProbes();
    histories_.push_back(std::move(history));
    ++count_;
  }

  // Returns the generation at which the table begins.
  uint64_t Create(const std::string& table) {
    v1::CreateTableRequest request;
    request.set_table(table);
    v1::Table created;
    Insist("TABLE_EXISTS", [&](grpc::ClientContext* context) {
      return stub_->CreateTable(context, request, &created);
    });
    if (!created.name().empty()) return created.accepted_generation();
    v1::GetTableRequest get;
    get.set_table(table);
    Insist("", [&](grpc::ClientContext* context) {
      return stub_->GetTable(context, get, &created);
    });
    return created.accepted_generation();
  }

  void Delete(const std::string& table) {
    v1::DeleteTableRequest request;
    request.set_table(table);
    v1::DeleteTableResponse response;
    Insist("TABLE_NOT_FOUND", [&](grpc::ClientContext* context) {
      return stub_->DeleteTable(context, request, &response);
    });
  }

  // Repeats a call until it succeeds, or is refused for `done` after an attempt
  // that may have succeeded.
  template <typename Call>
  void Insist(const std::string& done, const Call& call) {
    for (bool again = false;; again = true) {
      grpc::ClientContext context;
      Limit(context, std::chrono::milliseconds(1000));
      const grpc::Status status = call(&context);
      const std::string reason = ModelReason(status);
      if (status.ok() || (again && reason == done)) return;
      if (!IsBroken(status) && reason != "STORE_FULL") {
        return run_.Surprise(DescribeStatus("a call for a table", status));
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  ModelRun& run_;
  Random random_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  std::vector<ModelHistory> histories_;
  std::atomic<size_t> count_ = 0;
};

// What happened in a run.
struct Events {
  uint64_t generations = 0;
  size_t writes = 0, unknown = 0, repeated = 0, lookups = 0, messages = 0;
  size_t snapshots = 0;  // imported
  std::set<std::string> reasons;
};

Events Count(const ModelHistory& history) {
  Events events = {.writes = history.writes.size(),
                   .lookups = history.lookups.size()};
  std::set<std::string> ids;
  for (const WriteCall& call : history.writes) {
    events.generations = std::max(events.generations, call.generation);
    events.unknown += call.outcome == WriteCall::Outcome::kUnknown;
    events.reasons.insert(RefusedByStore(call) ? "STORE_*" : call.reason);
    events.snapshots += call.kind == WriteCall::Kind::kImport &&
                        call.outcome == WriteCall::Outcome::kDone;
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
std::string Missing(const Events& events, const Nemesis& nemesis,
                    const Tenants& tenants) {
  if (events.generations <= 100) return "generations";
  if (events.lookups <= 100) return "lookups";
  if (events.snapshots == 0) return "snapshots";
  if (nemesis.strikes() <= 1) return "ends of servers";
  if (nemesis.lost() == 0) return "losses of power";
  if (tenants.count() <= Tenants::kNames) return "tables";
  if (events.unknown == 0) return "writes of unknown outcome";
  if (events.repeated == 0) return "repeats";
  for (const char* reason :
       {"ROUTE_EXISTS", "ROUTE_NOT_FOUND", "NEXT_HOP_NOT_FOUND",
        "GENERATION_MISMATCH", "WRITER_FENCED", "NEXT_HOP_IN_USE", "STORE_*"}) {
    if (events.reasons.count(reason) == 0) return reason;
  }
  return "";
}

// Checks all tables that one server had.
void Check(uint64_t seed, const ModelHistory& history,
           std::vector<ModelHistory>& tenants) {
  const auto report = [seed](const std::string& table,
                             const std::vector<std::string>& faults) {
    for (const std::string& fault : faults) {
      ADD_FAILURE() << "seed " << seed << ", " << table << ": " << fault;
    }
  };
  report("default", CheckHistory(history));
  for (size_t i = 0; i < tenants.size(); ++i) {
    tenants[i].lives = history.lives;
    tenants[i].disk_faults = history.disk_faults;
    const std::string name = absl::StrCat("table ", i);
    report(name, CheckHistory(tenants[i]));
    if (i < Tenants::kNames) continue;
    const std::string fault =
        CheckSuccession(tenants[i - Tenants::kNames], tenants[i]);
    if (!fault.empty()) report(name, {fault});
  }
}

void Play(uint64_t seed, uint64_t seconds) {
  const std::string socket = TempPath(absl::StrCat("model", seed, ".sock"));
  ModelRun run;
  run.target = absl::StrCat("unix://", socket);
  run.seed = seed;
  StateCall last;
  Tenants tenants(run);
  std::string missing;
  {
    Nemesis nemesis(run, socket, NewStorePath(absl::StrCat("model", seed)));
    std::vector<std::thread> clients, watchers;
    clients.emplace_back([&tenants] { tenants.Run(); });
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
    // A slow machine takes longer.
    constexpr Instant kPatience = 180'000'000'000;
    do {
      nemesis.Strike();
      missing = Missing(run.history.Inspect(Count), nemesis, tenants);
    } while (Now() < end || (!missing.empty() && Now() < end + kPatience));
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
    std::cout << nemesis.strikes() << " ends of servers, " << nemesis.lost()
              << " sectors lost, " << tenants.count() << " tables deleted\n";
  }
  ModelHistory history = run.history.Take();
  history.probes = WorldProbes();
  Check(seed, history, tenants.histories());
  const Events events = Count(history);
  std::cout << last.accepted << " generations, " << events.writes << " writes ("
            << events.unknown << " of unknown outcome, " << events.repeated
            << " repeats), " << events.lookups << " lookups, "
            << events.messages << " watch messages" << std::endl;
  EXPECT_EQ(missing, "");
  EXPECT_GT(events.messages, last.accepted / 2);
}

class Model : public testing::TestWithParam<uint64_t> {};

TEST_P(Model, ServerKeepsItsPromises) {
  Play(GetParam(), FromEnvironment("PLANB_MODEL_SECONDS", 10));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace planb::server
