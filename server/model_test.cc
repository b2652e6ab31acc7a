// SPDX-License-Identifier: Apache-2.0

// Proof by model: writers, readers and watchers use a real server that is
// killed, drained and stopped at random. Its disk fails and loses what was not
// synced. Tables come and go meanwhile. Then all answers are compared with a
// sequential model of the contract. The same for three servers that share a
// store in a real etcd; its members and network fail as well.
//
// PLANB_MODEL_SEEDS says how many seeds are played, from 1 on (1);
// PLANB_MODEL_SEED plays that one instead. PLANB_MODEL_SECONDS says how long
// each is played at least (1): until everything that a run is to see has
// happened.

#include "server/testing/model.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "base/testing/test_clock.h"
#include "base/testing/wire.h"
#include "server/testing/etcd_cluster.h"
#include "server/testing/lossy_disk.h"
#include "server/testing/model_clients.h"
#include "server/testing/store_place.h"

namespace planb::server {
namespace {

std::vector<uint64_t> Seeds() {
  const uint64_t seed = FromEnvironment("PLANB_MODEL_SEED", 0);
  if (seed != 0) return {seed};
  std::vector<uint64_t> seeds(FromEnvironment("PLANB_MODEL_SEEDS", 1));
  std::iota(seeds.begin(), seeds.end(), 1);
  return seeds;
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

// Creates tables one after the other at the first server, lets clients of all
// servers use each for a while, and deletes it below them. Not thread-safe.
class Tenants {
 public:
  explicit Tenants(ModelRun& run) : run_(run), random_(run.seed + 77) {}

  // Until the run stops.
  void Run() {
    stub_ = v1::RouteTable::NewStub(ModelChannel(run_.targets[0]));
    while (!run_.stop.load()) Live();
  }

  // The names recur: the table before has the same one as the table kNames
  // later. A call that its client gave up does not arrive as late as that. With
  // several servers, one of which may still have the table before, they do not.
  static constexpr size_t kNames = 2;

  size_t count() const { return count_.load(); }
  // REQUIRES: Run() has returned.
  std::vector<ModelHistory>& histories() { return histories_; }

 private:
  void Live() {
    ModelRun run;
    run.targets = run_.targets;
    run.seed = run_.seed * 1000 + histories_.size() + 1;
    const int servers = static_cast<int>(run.targets.size());
    if (servers > 1) run.history.Share();
    const size_t number = histories_.size();
    run.table = absl::StrCat("red-", servers > 1 ? number : number % kNames);
    run.first = Create(run.table);
    const Instant created = Now();
    std::vector<std::thread> clients;
    for (int i = 0; i < std::max(servers, 2); ++i) {
      clients.emplace_back([&run, i] { ModelWriter(run, i).Run(); });
    }
    for (int i = 0; i < servers; ++i) {
      clients.emplace_back([&run, i] { ModelReader(run, i).Run(); });
      clients.emplace_back([&run, i] { ModelWatcher(run, i).Run(); });
    }
    absl::SleepFor(absl::Milliseconds(100 + Below(random_, 500)));
    const Instant begin = Now();
    Delete(run.table);
    const Instant end = Now();
    absl::SleepFor(absl::Milliseconds(Below(random_, 50)));
    run.stop.store(true);
    for (std::thread& client : clients) client.join();
    ModelHistory history = run.history.Take();
    history.first = run.first;
    history.created = created;
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
      if (!IsBroken(status) && reason != "STORE_FULL" &&
          reason != "STORE_CONFLICT") {
        return run_.Surprise(DescribeStatus("a call for a table", status));
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  ModelRun& run_;
  Random random_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
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

void Print(const StateCall& last, const Events& events) {
  std::cout << last.accepted << " generations, " << events.writes << " writes ("
            << events.unknown << " of unknown outcome, " << events.repeated
            << " repeats), " << events.lookups << " lookups, "
            << events.messages << " watch messages" << std::endl;
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
           std::vector<ModelHistory> tenants) {
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
    if (history.shared || i < Tenants::kNames) continue;
    const std::string fault =
        CheckSuccession(tenants[i - Tenants::kNames], tenants[i]);
    if (!fault.empty()) report(name, {fault});
  }
}

void Play(uint64_t seed, uint64_t seconds) {
  const std::string socket = TempPath(absl::StrCat("model", seed, ".sock"));
  ModelRun run;
  run.targets = {absl::StrCat("unix://", socket)};
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
    constexpr Instant kAtMost = 180'000'000'000;
    do {
      nemesis.Strike();
      missing = Missing(run.history.Inspect(Count), nemesis, tenants);
    } while (Now() < end || (!missing.empty() && Now() < end + kAtMost));
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
  Check(seed, history, std::move(tenants.histories()));
  const Events events = Count(history);
  Print(last, events);
  EXPECT_EQ(missing, "");
  EXPECT_GT(events.messages, last.accepted / 2);
}

class Model : public testing::TestWithParam<uint64_t> {};

TEST_P(Model, ServerKeepsItsPromises) {
  Play(GetParam(), FromEnvironment("PLANB_MODEL_SECONDS", 1));
}

// Runs servers that share a store and etcd's members. Kills, pauses, drains and
// cuts them off; compacts what etcd remembers. The clock of the first server
// jumps an hour forward and back. The last server starts with a file of routes
// for a table that is empty then. Not thread-safe.
class ReplicaNemesis {
 public:
  static constexpr int kServers = 3;

  // Sets the targets of `run`.
  explicit ReplicaNemesis(ModelRun& run)
      : run_(run), random_(run.seed), cluster_(kMembers) {
    run_.history.Share();
    for (int s = 0; s < kServers; ++s) {
      std::vector<std::string> members;
      for (int m = 0; m < kMembers; ++m) {
        wires_.push_back(std::make_unique<Wire>(cluster_.endpoint(m)));
        members.push_back(wires_.back()->address());
      }
      const std::string socket =
          TempPath(absl::StrCat("replica", s, "_", run.seed, ".sock"));
      run_.targets.push_back(absl::StrCat("unix://", socket));
      Server& server = servers_.emplace_back();
      server.flags = {absl::StrCat("--listen=unix://", socket),
                      "--metrics_address=", absl::StrCat("--replica_name=", s),
                      absl::StrCat("--store=etcd://",
                                   absl::StrJoin(members, ","), "/planb")};
      if (s == kLate) {
        BeginLate();
      } else {
        Start(s);
      }
    }
    for (int m = 0; m < kMembers; ++m) {
      EXPECT_TRUE(Await([&] {
        leader_changes_[m] = cluster_.LeaderChanges(m);
        return leader_changes_[m] > 0;  // it knows the first one
      }));
    }
    looked_ = Now();
    clock_.StartJumping(absl::Milliseconds(20));
  }
  ~ReplicaNemesis() {
    for (int s = 0; s < kServers; ++s) End(s, SIGTERM);
  }

  // Lets the last server read its file of routes, which it wants for an empty
  // table, once the others have changed that table. Nothing of the file may be
  // seen.
  void EndLate() {
    const Instant began = Now();
    while (run_.accepted.load() < 5 && Now() < began + kPatience) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    if (run_.accepted.load() < 5) run_.Surprise("nothing was accepted");
    constexpr absl::string_view kRoutes = "10.1.0.0/16 99\n2001:db8::/48 99\n";
    if (write(file_, kRoutes.data(), kRoutes.size()) !=
        static_cast<ssize_t>(kRoutes.size())) {
      run_.Surprise("the late server does not read its file");
    }
    close(file_);
    unlink(path_.c_str());
    const ServerProcess& late = *servers_[kLate].process;
    if (!late.AwaitServing()) run_.Surprise(late.Log());
  }

  // Waits for a random time, then strikes once. All is well afterwards.
  void Strike() {
    absl::SleepFor(absl::Milliseconds(50 + Below(random_, 600)));
    NoteElections();
    const uint64_t kind = Below(random_, 100);
    const int server = static_cast<int>(Below(random_, kServers));
    const int member = static_cast<int>(Below(random_, kMembers));
    if (kind < 15) {
      servers_[server].process->Kill(SIGSTOP);
      absl::SleepFor(absl::Milliseconds(1 + Below(random_, 2000)));
      servers_[server].process->Kill(SIGCONT);
    } else if (kind < 45) {
      End(server, kind < 35 ? SIGKILL : SIGTERM);
      absl::SleepFor(absl::Milliseconds(Below(random_, 300)));
      Start(server);
    } else if (kind < 55) {
      Compact();
    } else {
      // The calls that this ends may be answered some seconds later.
      DiskFault fault = {.begin = Now()};
      if (kind < 68) {
        ++member_deaths_;
        cluster_.Kill(member);
        absl::SleepFor(absl::Milliseconds(Below(random_, 1000)));
        cluster_.Start(member);
      } else if (kind < 78) {
        cluster_.Pause(member);
        absl::SleepFor(absl::Milliseconds(Below(random_, 2500)));
        cluster_.Resume(member);
      } else {
        Cut(server);
      }
      fault.end = Now() + absl::ToInt64Nanoseconds(kAfterwards);
      run_.history.Add(&ModelHistory::disk_faults, fault);
    }
  }

  // A fault that is not this one's: members that a busy machine holds up for
  // longer than their timeout elect a leader, and refuse writes meanwhile.
  void NoteElections() {
    bool elected = false;
    for (int m = 0; m < kMembers; ++m) {
      const int64_t changes = cluster_.LeaderChanges(m);
      if (changes < 0) continue;  // it is just being started
      elected = elected || changes != leader_changes_[m];
      leader_changes_[m] = changes;
    }
    const Instant before =
        std::exchange(looked_, Now()) - absl::ToInt64Nanoseconds(kElection);
    if (!elected) return;
    run_.history.Add(
        &ModelHistory::disk_faults,
        DiskFault{.begin = before,
                  .end = looked_ + absl::ToInt64Nanoseconds(kAfterwards)});
  }

  // What has not happened yet; "" if nothing is missing.
  std::string Missing() const {
    if (deaths_ < 2) return "ends of servers";
    if (member_deaths_ == 0) return "ends of members";
    if (cuts_ == 0) return "cuts";
    return compactions_ == 0 ? "compactions" : "";
  }

 private:
  static constexpr int kMembers = 3;
  static constexpr int kLate = kServers - 1;
  static constexpr absl::Duration kAfterwards = absl::Seconds(20);
  // Counts change at the end of an election, after up to two timeouts.
  static constexpr absl::Duration kElection = absl::Seconds(2);
  static constexpr Instant kPatience = 60'000'000'000;

  struct Server {
    std::vector<std::string> flags;
    std::unique_ptr<ServerProcess> process;
    ServerLife life;
  };

  void Start(int index) {
    Server& server = servers_[static_cast<size_t>(index)];
    server.life = {.begin = Now(), .server = index};
    server.process = std::make_unique<ServerProcess>(
        server.flags,
        index == 0 ? clock_.environment() : std::vector<std::string>());
    if (!server.process->AwaitServing()) run_.Surprise(server.process->Log());
  }

  // Starts the last server with a file of routes, a pipe, and waits until it
  // has found the table empty and opened the file.
  void BeginLate() {
    Server& server = servers_[kLate];
    server.life = {.begin = Now(), .server = kLate};
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    std::vector<std::string> flags = server.flags;
    flags.push_back("--routes=" + path_);
    server.process = std::make_unique<ServerProcess>(flags);
    while ((file_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) <
           0) {
      if (Now() > server.life.begin + kPatience) {
        return run_.Surprise(server.process->Log());
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  void End(int index, int signal) {
    ++deaths_;
    Server& server = servers_[static_cast<size_t>(index)];
    if (signal == SIGTERM) server.life.drain = Now();
    server.process->Kill(signal);
    server.process->Wait();
    server.life.end = Now();
    run_.history.Add(&ModelHistory::lives, server.life);
    server.process.reset();
  }

  // A server from all members, or from some.
  void Cut(int server) {
    ++cuts_;
    const bool all = Chance(random_, 70);
    const size_t first = static_cast<size_t>(server) * kMembers;
    for (size_t w = first; w < first + kMembers; ++w) {
      if (all || Chance(random_, 50)) wires_[w]->Cut();
    }
    absl::SleepFor(absl::Milliseconds(Below(random_, 5000)));
    for (size_t w = first; w < first + kMembers; ++w) wires_[w]->Heal();
  }

  // While a server is paused, so that what it watched is gone.
  void Compact() {
    ++compactions_;
    const int server = static_cast<int>(Below(random_, kServers));
    servers_[server].process->Kill(SIGSTOP);
    absl::SleepFor(absl::Milliseconds(Below(random_, 1000)));
    cluster_.Compact().IgnoreError();
    servers_[server].process->Kill(SIGCONT);
  }

  ModelRun& run_;
  Random random_;
  TestClock clock_;
  EtcdCluster cluster_;
  std::vector<std::unique_ptr<Wire>> wires_;  // of server 0, of server 1, ...
  std::vector<Server> servers_;
  std::array<int64_t, kMembers> leader_changes_ = {};
  Instant looked_ = 0;  // at them
  const std::string path_ = TempPath("late_routes");
  int file_ = -1;  // a pipe to the late server
  int deaths_ = 0, member_deaths_ = 0, cuts_ = 0, compactions_ = 0;
};

// Waits until `server` is done with `generation` and no call is in flight.
StateCall AwaitQuiet(ModelRun& run, int server, uint64_t generation) {
  const Instant stopped = Now();
  ModelReader reader(run, server);
  StateCall state;
  ListCall list;
  while (!reader.State(state) || state.visible < state.accepted ||
         state.accepted < generation || !reader.List(list)) {
    if (Now() > stopped + 60'000'000'000) {
      run.Surprise(absl::StrCat("server ", server, " does not answer"));
      break;
    }
  }
  return state;
}

// Waits until `server` has the table "default" alone.
void AwaitDeletions(ModelRun& run, int server) {
  const auto stub = v1::RouteTable::NewStub(ModelChannel(run.TargetOf(server)));
  const Instant stopped = Now();
  for (;;) {
    grpc::ClientContext context;
    Limit(context, std::chrono::milliseconds(1000));
    v1::ListTablesResponse response;
    const auto status =
        stub->ListTables(&context, v1::ListTablesRequest(), &response);
    if (status.ok() && response.tables_size() == 1) return;
    if (Now() > stopped + 60'000'000'000) {
      run.Surprise(absl::StrCat("server ", server, " keeps a deleted table"));
      return;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

TEST_P(Model, ReplicasKeepTheirPromises) {
  if (!EtcdCluster::Available()) GTEST_SKIP() << "there is no program etcd";
  ModelRun run;
  run.seed = GetParam();
  Tenants tenants(run);
  const auto seconds = FromEnvironment("PLANB_MODEL_SECONDS", 1);
  StateCall last;
  std::string missing;
  {
    ReplicaNemesis nemesis(run);
    std::vector<std::thread> clients, watchers;
    clients.emplace_back([&tenants] { tenants.Run(); });
    for (int i = 0; i < ReplicaNemesis::kServers; ++i) {
      clients.emplace_back([&run, i] { ModelWriter(run, i).Run(); });
      clients.emplace_back([&run, i] { ModelReader(run, i).Run(); });
      watchers.emplace_back([&run, i] { ModelWatcher(run, i).Run(); });
    }
    nemesis.EndLate();
    const Instant end =
        Now() +
        absl::ToInt64Nanoseconds(absl::Seconds(static_cast<int64_t>(seconds)));
    constexpr Instant kAtMost = 120'000'000'000;
    const auto lacks = [&] {
      const Events events = run.history.Inspect(Count);
      if (events.generations <= 100) return std::string("generations");
      if (events.lookups <= 100) return std::string("lookups");
      if (events.unknown == 0) return std::string("unknown outcomes");
      if (tenants.count() == 0) return std::string("tables");
      return nemesis.Missing();
    };
    do {
      nemesis.Strike();
      missing = lacks();
    } while (Now() < end || (!missing.empty() && Now() < end + kAtMost));
    run.stop.store(true);
    for (std::thread& client : clients) client.join();
    nemesis.NoteElections();
    // Etcd may still hold an append of unknown outcome; then the next state is
    // newer, and the loop goes on.
    for (bool same = false; !same;) {
      last = AwaitQuiet(run, 0, run.accepted.load());
      same = true;
      for (int s = 1; s < ReplicaNemesis::kServers; ++s) {
        const StateCall other = AwaitQuiet(run, s, last.accepted);
        same = same && other.accepted == last.accepted;
        if (same) {
          EXPECT_EQ(other.digest, last.digest);
        }
      }
    }
    for (int i = 0; i < ReplicaNemesis::kServers; ++i) AwaitDeletions(run, i);
    run.last_generation.store(std::max<uint64_t>(last.accepted, 1));
    for (std::thread& watcher : watchers) watcher.join();
    std::cout << tenants.count() << " tables deleted\n";
  }
  ModelHistory history = run.history.Take();
  history.probes = WorldProbes();
  Check(run.seed, history, std::move(tenants.histories()));
  const Events events = Count(history);
  Print(last, events);
  EXPECT_EQ(missing, "");
  EXPECT_GT(events.messages, last.accepted / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace planb::server
