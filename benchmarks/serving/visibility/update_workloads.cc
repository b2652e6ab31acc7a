// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/visibility/update_workloads.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call.h"

namespace planb::visibility {
namespace {

constexpr size_t kLoadChunk = 10'000;
// Changes made for a stream: enough that they touch more memory than caches
// hold.
constexpr size_t kStreamChanges = 200'000;

void Append(const std::vector<double>& from, std::vector<double>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// `name` is `kind` and a number.
bool Sized(absl::string_view name, absl::string_view kind, size_t& size) {
  return absl::ConsumePrefix(&name, kind) && absl::SimpleAtoi(name, &size) &&
         size > 0;
}

std::vector<Batch> Chunks(absl::Span<const Route> routes) {
  std::vector<Batch> chunks;
  for (size_t i = 0; i < routes.size(); i += kLoadChunk) {
    const auto chunk = routes.subspan(i, kLoadChunk);
    chunks.emplace_back(chunk.begin(), chunk.end());
  }
  return chunks;
}

// Microseconds between two of the server's times, or the client's.
double MicrosBetween(uint64_t from_nanos, uint64_t to_nanos) {
  return (static_cast<double>(to_nanos) - static_cast<double>(from_nanos)) *
         1e-3;
}
uint64_t NowNanos() {
  return static_cast<uint64_t>(absl::GetCurrentTimeNanos());
}

void ApplyTo(const Batch& batch, RouteSet& routes) {
  for (const Route& change : batch) {
    routes.Exchange(change.prefix, change.next_hop);
  }
}

// Calls of UpdateRoutes, `rate` a second, or one after the other where it is 0.
// With `once`, only accepted until the last one, which is visible: a load.
struct UpdateOptions {
  double rate = 0;
  bool once = false;
  // One change in so many is followed by a lookup.
  uint64_t check_every = 1;
};

// Changes by UpdateRoutes, each followed by a lookup that has to see it.
class Updates final : public UpdateWorkload {
 public:
  Updates(std::vector<Batch> batches, const UpdateOptions& options,
          Target& target)
      : batches_(std::move(batches)), options_(options), target_(target) {
    for (size_t i = 0; i < batches_.size(); ++i) {
      v1::UpdateRoutesRequest& request = requests_.emplace_back();
      Encode(batches_[i], *request.mutable_updates());
      const bool last = i + 1 == batches_.size();
      request.set_ack(options.once && !last ? v1::ACK_ACCEPTED
                                            : v1::ACK_VISIBLE);
    }
  }

  absl::StatusOr<Seen> Run(absl::Duration time) override {
    Seen seen;
    const absl::Time start = absl::Now();
    absl::Time due = start;
    do {
      absl::SleepFor(due - absl::Now());
      if (options_.rate > 0) due += absl::Seconds(1 / options_.rate);
      const absl::Status status = Change(seen);
      if (!status.ok()) return status;
      next_ = (next_ + 1) % batches_.size();
    } while (options_.once ? next_ != 0 : absl::Now() - start < time);
    seen.seconds = absl::ToDoubleSeconds(last_visible_ - start);
    return seen;
  }

 private:
  absl::Status Change(Seen& seen) {
    const v1::UpdateRoutesRequest& request = requests_[next_];
    v1::UpdateRoutesResponse response;
    grpc::ClientContext context;
    const uint64_t sent = NowNanos();
    const absl::Status status = client::FromGrpc(
        target_.table->UpdateRoutes(&context, request, &response));
    last_visible_ = absl::Now();
    if (!status.ok()) return status;
    const uint64_t now = NowNanos();
    ++seen.operations;
    seen.changes += batches_[next_].size();
    ApplyTo(batches_[next_], target_.expected);
    const bool changed =
        response.added() + response.changed() + response.removed() > 0;
    if (request.ack() != v1::ACK_VISIBLE) return absl::OkStatus();
    if (changed) {
      if (response.visible_unix_nanos() < response.accepted_unix_nanos()) {
        return absl::InternalError("visible before accepted");
      }
      seen.commit.push_back(
          MicrosBetween(sent, response.accepted_unix_nanos()));
      seen.visible.push_back(MicrosBetween(response.accepted_unix_nanos(),
                                           response.visible_unix_nanos()));
      seen.call.push_back(MicrosBetween(sent, now));
    }
    if (seen.operations % options_.check_every != 0) return absl::OkStatus();
    return CheckSeen(response.generation(), batches_[next_].front().prefix);
  }

  // That a lookup sent now sees `generation` at least, and what it says to the
  // first address of `prefix`.
  absl::Status CheckSeen(uint64_t generation, const Prefix& prefix) {
    v1::LookupRequest request;
    request.add_addresses()->set_packed(prefix.address().ToPacked());
    v1::LookupResponse response;
    grpc::ClientContext context;
    const absl::Status status =
        client::FromGrpc(target_.lookup->Lookup(&context, request, &response));
    if (!status.ok()) return status;
    if (response.generation() < generation || response.results_size() != 1) {
      return absl::InternalError(absl::StrCat("generation ", generation,
                                              " was said to be visible; a "
                                              "lookup saw ",
                                              response.generation()));
    }
    const auto match = target_.expected.Match(prefix.address());
    const NextHopId wanted = match.has_value() ? match->next_hop : kNoRoute;
    if (response.results(0).next_hop_id() == wanted) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(prefix.ToString(), ": the next hop is ", wanted,
                     "; a lookup says ", response.results(0).next_hop_id()));
  }

  const std::vector<Batch> batches_;
  const UpdateOptions options_;
  Target& target_;
  std::vector<v1::UpdateRoutesRequest> requests_;
  size_t next_ = 0;
  absl::Time last_visible_;
};

using Call = grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                      v1::StreamUpdatesResponse>;

// The replies' side of one call. Thread-safe.
class Replies {
 public:
  explicit Replies(Call& call) : call_(call), thread_([this] { Loop(); }) {}
  ~Replies() { Join(); }

  // Waits for the credits of a batch about to be sent. False if the call ended.
  bool AwaitCredits(uint64_t cost) {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ || credits_ >= cost;
    });
    if (ended_) return false;
    credits_ -= cost;
    sent_.push_back(NowNanos());
    return true;
  }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // REQUIRES: joined.
  absl::StatusOr<Seen> seen() const {
    if (!failed_.ok()) return failed_;
    return seen_;
  }

 private:
  void Loop() {
    v1::StreamUpdatesResponse reply;
    while (call_.Read(&reply)) {
      const uint64_t now = NowNanos();
      const MutexLock lock(mutex_);
      Take(reply, now);
      changed_.notify_one();
    }
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }

  void Take(const v1::StreamUpdatesResponse& reply, uint64_t now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    credits_ += reply.credits();
    if (reply.batch_id() == 0) return;
    if (reply.has_error() || sent_.empty() ||
        reply.visible_generation() < reply.generation()) {
      if (failed_.ok()) {
        failed_ = absl::InternalError(absl::StrCat(
            "batch ", reply.batch_id(), ": ", reply.error().message(),
            " (generation ", reply.generation(), ", visible ",
            reply.visible_generation(), ")"));
      }
      return;
    }
    const uint64_t sent = sent_.front();
    sent_.pop_front();
    ++seen_.operations;
    if (reply.added() + reply.changed() + reply.removed() == 0) return;
    seen_.commit.push_back(MicrosBetween(sent, reply.accepted_unix_nanos()));
    seen_.visible.push_back(MicrosBetween(reply.accepted_unix_nanos(), now));
    seen_.call.push_back(MicrosBetween(sent, now));
  }

  Call& call_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<uint64_t> sent_ ABSL_GUARDED_BY(mutex_);
  Seen seen_;
  absl::Status failed_;
  std::thread thread_;
};

// Changes by StreamUpdates: as many on the way as the server gives credit for.
class Streams final : public UpdateWorkload {
 public:
  Streams(std::vector<Batch> batches, bool once, bool packed, Target& target)
      : batches_(std::move(batches)), once_(once), target_(target) {
    for (const Batch& batch : batches_) {
      v1::StreamUpdatesRequest& request = requests_.emplace_back();
      if (!packed) Encode(batch, *request.mutable_updates());
      for (const Route& change : batch) {
        if (packed) client::AddPacked(change, request);
      }
    }
  }

  absl::StatusOr<Seen> Run(absl::Duration time) override {
    grpc::ClientContext context;
    const auto call = target_.table->StreamUpdates(&context);
    v1::StreamUpdatesRequest hello;
    hello.set_ack(v1::ACK_VISIBLE);
    call->Write(hello);
    Replies replies(*call);
    std::vector<size_t> sent;  // which batches, to be booked afterwards
    const absl::Time start = absl::Now();
    do {
      v1::StreamUpdatesRequest& request = requests_[next_];
      if (!replies.AwaitCredits(1 + batches_[next_].size())) break;
      sent.push_back(next_);
      request.set_batch_id(sent.size());
      if (!call->Write(request)) break;
      next_ = (next_ + 1) % batches_.size();
    } while (once_ ? next_ != 0 : absl::Now() - start < time);
    call->WritesDone();
    replies.Join();
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    const absl::Status status = client::FromGrpc(call->Finish());
    if (!status.ok()) return status;
    absl::StatusOr<Seen> seen = replies.seen();
    if (!seen.ok()) return seen;
    if (seen->operations != sent.size()) {
      return absl::InternalError("batches of a stream were not answered");
    }
    for (const size_t i : sent) {
      seen->changes += batches_[i].size();
      ApplyTo(batches_[i], target_.expected);
    }
    seen->seconds = seconds;
    return seen;
  }

 private:
  const std::vector<Batch> batches_;
  const bool once_;
  Target& target_;
  std::vector<v1::StreamUpdatesRequest> requests_;
  size_t next_ = 0;
};

using Tables = std::vector<std::vector<Route>>;

// Whole tables by ReplaceRoutes: each of `tables` in turn; with `once`, one
// time.
class Replacements final : public UpdateWorkload {
 public:
  Replacements(Tables tables, bool once, Target& target)
      : once_(once), target_(target) {
    for (const std::vector<Route>& table : tables) {
      messages_.push_back(EncodeTable(table));
      sets_.emplace_back(Family::kIpv6, table);
    }
  }

  absl::StatusOr<Seen> Run(absl::Duration time) override {
    Seen seen;
    const absl::Time start = absl::Now();
    do {
      const absl::Status status = Replace(seen);
      if (!status.ok()) return status;
      next_ = (next_ + 1) % sets_.size();
      // Ends with the last table, which is the one all workloads begin with.
    } while (next_ != 0 || (!once_ && absl::Now() - start < time));
    seen.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    return seen;
  }

 private:
  absl::Status Replace(Seen& seen) {
    grpc::ClientContext context;
    v1::ReplaceRoutesResponse response;
    const uint64_t start = NowNanos();
    const auto call = target_.table->ReplaceRoutes(&context, &response);
    uint64_t sent = start;
    for (const v1::ReplaceRoutesRequest& message : messages_[next_]) {
      if (message.commit()) sent = NowNanos();
      if (!call->Write(message)) break;
    }
    call->WritesDone();
    const absl::Status status = client::FromGrpc(call->Finish());
    const uint64_t now = NowNanos();
    if (!status.ok()) return status;
    target_.expected = sets_[next_].Share();
    const RouteSet& table = target_.expected;
    if (response.added() + response.changed() + response.unchanged() !=
        table.size()) {
      return absl::InternalError("a table came to another number of routes");
    }
    if (response.visible_unix_nanos() < response.accepted_unix_nanos()) {
      return absl::InternalError("visible before accepted");
    }
    ++seen.operations;
    seen.changes += table.size();
    seen.commit.push_back(MicrosBetween(sent, response.accepted_unix_nanos()));
    seen.visible.push_back(MicrosBetween(response.accepted_unix_nanos(),
                                         response.visible_unix_nanos()));
    seen.call.push_back(MicrosBetween(start, now));
    return absl::OkStatus();
  }

  const bool once_;
  Target& target_;
  std::vector<std::vector<v1::ReplaceRoutesRequest>> messages_;
  std::vector<RouteSet> sets_;
  size_t next_ = 0;
};

}  // namespace

void Seen::Add(const Seen& other) {
  Append(other.commit, commit);
  Append(other.visible, visible);
  Append(other.call, call);
  operations += other.operations;
  changes += other.changes;
  seconds += other.seconds;
}

Target::Target(const std::shared_ptr<grpc::Channel>& control,
               const std::shared_ptr<grpc::Channel>& lookups)
    : table(v1::RouteTable::NewStub(control)),
      lookup(v1::RouteLookup::NewStub(lookups)),
      client(control) {}

absl::StatusOr<v1::Table> Target::State() const { return client.GetTable(""); }

absl::Status Target::CheckTable() const {
  auto next = expected.begin();
  uint64_t listed = 0;
  const auto generation =
      client.ListRoutes({}, [&](const Route& route) -> absl::Status {
        if (next == expected.end() || *next != route) {
          return absl::InternalError(absl::StrCat(
              "the table has an unexpected ", route.prefix.ToString()));
        }
        ++next;
        ++listed;
        return absl::OkStatus();
      });
  if (!generation.ok()) return generation.status();
  if (next == expected.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the table has ", listed, " routes instead of ", expected.size()));
}

absl::StatusOr<std::unique_ptr<UpdateWorkload>> MakeUpdateWorkload(
    absl::string_view name, absl::Span<const Route> routes,
    const UpdateWorkloadOptions& options, Target& target) {
  if (name == "load_update") {
    return std::make_unique<Updates>(Chunks(routes),
                                     UpdateOptions{.once = true}, target);
  }
  if (name == "load_stream" || name == "load_packed") {
    return std::make_unique<Streams>(Chunks(routes), true,
                                     name == "load_packed", target);
  }
  std::vector<Route> own(routes.begin(), routes.end());
  if (name == "load_replace") {
    return std::make_unique<Replacements>(Tables{std::move(own)}, true, target);
  }
  if (name == "replace_near") {
    return std::make_unique<Replacements>(
        Tables{NearTable(routes), std::move(own)}, false, target);
  }
  if (name == "replace_other") {
    return std::make_unique<Replacements>(
        Tables{OtherTable(routes), std::move(own)}, false, target);
  }
  size_t size = 1;
  size_t count = options.batches;
  const bool packed = Sized(name, "packed_", size);
  const bool stream = packed || Sized(name, "stream_", size);
  const bool one = name == "one" || name == "one_full";
  if (!stream && !one && !Sized(name, "batch_", size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no workload \"", name, "\""));
  }
  if (one) count = std::max<size_t>(count, 2000);
  if (stream) count = std::max<size_t>(kStreamChanges / size, 2);
  auto batches = MakeBatches(routes, size, count, /*seed=*/size);
  if (!batches.ok()) return batches.status();
  if (stream) {
    return std::make_unique<Streams>(*std::move(batches), false, packed,
                                     target);
  }
  // At full speed a lookup after every change would be a load of its own.
  return std::make_unique<Updates>(
      *std::move(batches),
      UpdateOptions{.rate = name == "one" ? options.rate : 0,
                    .check_every = name == "one_full" ? 64U : 1U},
      target);
}

}  // namespace planb::visibility
