// SPDX-License-Identifier: Apache-2.0

#include "server/store/upstream_store.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "lpm/routes/table_digest.h"
#include "server/base/error.h"
#include "server/base/grpc_time.h"
#include "server/base/log.h"
#include "server/base/periodic.h"

namespace planb::server {
namespace {

using Message = v1::WatchRoutesResponse;

constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()),
          status.error_message()};
}

uint64_t SizeOf(const v1::Table& table) {
  return table.routes_v4() + table.routes_v6() + table.next_hops() +
         table.groups();
}

// By what the list of tables tells.
absl::Status CheckFits(const v1::Table& table, const GenerationLimits& limits) {
  for (const auto& [has, what, limit, flag] :
       {std::tuple(table.routes_v4() + table.routes_v6(), "routes",
                   limits.max_routes, "--max_routes"),
        {table.next_hops() + table.groups(), "next hops and groups",
         limits.max_next_hops, "--max_next_hops"}}) {
    if (has <= limit) continue;
    return Error(absl::StatusCode::kResourceExhausted, "TABLE_FULL",
                 absl::StrCat("table ", table.name(), " has ", has, " ", what,
                              "; the limit here is ", limit, " (", flag, ")"));
  }
  return absl::OkStatus();
}

bool ByPrefix(const Route& a, const Route& b) { return a.prefix < b.prefix; }

bool HasItsDigest(const GenerationChanges& whole) {
  TableDigest contents;
  for (const Route& route : whole.routes) contents.Add(route);
  for (const NextHop& next_hop : whole.next_hops) contents.Add(next_hop);
  for (const NextHopGroup& group : whole.groups) contents.Add(group);
  return contents.ToString() == whole.digest;
}

}  // namespace

class UpstreamStore::Call {
 public:
  explicit Call(UpstreamStore& store) : store_(store) {
    const MutexLock lock(store_.mutex_);
    store_.calls_.insert(this);
    if (store_.closed_) context_.TryCancel();
  }
  ~Call() {
    const MutexLock lock(store_.mutex_);
    store_.calls_.erase(this);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* get() { return &context_; }
  void SetTimeout(absl::Duration timeout) {
    context_.set_deadline(GrpcAfter(timeout));
  }

  // A message came.
  void Hear() { heard_ = SteadyNow().time_since_epoch().count(); }
  SteadyInstant heard() const {
    return SteadyInstant(SteadyInstant::duration(heard_.load()));
  }

 private:
  UpstreamStore& store_;
  grpc::ClientContext context_;
  std::atomic<SteadyInstant::rep> heard_ =
      SteadyNow().time_since_epoch().count();
};

struct UpstreamStore::Watch {
  explicit Watch(const GenerationLimits& limits)
      : generations(0, kWholeTable, Replacement::kNewer, limits) {}

  std::string name;
  uint64_t id = 0;
  FibOptions fib;
  GenerationAssembler generations;
  uint64_t position = 0;
  // Where to go on, if what came since was dropped.
  std::optional<TablePosition> dropped;
  bool astray = false;

  std::unique_ptr<Call> call;
  std::unique_ptr<grpc::ClientReader<Message>> stream;
  std::thread thread;
  std::atomic<bool> ended = false;

  // Takes the contents out of a whole table.
  StoredTable Take(GenerationChanges& whole);
};

StoredTable UpstreamStore::Watch::Take(GenerationChanges& whole) {
  StoredTable table;
  table.name = name;
  table.id = id;
  table.position = ++position;
  table.fib = fib;
  table.generation = whole.generation;
  table.complete_since = whole.complete_since.value_or(0);
  table.routes = std::move(whole.routes);
  table.next_hops = std::move(whole.next_hops);
  table.groups = std::move(whole.groups);
  absl::c_sort(table.routes, &ByPrefix);
  table.tail_generation = whole.generation;
  table.tail_digest = std::move(whole.digest);
  return table;
}

UpstreamStore::UpstreamStore(UpstreamOptions options,
                             std::unique_ptr<TlsProvider> tls)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      stub_(v1::RouteTable::NewStub(MakeChannel(options_.target, tls_.get()))) {
}

UpstreamStore::~UpstreamStore() {
  Close(absl::CancelledError("the store is closed"), SteadyNow());
}

absl::StatusOr<std::unique_ptr<UpstreamStore>> UpstreamStore::Open(
    UpstreamOptions options) {
  auto tls = StartClientTls(options.tls);
  if (!tls.ok()) return tls.status();
  return std::unique_ptr<UpstreamStore>(
      new UpstreamStore(std::move(options), *std::move(tls)));
}

absl::Duration UpstreamStore::lag() const {
  return ElapsedSince(
      SteadyInstant(SteadyInstant::duration(last_contact_.load())));
}

absl::StatusOr<v1::ListTablesResponse> UpstreamStore::ListTables(
    absl::Duration timeout) {
  Call call(*this);
  call.get()->set_wait_for_ready(true);
  call.SetTimeout(timeout);
  v1::ListTablesResponse tables;
  const grpc::Status status = stub_->ListTables(call.get(), {}, &tables);
  if (!status.ok()) return ToAbsl(status);
  return tables;
}

void UpstreamStore::Open(Watch& watch) {
  v1::WatchRoutesRequest request = watch.generations.NextWatch();
  request.set_table(watch.name);
  request.set_resync(true);
  watch.stream.reset();
  watch.call = std::make_unique<Call>(*this);
  watch.call->get()->set_wait_for_ready(true);
  watch.stream = stub_->WatchRoutes(watch.call->get(), request);
}

void UpstreamStore::Cancel(Watch& watch) {
  watch.call->get()->TryCancel();
  watch.stream->Finish();
}

void UpstreamStore::EndSilentWatches(SteadyInstant answering) {
  const MutexLock lock(mutex_);
  for (Call* const call : calls_) {
    if (ElapsedSince(std::max(call->heard(), answering)) > options_.silence) {
      call->get()->TryCancel();
    }
  }
}

absl::StatusOr<GenerationChanges> UpstreamStore::ReadGeneration(Watch& watch) {
  Message message;
  for (;;) {
    const bool more = watch.stream->Read(&message);
    watch.call->Hear();
    if (!more) {
      const grpc::Status ended = watch.stream->Finish();
      return ended.ok() ? absl::UnavailableError("the watch ended")
                        : ToAbsl(ended);
    }
    auto changes = watch.generations.Add(message);
    if (changes.ok() && !changes->has_value()) continue;
    if (changes.ok() && (!(*changes)->reset || HasItsDigest(**changes))) {
      return **std::move(changes);
    }
    Cancel(watch);
    if (absl::IsOutOfRange(changes.status())) return changes.status();
    if (absl::IsResourceExhausted(changes.status())) {
      return Error(absl::StatusCode::kResourceExhausted, "TABLE_FULL",
                   changes.status().message());
    }
    return absl::DataLossError(
        changes.ok() ? absl::StrCat("the contents of table ", watch.name,
                                    " are not those of their digest")
                     : changes.status().message());
  }
}

absl::StatusOr<StoredTable> UpstreamStore::Begin(const v1::Table& table,
                                                 Watch& watch) {
  if (!CheckTableName(table.name()).ok()) {
    return absl::DataLossError(absl::StrCat(
        "\"", absl::CHexEscape(table.name()), "\" is no name of a table"));
  }
  const absl::Status fits = CheckFits(table, options_.limits);
  if (!fits.ok()) return fits;
  watch.name = table.name();
  watch.id = next_id_++;
  watch.fib.prefix_lengths = table.prefix_lengths();
  Open(watch);
  std::atomic<bool> silent = false;
  const Periodic give_up(options_.timeout / 8, [&] {
    if (ElapsedSince(watch.call->heard()) < options_.timeout) return;
    silent = true;
    watch.call->get()->TryCancel();
  });
  auto whole = ReadGeneration(watch);
  if (whole.ok()) return watch.Take(*whole);
  if (!silent) return whole.status();
  return absl::DeadlineExceededError(
      absl::StrCat("nothing of table ", watch.name, " came for ",
                   absl::FormatDuration(options_.timeout)));
}

absl::StatusOr<std::vector<StoredTable>> UpstreamStore::Load() {
  const auto failed = [&](const absl::Status& why) {
    for (Watch& watch : watches_) Cancel(watch);
    watches_.clear();
    return Error(
        absl::StatusCode::kUnavailable, "STORE_FAILED",
        absl::StrCat("following ", options_.target, ": ", why.message()));
  };
  const SteadyInstant began = SteadyNow();
  const auto tables = ListTables(options_.timeout);
  if (!tables.ok()) return failed(tables.status());
  std::vector<StoredTable> loaded;
  for (const v1::Table& table : tables->tables()) {
    auto whole = Begin(table, watches_.emplace_back(options_.limits));
    if (whole.ok()) {
      loaded.push_back(*std::move(whole));
      continue;
    }
    watches_.pop_back();
    // Deleted since it was listed.
    if (!absl::IsNotFound(whole.status())) return failed(whole.status());
  }
  last_contact_ = began.time_since_epoch().count();
  return loaded;
}

absl::Status UpstreamStore::Resume(absl::Span<StoredTable> tables,
                                   absl::Duration age) {
  resumed_ = true;
  last_contact_ = SteadyAfter(-age).time_since_epoch().count();
  for (StoredTable& table : tables) {
    table.id = next_id_++;
    Watch& watch = watches_.emplace_back(options_.limits);
    watch.name = table.name;
    watch.id = table.id;
    watch.fib = table.fib;
    watch.generations = {table.generation, table.tail_digest,
                         Replacement::kNewer, options_.limits};
    watch.astray = true;
    ++failing_watches_;
  }
  return absl::OkStatus();
}

Following UpstreamStore::Follow(StoreFollower& follower) {
  {
    const MutexLock lock(follower_mutex_);
    follower_ = &follower;
  }
  for (Watch& watch : watches_) {
    watch.thread = std::thread([this, &watch] { RunWatch(watch); });
  }
  poll_ = std::thread([this] { RunPoll(); });
  return Following([this] {
    const MutexLock lock(follower_mutex_);
    follower_ = nullptr;
  });
}

bool UpstreamStore::Pause(absl::Duration shortest, absl::Duration longest) {
  MutexLock lock(mutex_);
  const absl::Duration pause =
      shortest +
      (longest - shortest) * absl::Uniform<double>(absl::BitGen(), 0.0, 1.0);
  closing_.wait_for(
      lock, absl::ToChronoMilliseconds(pause),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_; });
  return !closed_;
}

bool UpstreamStore::Tell(absl::FunctionRef<void(StoreFollower&)> what) {
  const MutexLock lock(follower_mutex_);
  if (follower_ != nullptr) what(*follower_);
  return follower_ != nullptr;
}

void UpstreamStore::SetAstray(Watch& watch, bool astray) {
  if (astray != watch.astray) failing_watches_ += astray ? 1 : -1;
  watch.astray = astray;
}

bool UpstreamStore::TakesNow(Watch& watch, GenerationChanges& changes) {
  using Wants = StoreFollower::Wants;
  const bool nothing =
      changes.bookmark && changes.generation == changes.previous.generation;
  Wants wants = Wants::kNext;
  Tell([&](StoreFollower& f) { wants = f.wants(watch.name, watch.id); });
  if (wants == Wants::kNothing) {
    if (nothing || watch.dropped.has_value()) return false;
    watch.dropped = std::move(changes.previous);
    Tell([&](StoreFollower& f) { f.Missed(watch.name, watch.id); });
    return false;
  }
  const bool anew = wants == Wants::kWhole;
  const auto dropped = std::exchange(watch.dropped, std::nullopt);
  if (changes.reset || !(anew || dropped.has_value())) return !nothing;
  Cancel(watch);
  watch.generations.GoBack(anew ? TablePosition{0, kWholeTable} : *dropped);
  Open(watch);
  return false;
}

bool UpstreamStore::Deliver(Watch& watch, GenerationChanges changes) {
  if (changes.reset) {
    StoredTable whole = watch.Take(changes);
    return Tell([&](StoreFollower& f) { f.Replaced(std::move(whole)); });
  }
  // The contract gives changes no order.
  absl::c_sort(changes.routes, &ByPrefix);
  std::vector<AcceptedBatch> batches(1);
  batches[0].delta = std::make_shared<Delta>(
      Delta{.generation = changes.generation,
            .previous = changes.previous.generation,
            .routes = std::move(changes.routes),
            .next_hops = std::move(changes.next_hops),
            .groups = std::move(changes.groups),
            .deleted_next_hops = std::move(changes.deleted_next_hops),
            .deleted_groups = std::move(changes.deleted_groups),
            .digest = std::move(changes.digest),
            .complete_since = changes.complete_since.value_or(0)});
  ++watch.position;
  return Tell([&](StoreFollower& f) {
    f.Appended(watch.name, watch.id, watch.position, std::move(batches));
  });
}

void UpstreamStore::RunWatch(Watch& watch) {
  absl::Duration pause = kFirstPause;
  if (watch.stream == nullptr) Open(watch);
  for (;;) {
    auto changes = ReadGeneration(watch);
    if (changes.ok()) {
      SetAstray(watch, false);
      pause = kFirstPause;
      if (TakesNow(watch, *changes) && !Deliver(watch, *std::move(changes)))
        return;
      continue;
    }
    const absl::Status& read = changes.status();
    if (absl::IsNotFound(read)) {
      if (!Tell([&](StoreFollower& f) { f.Deleted(watch.name, watch.id); }))
        return;
      break;
    }
    // A watch that was too slow ends with RESOURCE_EXHAUSTED, too.
    const bool too_large = ErrorReason(read) == "TABLE_FULL";
    if (absl::IsDataLoss(read) || too_large) {
      const absl::Status why = too_large
                                   ? read
                                   : Error(absl::StatusCode::kDataLoss,
                                           "STORE_CORRUPT", read.message());
      Tell([&](StoreFollower& f) { f.Failed(watch.name, watch.id, why); });
      return;
    }
    if (!watch.astray) {
      Log(LogLevel::kWarning, "a watch of the server that is followed ended",
          {{"table", watch.name}, {"error", read.message()}});
    }
    SetAstray(watch, true);
    if (!Pause(absl::ZeroDuration(), pause)) break;
    pause = std::min(pause * 2, kLongestPause);
    Open(watch);
  }
  SetAstray(watch, false);
  watch.ended = true;
}

size_t UpstreamStore::missing() const {
  const MutexLock lock(mutex_);
  return refused_.size();
}

absl::Status UpstreamStore::WhyMissing(absl::string_view name) const {
  const MutexLock lock(mutex_);
  const auto refused = refused_.find(name);
  return refused == refused_.end() ? absl::OkStatus() : refused->second.why;
}

bool UpstreamStore::IsDue(const v1::Table& table) {
  const MutexLock lock(mutex_);
  const auto refused = refused_.find(table.name());
  if (refused == refused_.end()) return true;
  Refusal& refusal = refused->second;
  if (SizeOf(table) < refusal.size - refusal.size / 8) {
    refusal.pause = absl::ZeroDuration();
    return true;
  }
  return SteadyNow() >= refusal.attempt;
}

void UpstreamStore::Refuse(const v1::Table& table, const absl::Status& why) {
  bool other = false;  // than before
  {
    const MutexLock lock(mutex_);
    if (absl::IsNotFound(why)) {  // deleted since it was listed
      refused_.erase(table.name());
      return;
    }
    const auto [refused, first] = refused_.try_emplace(table.name());
    Refusal& refusal = refused->second;
    const uint64_t size = SizeOf(table);
    refusal.size = first ? size : std::min(refusal.size, size);
    refusal.pause = std::clamp(2 * refusal.pause, options_.first_attempt,
                               options_.last_attempt);
    refusal.attempt = SteadyAfter(refusal.pause);
    other = refusal.why.code() != why.code();
    refusal.why = why;
  }
  if (!other) return;
  Log(LogLevel::kError, "a table cannot be followed; this is repeated",
      {{"table", absl::CHexEscape(table.name())}, {"error", why.message()}});
}

bool UpstreamStore::FollowToo(const v1::Table& table) {
  Watch& watch = watches_.emplace_back(options_.limits);
  auto whole = Begin(table, watch);
  if (!whole.ok()) {
    watches_.pop_back();
    Refuse(table, whole.status());
    return true;
  }
  bool was_refused = false;
  {
    const MutexLock lock(mutex_);
    was_refused = refused_.erase(table.name()) > 0;
  }
  if (was_refused) {
    Log(LogLevel::kInfo, "a table is followed after all",
        {{"table", table.name()}});
  }
  if (!Tell([&](StoreFollower& f) { f.Replaced(*std::move(whole)); }))
    return false;
  watch.thread = std::thread([this, &watch] { RunWatch(watch); });
  return true;
}

void UpstreamStore::RunPoll() {
  SteadyInstant answering = SteadyNow();
  while (Pause(options_.poll / 2, options_.poll)) {
    const auto tables = ListTables(options_.poll * 3);
    if (!tables.ok()) {
      answering = SteadyNow();
      continue;
    }
    EndSilentWatches(answering);
    if (failing_watches_ == 0)
      last_contact_ = SteadyNow().time_since_epoch().count();
    std::set<std::string> followed;
    for (auto watch = watches_.begin(); watch != watches_.end();) {
      if (watch->ended) {
        watch->thread.join();
        watch = watches_.erase(watch);
      } else {
        followed.insert((watch++)->name);
      }
    }
    std::set<absl::string_view> others;  // that are listed
    for (const v1::Table& table : tables->tables()) {
      if (followed.contains(table.name()) ||
          !others.insert(table.name()).second) {
        continue;
      }
      if (IsDue(table) && !FollowToo(table)) return;
    }
    const MutexLock lock(mutex_);
    std::erase_if(refused_, [&](const auto& refused) {
      return !others.contains(refused.first);
    });
  }
}

void UpstreamStore::Close(const absl::Status& /*why*/,
                          SteadyInstant /*deadline*/) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    closing_.notify_all();
    for (Call* const call : calls_) call->get()->TryCancel();
  }
  if (poll_.joinable()) poll_.join();
  for (Watch& watch : watches_) {
    if (watch.thread.joinable()) watch.thread.join();
  }
}

}  // namespace planb::server
