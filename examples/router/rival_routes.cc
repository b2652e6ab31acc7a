// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rival_routes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/rivals/rivals.h"
#include "client/call.h"

namespace planb::router {
namespace {

using client::NextHopObjects;

constexpr std::array<absl::string_view, 6> kKinds = {
    "dpdk", "poptrie", "cp-trie", "hbs", "neurotrie", "paper"};

// Before the server is asked again after an error.
constexpr absl::Duration kPause = absl::Seconds(1);

absl::StatusOr<std::unique_ptr<const Baseline>> BuildFixed(
    absl::string_view kind, Family family, absl::Span<const Route> routes) {
  if (kind == "poptrie") return BuildPoptrie(family, routes);
  if (kind == "cp-trie") return BuildCpTrie(family, routes);
  if (kind == "hbs") return BuildHbs(family, routes);
  if (kind == "neurotrie") return BuildAdaptiveTrie(family, routes);
  return paper::BuildPaper(family, routes);
}

}  // namespace

absl::Span<const absl::string_view> RivalKinds() { return kKinds; }

bool IsRival(absl::string_view kind) {
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

RivalRoutes::RivalRoutes(absl::string_view kind)
    : kind_(kind), state_(std::make_unique<State>()) {
  const MutexLock lock(mutex_);
  next_.objects = std::make_shared<const NextHopObjects>();
  next_.groups = std::make_shared<const GroupTable>();
  Publish(next_);
}

RivalRoutes::~RivalRoutes() = default;

void RivalRoutes::Publish(const State& state) {
  state_.Publish(std::make_unique<State>(state));
}

uint64_t RivalRoutes::Lookup(Family family, const void* addresses, size_t count,
                             const uint32_t* flow_hashes,
                             NextHopId* next_hops) const {
  const auto state = state_.Read();
  const Baseline* const fib = state->fibs.of(family).fib.get();
  if (fib == nullptr) {
    std::fill_n(next_hops, count, kNoRoute);
  } else {
    fib->Lookup(addresses, count, next_hops);
    state->groups->ChooseEach(reinterpret_cast<const char*>(flow_hashes), count,
                              reinterpret_cast<char*>(next_hops));
  }
  return state->generation;
}

void RivalRoutes::Take(const GenerationChanges& changes) {
  const MutexLock lock(mutex_);
  next_.generation = changes.generation;
  if (changes.bookmark) return;
  if (changes.reset) {
    routes_ = TableRoutes();
    changed_ = {};
    all_ = true;
  }
  for (const Route& route : changes.routes) {
    routes_.Exchange(route.prefix, route.next_hop);
    if (!all_) changed_.of(route.prefix.family()).push_back(route);
  }
  if (!client::ChangesObjects(changes)) return;
  auto objects = changes.reset
                     ? std::make_shared<NextHopObjects>()
                     : std::make_shared<NextHopObjects>(*next_.objects);
  for (const NextHopId id : changes.deleted_next_hops) {
    objects->EraseNextHop(id);
  }
  for (const NextHopId id : changes.deleted_groups) objects->EraseGroup(id);
  objects->SetAll(changes);
  next_.groups = GroupTable::Make(objects->groups(), next_.groups.get());
  next_.objects = std::move(objects);
  ++next_.objects_version;
}

absl::StatusOr<RivalRoutes::Fib> RivalRoutes::BuildFib(
    const RouteSet& routes) const {
  if (routes.empty()) return Fib();
  const std::vector<Route> list(routes.begin(), routes.end());
  if (kind_ == "dpdk") {
    auto built = BuildDpdkFib(routes.family(), list);
    if (!built.ok()) return built.status();
    UpdatableBaseline* const changeable = built->get();
    return Fib{*std::move(built), changeable};
  }
  auto built = BuildFixed(kind_, routes.family(), list);
  if (!built.ok()) return built.status();
  return Fib{*std::move(built)};
}

absl::Status RivalRoutes::Build() {
  State next;
  PerFamily<std::vector<Route>> changed;
  TableRoutes routes;
  bool all = false;
  {
    const MutexLock lock(mutex_);
    next = next_;
    routes = routes_.Share();
    std::swap(changed, changed_);
    all = std::exchange(all_, false);
  }
  next.fibs = state_.Read()->fibs;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    Fib& fib = next.fibs.of(family);
    const std::vector<Route>& changes = changed.of(family);
    if (!all && changes.empty()) continue;
    if (!all && fib.changeable != nullptr) {
      // An object is there before a route to it.
      State before = *state_.Read();
      before.objects = next.objects;
      before.objects_version = next.objects_version;
      before.groups = next.groups;
      Publish(before);
      if (fib.changeable->Update(changes).ok()) continue;
    }
    ++builds_;
    auto built = BuildFib(routes.of(family));
    if (!built.ok()) {
      const MutexLock lock(mutex_);
      all_ = true;
      return built.status();
    }
    fib = *std::move(built);
  }
  Publish(next);
  return absl::OkStatus();
}

RivalTable::RivalTable(std::shared_ptr<grpc::Channel> channel,
                       std::string table, absl::string_view kind)
    : channel_(std::move(channel)), table_(std::move(table)), routes_(kind) {}

absl::StatusOr<std::unique_ptr<RivalTable>> RivalTable::Follow(
    std::shared_ptr<grpc::Channel> channel, const std::string& table,
    absl::string_view kind) {
  std::unique_ptr<RivalTable> rival(
      new RivalTable(std::move(channel), table, kind));
  RivalTable& it = *rival;
  try {
    it.taker_ = std::thread([&it] { it.TakeChanges(); });
    it.builder_ = std::thread([&it] { it.Build(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started: ", error.what()));
  }
  MutexLock lock(it.mutex_);
  it.changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(it.mutex_) {
    return it.ready_ || !it.trouble_.ok();
  });
  if (!it.ready_) return it.trouble_;
  lock.unlock();
  return rival;
}

RivalTable::~RivalTable() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    if (watcher_ != nullptr) watcher_->Cancel();
    changed_.notify_all();
  }
  if (taker_.joinable()) taker_.join();
  if (builder_.joinable()) builder_.join();
}

absl::Status RivalTable::WaitFor(uint64_t generation, Deadline deadline) const {
  MutexLock lock(mutex_);
  if (changed_.wait_until(lock, ToSteady(deadline.time()),
                          [&] { return routes_.generation() >= generation; })) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("generation ", routes_.generation(), " is the newest here, ",
                   generation, " is wanted"));
}

void RivalTable::Fail(const absl::Status& why) {
  if (ready_) {
    std::fprintf(stderr, "router: the table stays as it is: %s\n",
                 why.ToString().c_str());
  } else if (trouble_.ok()) {
    trouble_ = why;
  }
  changed_.notify_all();
}

void RivalTable::TakeChanges() {
  for (;;) {
    client::RouteWatcher* watcher = nullptr;
    {
      const MutexLock lock(mutex_);
      if (closing_) return;
      watcher_ = std::make_unique<client::RouteWatcher>(
          channel_,
          client::WatchOptions{.table = table_, .start_digest = kWholeTable});
      watcher = watcher_.get();
    }
    absl::Status why;
    for (;;) {
      const auto changes = watcher->Next();
      if (!changes.ok()) {
        why = changes.status();
        break;
      }
      routes_.Take(*changes);
      const MutexLock lock(mutex_);
      taken_ = true;
      changed_.notify_all();
    }
    MutexLock lock(mutex_);
    if (closing_) return;
    if (ready_ || !client::MayWatchAgain(why)) Fail(why);
    changed_.wait_until(
        lock, SteadyAfter(kPause),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
  }
}

void RivalTable::Build() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return taken_ || closing_;
      });
      if (closing_) return;
      taken_ = false;
    }
    const absl::Status built = routes_.Build();
    const MutexLock lock(mutex_);
    if (built.ok()) {
      ready_ = true;
      changed_.notify_all();
    } else {
      Fail(built);
    }
  }
}

}  // namespace planb::router
