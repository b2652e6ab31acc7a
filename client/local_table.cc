// SPDX-License-Identifier: Apache-2.0

#include "client/local_table.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace planb::client {
namespace {

constexpr size_t kLargestQuestion = 4096;
// How long the server may take to answer in place of a stale table.
constexpr absl::Duration kAnswerTime = absl::Seconds(5);

}  // namespace

LocalRoutes::LocalRoutes(const FibOptions& options)
    : kernel_(*AvailableKernels().front()),
      compiler_(options),
      objects_(std::make_shared<NextHopObjects>()),
      state_(std::make_unique<State>()) {
  compiler_.Update(routes_, {}).value();  // an empty table always fits
  Publish(0, 0, compiler_.fibs());
}

std::string LocalRoutes::Digest() const {
  TableDigest all = routes_.digest();
  all.Add(objects_digest_);
  return all.ToString();
}

void LocalRoutes::Publish(uint64_t generation, uint64_t complete_since,
                          const TableFibs& fibs) {
  auto state = std::make_unique<State>();
  state->generation = generation;
  state->complete_since = complete_since;
  state->digest = Digest();
  state->fibs = fibs;
  state->groups = group_table_;
  state->objects = objects_;
  state->objects_version = objects_version_;
  state_.Publish(std::move(state));
}

void LocalRoutes::SetObjects(const GenerationChanges& changes) {
  if (!ChangesObjects(changes)) return;
  auto next = changes.reset ? std::make_shared<NextHopObjects>()
                            : std::make_shared<NextHopObjects>(*objects_);
  if (changes.reset) objects_digest_ = TableDigest();
  const auto remove = [this](const auto* object) {
    if (object != nullptr) objects_digest_.Remove(*object);
  };
  for (const NextHopId id : changes.deleted_next_hops) {
    remove(next->FindNextHop(id));
    next->EraseNextHop(id);
  }
  for (const NextHopId id : changes.deleted_groups) {
    remove(next->FindGroup(id));
    next->EraseGroup(id);
  }
  for (const NextHop& next_hop : changes.next_hops) {
    remove(next->FindNextHop(next_hop.id));
    objects_digest_.Add(next_hop);
    next->Set(next_hop);
  }
  for (const NextHopGroup& group : changes.groups) {
    remove(next->FindGroup(group.id));
    objects_digest_.Add(group);
    next->Set(group);
  }
  if (changes.reset || !changes.groups.empty() ||
      !changes.deleted_groups.empty()) {
    group_table_ = GroupTable::Make(next->groups(), group_table_.get());
  }
  objects_ = std::move(next);
  ++objects_version_;
}

absl::Status LocalRoutes::Compile(const GenerationChanges& changes) {
  if (changes.reset) {
    routes_ = TableRoutes();
    compiler_.Restart();
  }
  SetObjects(changes);
  const absl::Span<const Route> routes = changes.routes;
  for (size_t i = 0; i < routes.size(); ++i) {
    if (!changes.reset) {  // else they come in order, and into an empty table
      routes_.Prefetch(i, routes.size(), [routes](size_t at) -> const Prefix& {
        return routes[at].prefix;
      });
    }
    routes_.Exchange(routes[i].prefix, routes[i].next_hop);
  }
  if (!changes.digest.empty() && Digest() != changes.digest) {
    return absl::DataLossError(absl::StrCat("generation ", changes.generation,
                                            " leads to another digest here"));
  }
  absl::Status compiled = compiler_.Update(routes_, {changes.routes}).status();
  if (compiled.ok()) {
    Publish(changes.generation, changes.complete_since.value_or(0),
            compiler_.fibs());
  }
  return compiled;
}

absl::Status LocalRoutes::Apply(const GenerationChanges& changes) {
  if (changes.bookmark && !changes.digest.empty() &&
      changes.digest != Digest()) {
    return absl::DataLossError(absl::StrCat(
        "the digest of generation ", changes.generation, " is another here"));
  }
  try {
    if (!changes.bookmark) return Compile(changes);
    // Of a later generation if those in between changed nothing.
    const uint64_t since = changes.complete_since.value_or(complete_since());
    if (changes.generation > generation() || since != complete_since()) {
      Publish(changes.generation, since, state_.Read()->fibs);
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for the table");
  }
}

// The tables of this process. During a fork it holds the locks of all, so that
// the child has them, and there it ends the tables. Thread-safe.
class LocalTable::Forks {
 public:
  static Forks& Get() {
    static auto* const forks = new Forks;
    return *forks;
  }

  // OK, or FAILED_PRECONDITION in the child of a process that had tables.
  absl::Status Add(LocalTable* table) {
    const MutexLock lock(mutex_);
    if (!child_.ok()) return child_;
    tables_.push_back(table);
    return absl::OkStatus();
  }
  void Remove(const LocalTable* table) {
    const MutexLock lock(mutex_);
    tables_.erase(std::remove(tables_.begin(), tables_.end(), table),
                  tables_.end());
  }

 private:
  Forks() {
    pthread_atfork([] { Get().Hold(); }, [] { Get().Release(); },
                   [] { Get().EndAll(); });
  }
  void Hold() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock();
    for (LocalTable* const table : tables_) table->mutex_.lock();
  }
  void Release() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (LocalTable* const table : tables_) table->mutex_.unlock();
    mutex_.unlock();
  }
  void EndAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (LocalTable* const table : tables_) {
      child_ = absl::FailedPreconditionError(
          "this process was forked from the one that follows the table");
      table->ended_ = child_;
      table->forked_ = true;
      table->bypass_ = true;
    }
    Release();
    tables_.clear();
  }

  Mutex mutex_;
  std::vector<LocalTable*> tables_ ABSL_GUARDED_BY(mutex_);
  absl::Status child_ ABSL_GUARDED_BY(mutex_);
};

LocalTable::LocalTable(std::shared_ptr<grpc::Channel> channel,
                       LocalTableOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      server_(channel_),
      routes_({.prefix_lengths = options_.prefix_lengths}),
      last_contact_(SteadyNow().time_since_epoch().count()) {}

absl::Status LocalTable::Start() {
  const absl::Status added = Forks::Get().Add(this);
  if (!added.ok()) return added;
  try {
    follower_ = std::thread([this] { Run(); });
    if (options_.max_staleness < absl::InfiniteDuration()) {
      clock_ = std::thread([this] { WatchStaleness(); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started: ", error.what()));
  }
  return absl::OkStatus();
}

LocalTable::~LocalTable() {
  Forks::Get().Remove(this);
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    if (watcher_ != nullptr) watcher_->Cancel();
    changed_.notify_all();
  }
  if (follower_.joinable()) follower_.join();
  if (clock_.joinable()) clock_.join();
}

absl::StatusOr<std::unique_ptr<LocalTable>> LocalTable::Follow(
    std::shared_ptr<grpc::Channel> channel, LocalTableOptions options,
    Deadline deadline) {
  std::unique_ptr<LocalTable> table(
      new LocalTable(std::move(channel), std::move(options)));
  absl::Status started = table->Start();
  if (!started.ok()) return started;
  MutexLock lock(table->mutex_);
  table->changed_.wait_until(lock, ToSteady(deadline.time()),
                             [&]()
                                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(table->mutex_) {
                                   return table->ready_ || !table->ended_.ok();
                                 });
  if (!table->ended_.ok()) return table->ended_;
  if (!table->ready_) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the whole table was not there in time", table->LastError()));
  }
  lock.unlock();
  return table;
}

absl::StatusOr<NextHopId> LocalTable::Lookup(const Address& address) const {
  if (!bypass_.load(std::memory_order_acquire)) return routes_.Lookup(address);
  const std::string packed = address.ToPacked();
  NextHopId next_hop = kNoRoute;
  const auto generation =
      AskServer(address.family(), packed.data(), 1, &next_hop);
  if (!generation.ok()) return generation.status();
  return next_hop;
}

absl::Status LocalTable::Stale() const {
  if (!ended_.ok()) return ended_;
  const uint64_t least = std::max(generation(), answered_);
  return absl::UnavailableError(
      absl::StrCat("the table is stale: ",
                   generation() < least
                       ? absl::StrCat("the server answered from generation ",
                                      least, ", here is ", generation())
                       : absl::StrCat("the server was not heard for ",
                                      absl::FormatDuration(staleness())),
                   LastError()));
}

absl::Status LocalTable::WhyBypassed() const {
  const MutexLock lock(mutex_);
  return Stale();
}

absl::StatusOr<uint64_t> LocalTable::AskServer(Family family,
                                               const void* addresses,
                                               size_t count,
                                               NextHopId* next_hops) const {
  uint64_t least = 0;
  {
    const MutexLock lock(mutex_);
    if (!ended_.ok() || !options_.fall_back || count > kLargestQuestion) {
      return Stale();
    }
    least = std::max(generation(), answered_);
  }
  std::vector<Address> asked;
  const size_t bytes = family == Family::kIpv6 ? 16 : 4;
  for (size_t i = 0; i < count; ++i) {
    asked.push_back(*Address::FromPacked(
        {static_cast<const char*>(addresses) + i * bytes, bytes}));
  }
  const auto answers =
      server_.Lookup(asked, {.table = options_.table,
                             .min_generation = least,
                             .deadline = Deadline::After(kAnswerTime)});
  if (!answers.ok()) return answers.status();
  for (size_t i = 0; i < count; ++i) {
    next_hops[i] = answers->answers[i].next_hop;
  }
  const MutexLock lock(mutex_);
  answered_ = std::max(answered_, answers->generation);
  // The server may be heard again since it was asked.
  if (generation() < answered_) bypass_ = true;
  return answers->generation;
}

absl::Status LocalTable::Await(absl::FunctionRef<bool()> holds,
                               absl::string_view what,
                               Deadline deadline) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, ToSteady(deadline.time()),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return holds() || !ended_.ok();
                      });
  if (holds()) return absl::OkStatus();
  if (!ended_.ok()) return ended_;
  return absl::DeadlineExceededError(
      absl::StrCat("generation ", routes_.generation(), " is the newest here, ",
                   what, " is wanted", LastError()));
}

absl::Status LocalTable::WaitFor(uint64_t generation, Deadline deadline) const {
  return Await([&] { return routes_.generation() >= generation; },
               absl::StrCat(generation), deadline);
}

absl::Status LocalTable::WaitUntilComplete(Deadline deadline) const {
  return Await([&] { return routes_.complete_since() != 0; }, "a complete one",
               deadline);
}

std::string LocalTable::LastError() const {
  return trouble_.ok() ? "" : absl::StrCat(": ", trouble_.message());
}

absl::Duration LocalTable::staleness() const {
  return ElapsedSince(
      SteadyInstant(SteadyInstant::duration(last_contact_.load())));
}

void LocalTable::WatchStaleness() {
  MutexLock lock(mutex_);
  while (!closing_) {
    if (ended_.ok()) {
      bypass_ =
          staleness() > options_.max_staleness || generation() < answered_;
    }
    changed_.wait_until(lock, SteadyAfter(std::max(options_.max_staleness / 100,
                                                   absl::Milliseconds(1))));
  }
}

void LocalTable::Run() {
  RetryPolicy retry(options_.backoff, absl::InfiniteDuration());
  for (;;) {
    absl::Status why;
    try {
      why = FollowOnce(retry);
    } catch (const std::bad_alloc&) {
      consistent_ = false;
      why = absl::ResourceExhaustedError("not enough memory for the table");
    }
    MutexLock lock(mutex_);
    if (closing_) return;
    watcher_.reset();
    if (!MayWatchAgain(why)) {
      ended_ = std::move(why);
      bypass_ = true;
      changed_.notify_all();
      return;
    }
    retry.Failed(why, MonotonicNow());
    trouble_ = std::move(why);
    changed_.wait_until(
        lock, ToSteady(retry.next_attempt()),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
    if (closing_) return;
  }
}

absl::Status LocalTable::FollowOnce(RetryPolicy& retry) {
  RouteWatcher* watcher = nullptr;
  {
    const MutexLock lock(mutex_);
    if (closing_) return absl::CancelledError();
    watcher_ = std::make_unique<RouteWatcher>(
        channel_, WatchOptions{.table = options_.table,
                               .start_generation = routes_.generation(),
                               .start_digest =
                                   consistent_ ? routes_.digest() : kWholeTable,
                               .go_back = false,
                               .limits = options_.limits,
                               .give_up_after = absl::ZeroDuration()});
    watcher = watcher_.get();
  }
  std::optional<SteadyInstant> since;
  for (;;) {
    const auto changes = watcher->Next();
    if (!changes.ok()) return changes.status();
    consistent_ = true;  // or the first that comes is a whole table
    const absl::Status applied = routes_.Apply(*changes);
    if (!applied.ok()) {
      consistent_ = false;
      return absl::UnavailableError(applied.message());
    }
    last_contact_ = SteadyNow().time_since_epoch().count();
    // A watch that fails soon after its start, each time, is not opened at once
    // again: each may send the whole table.
    if (!since.has_value()) {
      since = SteadyNow();
    } else if (ElapsedSince(*since) >= options_.backoff.max) {
      retry.Succeeded();
    }
    const MutexLock lock(mutex_);
    if (changes->reset && ready_) ++resyncs_;
    ready_ = true;
    trouble_ = absl::OkStatus();
    changed_.notify_all();
  }
}

}  // namespace planb::client
