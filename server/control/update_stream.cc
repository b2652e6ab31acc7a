// SPDX-License-Identifier: Apache-2.0

// StreamUpdates: batches of changes, several on the way at once, each answered
// for itself, in order.

#include <google/protobuf/arena.h>

#include <chrono>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "proto/wire/packed_changes.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"
#include "server/control/decode_update.h"
#include "server/control/table_service.h"

namespace planb::server {
namespace {

using Stream =
    grpc::ServerReaderWriter<v1::StreamUpdatesResponse, grpc::ByteBuffer>;

// How often an idle stream checks whether its table still takes updates.
constexpr auto kCancelPollInterval = std::chrono::milliseconds(100);
// How often one that waits for memory asks for it.
constexpr absl::Duration kMemoryPollInterval = absl::Milliseconds(5);

// The credits that a batch takes and gives back, without those of an id.
uint64_t Cost(const v1::StreamUpdatesRequest& request) {
  return 1 + wire::CountEntries(request);
}

// A batch that is submitted and not yet answered.
struct Pending {
  uint64_t batch_id;
  uint64_t cost;
  uint64_t id_cost;
  std::future<Table::Outcome> outcome;
  // The table may hold the batch until it is stored.
  MemoryShare share;
  UpdateName update;
};

std::future<Table::Outcome> Refused(absl::Status why) {
  std::promise<Table::Outcome> promise;
  promise.set_value(std::move(why));
  return promise.get_future();
}

// The answering side: a queue of submitted batches, and the thread that waits
// for each in order and answers it. Thread-safe.
class Answers {
 public:
  Answers(ControlContext& context, grpc::ServerContext& call, Stream& stream,
          Table& table, WantedAck ack)
      : context_(context),
        call_(call),
        stream_(stream),
        table_(table),
        ack_(ack),
        thread_([this] { Loop(); }) {}

  ~Answers() { Finish(); }

  // Takes the credits of a batch before it is submitted. False, and takes
  // nothing, if there are fewer. Those of an id are not owed by a client that
  // does not know of them: waits for them.
  bool Take(const Pending& pending) {
    const uint64_t credits = context_.limits.update_credits;
    MutexLock lock(mutex_);
    if (pending.cost > credits - on_the_way_) return false;
    if (pending.id_cost > 0) {
      freed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return on_the_way_ == 0 ||
               on_the_way_ + ids_on_the_way_ + pending.cost + pending.id_cost <=
                   credits;
      });
    }
    on_the_way_ += pending.cost;
    ids_on_the_way_ += pending.id_cost;
    return true;
  }

  void Push(Pending pending) {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(pending));
    changed_.notify_one();
  }

  // Returns when all is answered.
  void Finish() {
    {
      const MutexLock lock(mutex_);
      finished_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Loop() {
    v1::StreamUpdatesResponse first;
    first.set_credits(context_.limits.update_credits);
    first.set_visible_generation(table_.visible());
    first.set_persisted_generation(table_.persisted());
    stream_.Write(first);

    MutexLock lock(mutex_);
    for (;;) {
      changed_.wait_for(lock, kCancelPollInterval,
                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                          return finished_ || !queue_.empty();
                        });
      if (!queue_.empty()) {
        Pending pending = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        const bool written = Answer(pending);
        lock.lock();
        if (!written) call_.TryCancel();
      } else if (finished_) {
        return;
      } else if (on_the_way_ == 0) {
        const absl::Status refusal = table_.refusal();
        if (!refusal.ok()) EndCall(call_, refusal);
      }
    }
  }

  // False if the client is gone.
  bool Answer(Pending& pending) {
    v1::StreamUpdatesResponse response;
    response.set_batch_id(pending.batch_id);
    response.set_credits(pending.cost);
    // What was accepted while an earlier batch waited in vain for other servers
    // has waited with it.
    const bool was_accepted =
        pending.outcome.wait_for(std::chrono::seconds(0)) ==
        std::future_status::ready;
    const Table::Outcome outcome = pending.outcome.get();
    absl::Status status = outcome.status();
    context_.metrics.Updated(!status.ok()            ? "refused"
                             : outcome->counts.Any() ? "accepted"
                                                     : "unchanged");
    UpdateName& update = pending.update;
    if (status.ok()) {
      context_.update_log.Accepted(update, outcome->generation);
      const absl::Duration wait = in_vain_ && was_accepted
                                      ? absl::ZeroDuration()
                                      : context_.limits.max_replication_wait;
      status = AwaitAck(call_, ack_, table_, outcome->generation, wait);
      in_vain_ = ErrorReason(status) == "NOT_REPLICATED";
    } else {
      context_.update_log.Refused(update, call_, status);
    }
    context_.update_log.Trace(
        std::move(update), status, outcome.ok() ? &*outcome : nullptr,
        outcome.ok() ? table_.PublishedAt(outcome->generation)
                     : absl::InfinitePast());
    if (status.ok()) {
      FillCounts(*outcome, response);
      response.set_generation(outcome->generation);
    } else {
      v1::UpdateError& error = *response.mutable_error();
      error.set_code(static_cast<int>(status.code()));
      error.set_reason(ErrorReason(status));
      error.set_field(ErrorField(status));
      error.set_message(std::string(status.message()));
    }
    response.set_visible_generation(table_.visible());
    response.set_persisted_generation(table_.persisted());
    {
      // Before the client learns of them, so that it never sends more than this
      // side allows.
      const MutexLock lock(mutex_);
      on_the_way_ -= pending.cost;
      ids_on_the_way_ -= pending.id_cost;
      freed_.notify_one();
    }
    return stream_.Write(response);
  }

  ControlContext& context_;
  grpc::ServerContext& call_;
  Stream& stream_;
  Table& table_;
  const WantedAck ack_;
  bool in_vain_ = false;  // the last batch was not replicated; of the thread
  Mutex mutex_;
  CondVar changed_;
  CondVar freed_;  // credits
  std::deque<Pending> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t on_the_way_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ids_on_the_way_ ABSL_GUARDED_BY(mutex_) = 0;  // their credits
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

absl::Status CreditExceeded(uint64_t credits) {
  return QuotaError("CREDIT_EXCEEDED", "credits",
                    absl::StrCat("more than ", credits, " changes on the way"));
}

// The messages of one call, read and parsed one at a time.
class Requests {
 public:
  Requests(ControlContext& context, const grpc::ServerContext& call,
           Stream& stream)
      : context_(context), call_(call), stream_(stream) {}

  // Frees the last message and reads the next. False after the last one, and
  // after an error, which is status().
  bool Read() {
    arena_.Reset();
    share_.reset();
    grpc::ByteBuffer bytes;
    if (!stream_.Read(&bytes)) return false;
    status_ = Parse(bytes);
    return status_.ok();
  }

  // Frees the message. The share of memory is the caller's from now on.
  MemoryShare TakeShare() {
    arena_.Reset();
    return std::exchange(share_, std::nullopt);
  }

  // Valid until the next Read() or TakeShare().
  const v1::StreamUpdatesRequest& message() const { return *message_; }
  const absl::Status& status() const { return status_; }

 private:
  // Waits while other updates have the memory: the client has the credit.
  absl::Status Parse(grpc::ByteBuffer& bytes) {
    const ControlLimits& limits = context_.limits;
    const absl::StatusOr<size_t> size = DecodedSize<v1::StreamUpdatesRequest>(
        bytes, {.entries = limits.update_credits,
                .bytes = limits.update_memory_bytes,
                .unpacked = kUnpackedBytes});
    if (!size.ok()) {
      return ErrorReason(size.status()) == "BATCH_TOO_LARGE"
                 ? CreditExceeded(limits.update_credits)
                 : size.status();
    }
    while (!TakeMemory(context_, *size, share_).ok()) {
      if (call_.IsCancelled()) return ClientGone();
      absl::SleepFor(kMemoryPollInterval);
    }
    message_ = google::protobuf::Arena::CreateMessage<v1::StreamUpdatesRequest>(
        &arena_);
    return ParseAndFree(bytes, *message_);
  }

  ControlContext& context_;
  const grpc::ServerContext& call_;
  Stream& stream_;
  MemoryShare share_;
  google::protobuf::Arena arena_;
  v1::StreamUpdatesRequest* message_ = nullptr;
  absl::Status status_;
};

// Serves one call to its end, with a second thread that answers while this one
// reads. The credits that it grants bound what is on the way.
// Errors: NOT_FOUND (TABLE_NOT_FOUND), those of CheckAck, INVALID_ARGUMENT
// (MESSAGE_MALFORMED), RESOURCE_EXHAUSTED (TOO_MANY_STREAMS, CREDIT_EXCEEDED,
// REQUEST_TOO_LARGE).
absl::Status ServeUpdates(ControlContext& context, grpc::ServerContext& call,
                          Stream& stream) {
  const auto slot = context.update_streams.Enter(call);
  if (!slot.ok()) return slot.status();
  Requests requests(context, call, stream);
  if (!requests.Read()) return requests.status();
  const v1::StreamUpdatesRequest& hello = requests.message();
  const absl::StatusOr<TableRef> table =
      context.tables.FindToUpdate(hello.table());
  if (!table.ok()) return table.status();
  const absl::Status ack = CheckAck(WantedBy(hello), **table);
  if (!ack.ok()) return ack;
  const uint64_t writer_epoch = hello.writer_epoch();

  Answers answers(context, call, stream, **table, WantedBy(hello));
  const bool empty_hello = Cost(hello) == 1;
  for (bool read = !empty_hello || requests.Read(); read;
       read = requests.Read()) {
    const v1::StreamUpdatesRequest& request = requests.message();
    Pending pending = {
        .batch_id = request.batch_id(),
        .cost = Cost(request),
        .id_cost = request.request_id().empty() ? 0 : kRequestIdCredits,
        .outcome = {},
        .share = {},
        .update = context.update_log.Begin("StreamUpdates", call)};
    UpdateLog::Name((*table)->name(), absl::StrCat(request.batch_id()),
                    pending.update);
    if (!answers.Take(pending)) {
      answers.Finish();
      return CreditExceeded(context.limits.update_credits);
    }
    absl::StatusOr<UpdateBatch> batch =
        DecodeUpdate(request, context.limits.max_update_routes);
    if (batch.ok()) {
      batch->writer_epoch = writer_epoch;
      pending.outcome = (*table)->Submit(*std::move(batch));
    } else {
      context.metrics.Operated(RefusedOperations(request));
      pending.outcome = Refused(batch.status());
    }
    pending.share = requests.TakeShare();
    answers.Push(std::move(pending));
    // The client was told by the answer to this batch. The call ends now, also
    // for a client that goes on sending.
    if (!(*table)->refusal().ok()) break;
  }
  answers.Finish();
  return requests.status().ok() ? (*table)->refusal() : requests.status();
}

}  // namespace

grpc::Status TableService::StreamUpdates(
    grpc::ServerContext* call,
    grpc::ServerReaderWriter<v1::StreamUpdatesResponse, Bytes>* stream) {
  return ToGrpc(ServeUpdates(context_, *call, *stream));
}

}  // namespace planb::server
