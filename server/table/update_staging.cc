// SPDX-License-Identifier: Apache-2.0

#include "server/table/update_staging.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/table/group_table.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// If others change more routes while a batch is prepared, it is applied anew.
constexpr size_t kMostTouched = 50'000;

// The bytes of a table without its FIBs.
size_t RibBytes(const Rib& rib) {
  return rib.bytes() +
         rib.next_hops().groups().size() * GroupTable::kGroupBytes;
}

constexpr std::array<Family, 2> kFamilies = {Family::kIpv4, Family::kIpv6};

// Bytes of the budget that announcements leave to changes of next hops, which
// cost little beside the routes.
constexpr size_t kLeftByAnnouncements = 64 << 10;

// An upper bound of the bytes of two FIBs of these routes: the visible one and
// the one being compiled. O(1).
FibsBound BoundByLengths(const Rib& rib, const FibOptions& fib) {
  FibsBound bound;
  for (size_t f = 0; f < kFamilies.size(); ++f) {
    const RoutesByLength& lengths = rib.lengths(kFamilies[f]);
    const size_t bytes =
        FibBytesBound(kFamilies[f], lengths, kDistinctNextHops, fib) +
        CompilePeakBound(kFamilies[f], lengths, kDistinctNextHops, fib);
    bound.families[f] = {bytes, rib.routes(kFamilies[f]).size(), bytes};
  }
  return bound;
}

// What they measurably come to, with the worst next hops: O(routes). Nothing if
// it is more than `most`.
std::optional<FibsBound> MeasuredBound(const Rib& rib, const FibOptions& fib,
                                       size_t most) {
  FibsBound bound;
  for (size_t f = 0; f < kFamilies.size(); ++f) {
    const RouteSet& routes = rib.routes(kFamilies[f]);
    const absl::StatusOr<size_t> bytes =
        MeasuredFibBytesOfPrefixes(routes, most - bound.bytes(), fib);
    if (!bytes.ok()) return std::nullopt;
    bound.families[f] = {*bytes, routes.size(), *bytes};
  }
  return bound;
}

// The bound after withdrawals, which led from a table of the bound `before` to
// `next`. Falls whenever half of the routes of a family are gone, O(routes)
// then.
FibsBound BoundOfFewer(const Rib& next, const FibsBound& before,
                       const FibOptions& fib) {
  FibsBound bound = before;
  const FibsBound by_lengths = BoundByLengths(next, fib);
  for (size_t f = 0; f < kFamilies.size(); ++f) {
    const RouteSet& routes = next.routes(kFamilies[f]);
    FibsBound::OfFamily& of = bound.families[f];
    if (routes.size() < of.routes / 2) {
      // The FIB was compiled in full since there were twice as many routes.
      of.bytes = of.compiled;
      of.routes = routes.size();
      const auto measured =
          MeasuredFibBytesOfPrefixes(routes, of.compiled, fib);
      if (measured.ok()) of.compiled = *measured;
    }
    of.bytes = std::min(of.bytes, by_lengths.families[f].bytes);
    of.compiled = std::min(of.compiled, of.bytes);
  }
  return bound;
}

// True if so many changes are more than FibCompiler makes one by one, of one
// family at least.
bool CompilesAll(size_t changes, const Rib& rib) {
  size_t most = 0;
  for (const Family family : kFamilies) {
    most += FibCompiler::MostChanges(rib.routes(family).size());
  }
  return changes > most;
}

// RESOURCE_EXHAUSTED (TABLE_FULL) if a FIB might not be able to hold this
// number of routes of these lengths.
absl::Status CheckCompilable(const Rib& rib, const FibOptions& fib) {
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    const absl::Status status = planb::CheckCompilable(
        family, rib.lengths(family), kDistinctNextHops, fib);
    if (!status.ok()) {
      return QuotaError("TABLE_FULL", "routes", status.message());
    }
  }
  return absl::OkStatus();
}

// What others wrote may break what a RouteSet requires.
absl::Status CheckRoutes(absl::Span<const Route> routes) {
  for (size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    if (i > 0 && !(routes[i - 1].prefix < route.prefix)) {
      return absl::DataLossError(absl::StrCat(route.prefix.ToString(),
                                              " is twice among the routes, "
                                              "or not in its place"));
    }
    if (!IsNextHop(route.next_hop)) {
      return absl::DataLossError(absl::StrCat(route.prefix.ToString(),
                                              " has next hop ", route.next_hop,
                                              ", which is reserved"));
    }
  }
  return absl::OkStatus();
}

// Makes `rib`, which has `limits`, the table that `batch` lists, beyond any.
absl::StatusOr<Rib::Change> ReplaceAll(const UpdateBatch& batch,
                                       const RibLimits& limits, Rib& rib) {
  const absl::Status valid = CheckRoutes(*batch.replacement);
  if (!valid.ok()) return valid;
  rib.SetLimits(kNoRibLimits);
  absl::StatusOr<Rib::Change> change = rib.Apply(batch);
  rib.SetLimits(limits);
  return change;
}

// 0 stands for no moment.
uint64_t UnixNanos(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixNanos(time), 1));
}

}  // namespace

absl::StatusOr<Rib> UpdateStaging::ToRib(const RibLimits& limits,
                                         const StoredTable& stored) {
  UpdateBatch batch;
  batch.replacement = stored.routes;
  batch.next_hops = stored.next_hops;
  batch.groups = stored.groups;
  Rib rib(limits);
  const auto change = ReplaceAll(batch, limits, rib);
  rib.SetCompleteSince(stored.complete_since);
  if (change.ok()) return rib;
  return Error(
      absl::StatusCode::kDataLoss, "STORE_CORRUPT",
      absl::StrCat("the store has a table \"", stored.name,
                   "\" that no server can have: ", change.status().message()));
}

UpdateStaging::UpdateStaging(const Options& options, const StoredTable& stored,
                             Rib rib)
    : options_(options),
      head_{.rib = std::move(rib),
            .generation = stored.generation,
            .writer_epoch = stored.writer_epoch},
      window_(options.request_id_window, options.most_request_ids,
              options.id_budget, options.steady_clock),
      accepted_{head_.Share()} {
  for (const AnsweredRequest& request : window_.ToAdd(stored.requests)) {
    const MutexLock lock(mutex_);
    window_.Add(request);
    window_.Accept(1);
  }
  // Last, as nothing gives back what a constructor that throws has reserved.
  const size_t aside = RibBytes(head_.rib);
  const auto fibs = Admit(head_.rib, aside, {.changed = 1}, Delta(),
                          /*validate_only=*/false);
  head_.fibs = fibs.ok() ? *fibs : BoundByLengths(head_.rib, options_.fib);
  head_.memory_bound = aside + head_.fibs.bytes();
  const MutexLock lock(mutex_);
  // Keeps a table that was accepted under a higher memory limit.
  if (!fibs.ok()) Force(head_.memory_bound);
  accepted_ = head_.Share();
}

UpdateStaging::~UpdateStaging() {
  if (options_.budget != nullptr) options_.budget->Resize(reserved_, 0);
}

void UpdateStaging::Force(size_t bytes) {
  head_bound_ = bytes;
  if (Reserve(bytes)) return;
  options_.budget->Force(bytes - std::min(bytes, reserved_));
  reserved_ = std::max(reserved_, bytes);
}

bool UpdateStaging::Reserve(size_t bytes) {
  const size_t wanted = std::max(bytes, accepted_.memory_bound);
  if (options_.budget != nullptr &&
      !options_.budget->Resize(reserved_, wanted)) {
    return false;
  }
  reserved_ = wanted;
  return true;
}

absl::Status UpdateStaging::CheckConditions(const UpdateBatch& batch) const {
  if (batch.writer_epoch < head_.writer_epoch) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "WRITER_FENCED",
                      "writer_epoch",
                      absl::StrCat("a writer with epoch ", head_.writer_epoch,
                                   " has taken over"));
  }
  if (batch.expected_generation.has_value() &&
      *batch.expected_generation != head_.generation) {
    return FieldError(
        absl::StatusCode::kAborted, "GENERATION_MISMATCH",
        "expected_generation",
        absl::StrCat("the table is at generation ", head_.generation, ", not ",
                     *batch.expected_generation));
  }
  return absl::OkStatus();
}

absl::StatusOr<FibsBound> UpdateStaging::Admit(const Rib& next, size_t aside,
                                               const ChangeCounts& counts,
                                               const Delta& delta,
                                               bool validate_only) {
  const bool announces = counts.added > 0;
  const auto fits = [&](const FibsBound& fibs) {
    const size_t bytes = aside + fibs.bytes();
    const size_t wanted = bytes + (announces ? kLeftByAnnouncements : 0);
    const MutexLock lock(mutex_);
    if (validate_only) {
      return options_.budget == nullptr || wanted <= reserved_ ||
             wanted - reserved_ <= options_.budget->left();
    }
    if (!Reserve(wanted)) return false;
    head_bound_ = bytes;  // with the reservation, which Accept() keeps
    return true;
  };
  if (options_.budget != nullptr && !announces && counts.changed == 0) {
    const FibsBound fewer = BoundOfFewer(next, head_.fibs, options_.fib);
    if (fits(fewer)) return fewer;
    if (delta.next_hops.empty() && delta.groups.empty()) {
      // The RIB may copy some of its nodes to lose a route.
      const MutexLock lock(mutex_);
      if (!validate_only) Force(aside + fewer.bytes());
      return fewer;
    }
  }
  const FibsBound bound = BoundByLengths(next, options_.fib);
  if (fits(bound)) return bound;
  // The bound tells of the worst table; this one may take much less. There is a
  // budget: all fits without.
  size_t most = options_.budget->left();
  {
    const MutexLock lock(mutex_);
    most += reserved_;
  }
  std::optional<FibsBound> measured;
  if (most > aside) {
    measured = MeasuredBound(next, options_.fib, most - aside);
  }
  if (measured.has_value()) {
    // Few changes leave the memory of the table before.
    const bool anew = CompilesAll(delta.routes.size(), next);
    for (size_t f = 0; f < measured->families.size() && !anew; ++f) {
      FibsBound::OfFamily& of = measured->families[f];
      of.bytes = std::max(of.bytes, std::min(head_.fibs.families[f].bytes,
                                             bound.families[f].bytes));
    }
    if (fits(*measured)) return *measured;
  }
  return QuotaError("MEMORY_LIMIT", "memory",
                    absl::StrCat("the table measurably comes to more than the ",
                                 most, " bytes that are left for it of the ",
                                 options_.budget->limit(),
                                 " of all tables (--max_table_memory_bytes)"));
}

bool UpdateStaging::WorthPreparing(const UpdateBatch& batch) const {
  const size_t routes = batch.replacement.has_value()
                            ? batch.replacement->size()
                            : batch.changes.size();
  return routes >= options_.prepared_routes && Rib::CanRebase(batch);
}

std::optional<UpdateStaging::Prepared> UpdateStaging::Begin(
    const UpdateBatch& batch) {
  Forget();
  if (!CheckConditions(batch).ok()) return std::nullopt;
  preparing_ = true;
  return Prepared{head_.rib.Share(), head_.rib.Share(), Rib::Change()};
}

void UpdateStaging::Prepare(const UpdateBatch& batch, Prepared& prepared) {
  prepared.change = prepared.rib.Apply(batch);
}

void UpdateStaging::Touch(const Delta& delta) {
  if (touched_.size() + delta.routes.size() > kMostTouched) return Forget();
  for (const Route& route : delta.routes) touched_.push_back(route.prefix);
}

void UpdateStaging::Forget() {
  preparing_ = false;
  touched_ = {};
}

absl::StatusOr<Rib::Change> UpdateStaging::Apply(const UpdateBatch& batch,
                                                 Prepared* prepared,
                                                 std::vector<Prefix> touched,
                                                 Rib& next) {
  if (prepared == nullptr || !prepared->change.ok()) return next.Apply(batch);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  next = std::move(prepared->rib);
  const absl::Status rebased =
      next.Rebase(batch, prepared->base, head_.rib, touched, *prepared->change);
  if (!rebased.ok()) return rebased;
  return std::move(prepared->change);
}

absl::StatusOr<UpdateStaging::Staged> UpdateStaging::Stage(
    const UpdateBatch& batch, Prepared* prepared) {
  const absl::Time now = options_.wall_clock();
  std::vector<Prefix> touched;  // since the batch was begun
  if (prepared != nullptr) {
    if (!preparing_) prepared = nullptr;
    touched = std::move(touched_);
    Forget();
  }
  if (!batch.request_id.empty()) {
    const MutexLock lock(mutex_);
    const AnsweredRequest* const first = window_.Find(batch.request_id);
    if (first != nullptr && first->fingerprint == batch.fingerprint) {
      return Staged{.outcome = first->outcome,
                    .operations = UnchangedOperations(batch),
                    .repeated = true};
    }
    if (first != nullptr) {
      return FieldError(absl::StatusCode::kInvalidArgument, "REQUEST_ID_REUSED",
                        "request_id",
                        "names an earlier request with other contents");
    }
    const absl::Duration wait = window_.Wait(batch.request_id, now);
    if (wait > absl::ZeroDuration() && !batch.validate_only) {
      return QuotaError(
          "TOO_MANY_REQUEST_IDS", "request ids",
          absl::StrCat("the server keeps the ids of all requests of the last ",
                       absl::FormatDuration(kRequestIdRetention),
                       ", which are as many as it may keep; repeat this one "
                       "later, or send it without an id"),
          wait);
    }
  }
  const absl::Status conditions = CheckConditions(batch);
  if (!conditions.ok()) return conditions;
  Version next = head_.Share();
  absl::StatusOr<Rib::Change> change =
      Apply(batch, prepared, std::move(touched), next.rib);
  if (!change.ok()) return change.status();
  if (change->delta.bytes() > options_.max_delta_bytes) {
    return QuotaError(
        "BATCH_TOO_LARGE", "batch",
        absl::StrCat("the changes have ", change->delta.bytes(),
                     " bytes; the limit is ", options_.max_delta_bytes));
  }
  const absl::Status compilable = CheckCompilable(next.rib, options_.fib);
  if (!compilable.ok()) return compilable;
  const size_t aside = RibBytes(next.rib);
  const absl::StatusOr<FibsBound> fibs = Admit(
      next.rib, aside, change->counts, change->delta, batch.validate_only);
  if (!fibs.ok()) return fibs.status();
  next.fibs = *fibs;
  next.memory_bound = aside + fibs->bytes();

  Staged staged;
  staged.outcome = {head_.generation, change->counts, head_.rib.digest(), now};
  if (batch.validate_only) return staged;
  staged.operations = change->operations;
  uint64_t since = head_.rib.complete_since();
  if (batch.complete.has_value() && *batch.complete != (since != 0)) {
    since = *batch.complete ? UnixNanos(now) : 0;
  }
  next.rib.SetCompleteSince(since);
  change->delta.complete_since = since;
  // First all that may throw. What is reserved too much is returned by the next
  // batch.
  const bool changes =
      change->counts.Any() || since != head_.rib.complete_since();
  next.writer_epoch = std::max(head_.writer_epoch, batch.writer_epoch);
  staged.record.writer_epoch = next.writer_epoch;
  staged.stores = changes || !batch.request_id.empty() ||
                  next.writer_epoch != head_.writer_epoch;
  if (changes) {
    staged.outcome.digest = change->delta.digest;
    change->delta.previous = head_.generation;
    change->delta.generation = ++next.generation;
    staged.outcome.generation = next.generation;
    staged.record.delta =
        std::make_shared<const Delta>(std::move(change->delta));
    if (preparing_) Touch(*staged.record.delta);
  }
  if (!batch.request_id.empty()) {
    staged.record.request = {batch.request_id, batch.fingerprint,
                             staged.outcome};
    const MutexLock lock(mutex_);
    window_.Add(*staged.record.request);
    ++next.requests;
  }
  std::swap(head_, next);
  return staged;
}

absl::StatusOr<UpdateStaging::Staged> UpdateStaging::StageRemote(
    Rib rib, const ChangeCounts& counts, AcceptedBatch accepted) {
  Version next = head_.Share();
  next.writer_epoch = std::max(head_.writer_epoch, accepted.writer_epoch);
  if (accepted.delta != nullptr) {
    const Delta& delta = *accepted.delta;
    // No server accepts it.
    const absl::Status compilable = CheckCompilable(rib, options_.fib);
    if (!compilable.ok()) {
      return absl::DataLossError(absl::StrCat("generation ", delta.generation,
                                              ": ", compilable.message()));
    }
    const size_t aside = RibBytes(rib);
    const auto fibs = Admit(rib, aside, counts, delta, /*validate_only=*/false);
    next.rib = std::move(rib);
    next.fibs = fibs.ok() ? *fibs : head_.fibs;
    next.memory_bound = aside + next.fibs.bytes();
    if (!fibs.ok()) {
      // The other server has had memory for it.
      const MutexLock lock(mutex_);
      Force(next.memory_bound);
    }
    next.generation = delta.generation;
    if (preparing_) Touch(delta);
  }
  Staged staged;
  staged.outcome.generation = next.generation;
  staged.record = std::move(accepted);
  if (staged.record.request.has_value()) {
    const MutexLock lock(mutex_);
    window_.Add(*staged.record.request);
    ++next.requests;
  }
  std::swap(head_, next);
  return staged;
}

absl::StatusOr<UpdateStaging::Staged> UpdateStaging::StageAccepted(
    AcceptedBatch accepted) {
  Rib rib = head_.rib.Share();
  ChangeCounts counts;
  if (accepted.delta != nullptr) {
    const Delta& delta = *accepted.delta;
    if (delta.previous != head_.generation) {
      return absl::DataLossError(
          absl::StrCat("generation ", delta.generation, " changes generation ",
                       delta.previous, " and comes after ", head_.generation));
    }
    if (delta.generation <= delta.previous) {
      return absl::DataLossError(absl::StrCat("generation ", delta.generation,
                                              " is not above the one before, ",
                                              delta.previous));
    }
    const absl::StatusOr<ChangeCounts> applied = rib.Apply(delta);
    if (!applied.ok()) {
      return absl::DataLossError(absl::StrCat(
          "generation ", delta.generation, ": ", applied.status().message()));
    }
    if (rib.digest() != delta.digest) {
      return absl::DataLossError(absl::StrCat("generation ", delta.generation,
                                              " leads to another digest"));
    }
    counts = *applied;
  }
  return StageRemote(std::move(rib), counts, std::move(accepted));
}

absl::StatusOr<UpdateStaging::Staged> UpdateStaging::StageWhole(
    StoredTable& whole) {
  UpdateBatch batch;
  batch.replace_next_hops = true;
  // Lent, not copied: a table is large. Given back also if memory runs out.
  const auto lend = [&] {
    batch.replacement->swap(whole.routes);
    batch.next_hops.swap(whole.next_hops);
    batch.groups.swap(whole.groups);
  };
  batch.replacement.emplace();
  lend();
  const absl::Cleanup give_back = lend;
  Rib rib = head_.rib.Share();
  absl::StatusOr<Rib::Change> change = ReplaceAll(batch, options_.limits, rib);
  if (!change.ok()) return absl::DataLossError(change.status().message());
  // The store's own history has its newest generations: the head may be one.
  const auto other = [&](uint64_t generation, absl::string_view digest) {
    return generation == head_.generation && digest != head_.rib.digest();
  };
  bool diverged =
      whole.generation < head_.generation ||
      other(whole.generation, rib.digest()) ||
      (!whole.tail.empty() && other(whole.tail_generation, whole.tail_digest));
  for (const auto& delta : whole.tail) {
    diverged = diverged || other(delta->generation, delta->digest);
  }
  if (diverged) {
    return absl::DataLossError(
        absl::StrCat("the store is at generation ", whole.generation,
                     ", and has another history than this server, which was "
                     "at ",
                     head_.generation));
  }
  AcceptedBatch accepted = {.writer_epoch = whole.writer_epoch};
  rib.SetCompleteSince(whole.complete_since);
  if (whole.generation != head_.generation) {
    change->delta.complete_since = whole.complete_since;
    change->delta.previous = head_.generation;
    change->delta.generation = whole.generation;
    accepted.delta = std::make_shared<const Delta>(std::move(change->delta));
  }
  absl::StatusOr<Staged> staged =
      StageRemote(std::move(rib), change->counts, std::move(accepted));
  if (!staged.ok()) return staged;
  const MutexLock lock(mutex_);
  for (const AnsweredRequest& request : window_.ToAdd(whole.requests)) {
    const AnsweredRequest* const known = window_.Find(request.request_id);
    if (known != nullptr && *known == request) continue;
    window_.Add(request);
    ++head_.requests;
  }
  return staged;
}

UpdateStaging::Version UpdateStaging::Head() const { return head_.Share(); }

UpdateStaging::Version UpdateStaging::Accepted() const {
  const MutexLock lock(mutex_);
  return accepted_.Share();
}

uint64_t UpdateStaging::accepted_generation() const {
  const MutexLock lock(mutex_);
  return accepted_.generation;
}

TableVersion UpdateStaging::ToStore() const {
  const MutexLock lock(mutex_);
  return {.generation = accepted_.generation,
          .writer_epoch = accepted_.writer_epoch,
          .rib = accepted_.rib.Share(),
          .requests = window_.Accepted()};
}

void UpdateStaging::Accept(Version& head) {
  const MutexLock lock(mutex_);
  window_.Accept(head.requests - accepted_.requests);
  std::swap(accepted_, head);
  Reserve(head_bound_);  // never more than before
}

void UpdateStaging::Rollback() {
  const MutexLock lock(mutex_);
  window_.Rollback();
  head_ = accepted_.Share();
  Forget();
  head_bound_ = accepted_.memory_bound;
  Reserve(head_bound_);
}

}  // namespace planb::server
