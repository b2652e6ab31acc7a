#include "server/batch_stream.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/error.h"

namespace planb::server {
namespace {

// Stands in the request before it is read. gRPC says of a message it could not
// parse what it says of the end of all messages; but parsing wipes this.
constexpr char kUnread[] = "\x7f(unread)";

// Ends a call at once.
class Refusal final : public grpc::ServerBidiReactor<v1::BatchLookupRequest,
                                                     v1::BatchLookupResponse> {
 public:
  explicit Refusal(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going down");
}

absl::Status Malformed() {
  return Error(absl::StatusCode::kInvalidArgument, "MESSAGE_MALFORMED",
               "the stream's last message is no BatchLookupRequest");
}

}  // namespace

void BatchStream::Start() {
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }
  Proceed();
}

void BatchStream::Drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  Proceed();
}

void BatchStream::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    // Answered even while draining: it was received.
    answering_ = ok && !finished_;
    if (finished_) return;
    no_more_requests_ |= !ok;
    malformed_ = !ok && request_.table() != kUnread;
  }
  if (ok) {
    Handle();
  } else {
    Proceed();
  }
}

void BatchStream::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    replies_.pop_front();
    if (!ok) broken_ = true;
  }
  Proceed();
}

void BatchStream::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  Proceed();
}

// The set owns this stream; leaving it is the end.
void BatchStream::OnDone() { streams_.Remove(this); }

void BatchStream::Handle() {
  received_ = absl::Now();
  const absl::StatusOr<Table*> table = context_.tables.Find(request_.table());
  if (!table.ok()) return Answer(nullptr, table.status());
  const absl::Status valid = CheckBatch(request_, context_.limits);
  if (!valid.ok()) return Answer(*table, valid);
  if (IsVisible(**table, request_.min_generation())) {
    return Answer(*table, absl::OkStatus());
  }
  AwaitGeneration(**table);
}

void BatchStream::AwaitGeneration(Table& table) {
  const uint64_t generation = request_.min_generation();
  const auto wait = absl::Milliseconds(request_.max_wait_ms());
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;  // from here on, request_ may be dropped
  }
  WhenVisible(context_, table, generation, wait,
              [self = shared_from_this(), &table](const absl::Status& status) {
                self->Resume(table, status);
              });
  Proceed();  // The client may have gone before anybody waited for it.
}

void BatchStream::Resume(Table& table, const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    waiting_ = false;
  }
  Answer(&table, status);
}

void BatchStream::Answer(Table* table, const absl::Status& error) {
  auto reply = std::make_unique<v1::BatchLookupResponse>();
  if (error.ok()) {
    size_t misses = 0;
    {
      const auto snapshot = table->Read();
      misses = AnswerBatch(*snapshot, context_.kernel, request_, *reply);
    }
    context_.metrics.Answered(BatchSize(request_), misses,
                              absl::Now() - received_);
  } else {
    const uint64_t visible = table == nullptr ? 0 : table->Read()->generation();
    FailBatch(error, request_.request_id(), visible, *reply);
    context_.metrics.Failed(ErrorReason(error));
  }
  Reply(std::move(reply));
}

void BatchStream::Reply(std::unique_ptr<v1::BatchLookupResponse> reply) {
  {
    const std::lock_guard lock(mutex_);
    answering_ = false;
    replies_.push_back(std::move(reply));
  }
  Proceed();
}

void BatchStream::Proceed() {
  for (;;) {
    bool read = false;
    const v1::BatchLookupResponse* write = nullptr;
    std::optional<grpc::Status> finish;
    {
      const std::lock_guard lock(mutex_);
      if (!started_ || finished_) return;
      if (broken_ && !writing_) replies_.clear();
      const bool closing = no_more_requests_ || draining_ || broken_;
      if (!writing_ && !replies_.empty()) {
        writing_ = true;
        write = replies_.front().get();
      }
      if (!closing && !reading_ && !answering_ &&
          replies_.size() < kMaxReplies) {
        reading_ = true;
        read = true;
      }
      if (write != nullptr || read) {
        ++starting_;
      } else if (closing && !writing_ && starting_ == 0 &&
                 (!answering_ || (waiting_ && broken_))) {
        // A read may still be outstanding: the end of the call ends it too.
        finished_ = true;
        finish = ToGrpc(malformed_          ? Malformed()
                        : no_more_requests_ ? absl::OkStatus()
                                            : Draining());
        // Who still waits for a generation should not keep the addresses.
        if (waiting_) request_ = v1::BatchLookupRequest();
      }
    }
    if (finish.has_value()) return Finish(*std::move(finish));
    if (write == nullptr && !read) return;
    if (write != nullptr) StartWrite(write);
    if (read) {
      request_.set_table(kUnread);
      StartRead(&request_);
    }
    const std::lock_guard lock(mutex_);
    --starting_;
  }
}

grpc::ServerBidiReactor<v1::BatchLookupRequest, v1::BatchLookupResponse>*
BatchStreams::Open() {
  auto stream = std::make_shared<BatchStream>(context_, *this);
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return new Refusal(Draining());
    if (open_.size() >= context_.limits.max_streams) {
      return new Refusal(
          QuotaError("TOO_MANY_STREAMS", "streams",
                     absl::StrCat("the limit is ", context_.limits.max_streams),
                     absl::Seconds(1)));
    }
    open_.emplace(stream.get(), stream);
  }
  in_flight_.Begin();
  context_.metrics.StreamOpened();
  stream->Start();
  return stream.get();
}

void BatchStreams::Remove(const BatchStream* stream) {
  std::shared_ptr<BatchStream> last;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(stream);
    last = std::move(it->second);
    open_.erase(it);
  }
  context_.metrics.StreamClosed();
  in_flight_.End();
}

void BatchStreams::Drain(absl::Time deadline) {
  std::vector<std::shared_ptr<BatchStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [key, stream] : open_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->Drain();
  streams.clear();
  in_flight_.AwaitIdle(deadline);
}

}  // namespace planb::server
