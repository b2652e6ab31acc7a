// Changes by StreamUpdates: as many on the way as the server gives credit for.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/serving/visibility/works_internal.h"
#include "client/status.h"

namespace planb::visibility::internal {
namespace {

using Call = grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                      v1::StreamUpdatesResponse>;

// The replies' side of one call. Thread-safe.
class Replies {
 public:
  explicit Replies(Call& call) : call_(call), thread_([this] { Loop(); }) {}
  ~Replies() { Join(); }

  // Waits for the credits of a batch about to be sent. False if the call ended.
  bool AwaitCredits(uint64_t cost) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || credits_ >= cost; });
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
      const std::lock_guard lock(mutex_);
      Take(reply, now);
      changed_.notify_one();
    }
    const std::lock_guard lock(mutex_);
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
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<uint64_t> sent_ ABSL_GUARDED_BY(mutex_);
  Seen seen_;
  absl::Status failed_;
  std::thread thread_;
};

class Streams final : public Work {
 public:
  Streams(std::vector<Batch> batches, bool once, Target& target)
      : batches_(std::move(batches)), once_(once), target_(target) {
    for (const Batch& batch : batches_) {
      Encode(batch, *requests_.emplace_back().mutable_updates());
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

}  // namespace

std::unique_ptr<Work> StreamWork(std::vector<Batch> batches, bool once,
                                 Target& target) {
  return std::make_unique<Streams>(std::move(batches), once, target);
}

}  // namespace planb::visibility::internal
